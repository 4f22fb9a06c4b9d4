"""One batch of the gateway: write markers and messages to Kafka, count keys, decide moves."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from evenflow.engine.loop import Outcome, Steps
from evenflow.kafka.gateway_counts import countable, counts, observed, sampling
from evenflow.kafka.gateway_query import Selection
from evenflow.kafka.gateway_rows import (
    Rows,
    in_sequence,
    marker_rows,
    own_rows,
    placed,
    with_headers,
)
from evenflow.kafka.gateway_size import SizeLimit
from evenflow.kafka.gateway_source import source_name
from evenflow.kafka.gateway_state import Counted, GatewayState, Route, advance
from evenflow.kafka.gateway_table import Table
from evenflow.kafka.gateway_topics import Target
from evenflow.kafka.gateway_watch import TopicWatch
from evenflow.planning.hot_keys_state import Reason
from evenflow.state.checkpoint import Checkpoint
from evenflow.state.manifest import Manifest
from evenflow.state.source import Source

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from evenflow.kafka.gateway import Gateway

# Records never expire: if one did while later ones of the batch were written, readers would miss it,
# because they take a position to mean that all lower ones were there. Only an idempotent producer keeps
# the order of retried records. A task's records go to all partitions, and without linger they would
# leave in many small requests; at its end a task flushes.
PRODUCER = {
    "kafka.acks": "all",
    "kafka.enable.idempotence": "true",
    "kafka.delivery.timeout.ms": "2147483647",
    "kafka.max.block.ms": "300000",
    "kafka.linger.ms": "50",
    "kafka.batch.size": "131072",
    "kafka.buffer.memory": "67108864",
    "kafka.max.request.size": "67108864",  # the broker decides how large a record may be
}
# `foreachBatch` has a session of its own, so these settings affect nothing else.
_V1_SOURCES = "spark.sql.sources.useV1SourceList"
_BATCH_SETTINGS = {
    "spark.sql.adaptive.enabled": "false",  # there is nothing to adapt, and it would plan again
    "spark.sql.ui.explainMode": "simple",  # Spark formats each batch's plan for its UI
}


@dataclass(frozen=True)
class GatewayProgram:
    """Processes the batches of a gateway.

    Guarantee: a batch that is rerun writes the same records with the same positions, sets and markers.

    Parameters:
        gateway: where messages go.
        rows: which columns are key, value and order.
        target: the topic that they go to.
        topics: that the rows come from, if they are from topics.
        name: of the query.
    """

    gateway: Gateway
    rows: Rows
    target: Target
    topics: list[str] = field(default_factory=list)
    name: str | None = None
    options: dict[str, str] = field(init=False)  #: of Spark's sink, for this run
    watch: TopicWatch = field(init=False)
    cache: dict[str, Any] = field(default_factory=dict)  #: the last batch's routes and their table

    def __post_init__(self) -> None:
        gateway = self.gateway
        options = gateway.sink_options()
        # Kafka's producer cuts a batch that the broker finds too large into batches of this very size,
        # and would do so forever.
        size = min(int(options["kafka.batch.size"]), self.target.limit)
        object.__setattr__(self, "options", {**options, "kafka.batch.size": str(size)})
        watch = TopicWatch(gateway.bootstrap, gateway.topic, self.target.id)
        object.__setattr__(self, "watch", watch)

    def run(
        self,
        checkpoint: Checkpoint,
        last: Manifest | None,
        rows: Any,
        batch: int,
        steps: Steps,
        source: Source,
    ) -> Outcome:
        gateway, policy = self.gateway, self.gateway.policy
        if last is None:
            state = GatewayState.start(policy, gateway.clock())
        else:
            state = GatewayState.from_json(last.plan, policy)
        writer = writer_number(checkpoint.query)
        moves, routes = state.moves, state.routes()
        steps.done("plan")
        with self.watch.over(rows):
            if moves:
                write_batch(
                    marker_rows(rows.sparkSession, moves, writer, batch, policy.partitions),
                    self.options,
                    gateway.topic,
                )
            steps.done("markers")
            before = 0 if last is None else int(last.metrics["rows"])
            with self.limit.explained(gateway.topic, lambda n: source_name(n, self.topics)):
                counted = self._send(rows, routes, writer, batch, before)
        steps.done("messages")
        now, window = gateway.clock(), gateway.counting_window
        state = advance(policy, state, counted, now, window, gateway.interval, batch + 1)
        metrics = {
            "batch": batch,
            "rows": counted.total,
            "moves": len(moves),
            "moved": {r.name.lower(): sum(m.reason == r for m in moves) for r in Reason},
            "hot_keys": len(state.hot.keys),
            "away": len(routes),
            "sizes": policy.sizes(state.hot).tolist(),
        }
        steps.done("decide")
        return Outcome(Manifest(batch=batch, plan=state.to_json(policy), metrics=metrics))

    @property
    def limit(self) -> SizeLimit:
        """Of a record with its headers."""
        return SizeLimit.of(self.target.limit, self.options)

    def _send(
        self, df: DataFrame, routes: list[Route], writer: int, epoch: int, expected: int
    ) -> Counted:
        """Write a batch's messages; return the counts taken on the way."""
        gateway, policy = self.gateway, self.gateway.policy
        rows = own_rows(Selection.of(df), gateway.gateways, gateway.index, policy.seed)
        every = sampling(expected, policy.threshold)
        rows = countable(rows, every)
        table = self._table(df.sparkSession, routes)
        limit = self.limit.size
        if self.rows.in_order:
            rows = placed(rows, table, policy.partitions, policy.seed)
            # Last, because Spark copies every row before observing it. The sink takes only columns
            # whose names it knows, so the column `counted` does no harm.
            sent, seen = observed(
                with_headers(rows, writer, epoch, limit).df(), policy.threshold, every
            )
        else:
            # First: the random sample must not go through a shuffle, which may be recomputed.
            sent, seen = observed(rows.df(), policy.threshold, every)
            rows = Selection.of(sent.drop("counted"))
            rows = placed(rows, table, policy.partitions, policy.seed)
            sent = in_sequence(rows.df(), policy.partitions, len(self.rows.order))
            sent = with_headers(Selection.of(sent), writer, epoch, limit).df()
        write_batch(sent, self.options, gateway.topic)
        return counts(seen, every)

    def _table(self, session: SparkSession, routes: list[Route]) -> Table | None:
        """A table of these routes; the last batch's, if they are the same."""
        if not routes:
            return None
        if self.cache.get("routes") != routes:
            self.cache.update(routes=routes, table=Table.of(session, routes))
        table: Table = self.cache["table"]
        return table


def write_batch(rows: DataFrame, options: Mapping[str, str], topic: str) -> None:
    """Write a batch within `foreachBatch` with Spark's Kafka sink, so that it can be observed."""
    session = rows.sparkSession
    # Only the sink's version 2 API lets a batch be observed.
    older = session.conf.get(_V1_SOURCES) or ""
    session.conf.set(_V1_SOURCES, ",".join(s for s in older.split(",") if s.strip() != "kafka"))
    for name, value in _BATCH_SETTINGS.items():
        session.conf.set(name, value)
    rows.write.format("kafka").options(**options, topic=topic).mode("append").save()


def writer_number(query: str) -> int:
    """A gateway's writer number of 40 bits, from its checkpoint's id: a gateway that starts over with a
    new checkpoint, at batch 0, is another writer to readers.

    Example:
        >>> writer_number("00000000ff0000000000000000000000")
        255
    """
    return int(query[:10], 16)
