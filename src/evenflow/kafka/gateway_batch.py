"""One batch of the gateway: markers and messages to Kafka, counts on the way, decisions after it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
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
from evenflow.kafka.gateway_state import Counted, GatewayState, Route, advanced
from evenflow.kafka.gateway_table import Table
from evenflow.planning.hot_keys import HotKeys
from evenflow.planning.hot_keys_state import Reason
from evenflow.state.checkpoint import Checkpoint
from evenflow.state.manifest import Manifest

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# Records wait for a broker as long as it takes: one that expired in the midst of a batch, while later
# ones were written, would be missed by readers, who take a higher position to mean that all lower ones
# were there. The producer keeps the order of what it sends again only if it is idempotent. A task's
# records go to all partitions, and without time to gather they leave in many small requests; at its end
# a task sends whatever is left at once.
PRODUCER = {
    "kafka.acks": "all",
    "kafka.enable.idempotence": "true",
    "kafka.delivery.timeout.ms": "2147483647",
    "kafka.max.block.ms": "300000",
    "kafka.linger.ms": "50",
    "kafka.batch.size": "131072",
    "kafka.buffer.memory": "67108864",
}
# How a batch is run. `foreachBatch` has a session of its own, so that these settings are nobody else's.
_V1_SOURCES = "spark.sql.sources.useV1SourceList"
_PLAINLY = {
    "spark.sql.adaptive.enabled": "false",  # there is nothing to adapt, and it plans again
    "spark.sql.ui.explainMode": "simple",  # each batch's plan is printed for Spark's own displays
}


@dataclass(frozen=True)
class Target:
    """Where a gateway writes: a topic's partitions, by a policy.

    Parameters:
        topic: to write to.
        options: of Spark's Kafka sink.
        policy: which keys are hot, and where they go.
        interval: seconds between two decisions.
        window: seconds of a counting window.
        gateways: how many gateways share the stream.
        index: which of them this is.
        clock: tells the time in seconds.
    """

    topic: str
    options: Mapping[str, str]
    policy: HotKeys
    interval: float
    window: float
    gateways: int
    index: int
    clock: Callable[[], float]


@dataclass(frozen=True)
class GatewayProgram:
    """What the gateway does with each of its batches.

    Guarantee: run again, a batch writes the same records with the same positions, sets and markers.

    Parameters:
        target: where messages go.
        rows: which columns are key, value and order.
        name: of the query.
    """

    target: Target
    rows: Rows
    name: str | None = None
    made: dict[str, Any] = field(default_factory=dict)  #: the last batch's table, and of what

    def run(
        self, checkpoint: Checkpoint, last: Manifest | None, rows: Any, batch: int, steps: Steps
    ) -> Outcome:
        target, policy = self.target, self.target.policy
        if last is None:
            state = GatewayState.start(policy, target.clock())
        else:
            state = GatewayState.from_json(last.plan, policy)
        writer = writer_number(checkpoint.query)
        moves, routes = state.moves, state.routes()
        steps.done("plan")
        if moves:
            write_batch(
                marker_rows(rows.sparkSession, moves, writer, batch, policy.partitions),
                target.options,
                target.topic,
            )
        steps.done("markers")
        before = 0 if last is None else int(last.metrics["rows"])
        counted = self._send(rows, routes, writer, batch, before)
        steps.done("messages")
        state = advanced(
            policy, state, counted, target.clock(), target.window, target.interval, batch + 1
        )
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

    def _send(
        self, df: DataFrame, routes: list[Route], writer: int, epoch: int, expected: int
    ) -> Counted:
        """Write a batch's messages; what was counted of them on the way."""
        target, policy = self.target, self.target.policy
        rows = own_rows(Selection.of(df), target.gateways, target.index, policy.seed)
        every = sampling(expected, policy.threshold)
        rows = countable(rows, every)
        table = self._table(df.sparkSession, routes)
        if self.rows.in_order:
            rows = placed(rows, table, policy.partitions, policy.seed)
            # Last, because Spark copies every row before it observes them. The sink takes what it
            # knows the name of, and so not the column that was counted.
            sent, seen = observed(with_headers(rows, writer, epoch).df(), policy.threshold, every)
        else:
            # First: which rows are counted is chance, and that must not go through a shuffle.
            sent, seen = observed(rows.df(), policy.threshold, every)
            rows = Selection.of(sent.drop("counted"))
            rows = placed(rows, table, policy.partitions, policy.seed)
            sent = in_sequence(rows.df(), policy.partitions, len(self.rows.order))
            sent = with_headers(Selection.of(sent), writer, epoch).df()
        write_batch(sent, target.options, target.topic)
        return counts(seen, every)

    def _table(self, session: SparkSession, routes: list[Route]) -> Table | None:
        """A table of these routes: the last batch's, if they are the same."""
        if not routes:
            return None
        if self.made.get("routes") != routes:
            self.made.update(routes=routes, table=Table.of(session, routes))
        table: Table = self.made["table"]
        return table


def write_batch(rows: DataFrame, options: Mapping[str, str], topic: str) -> None:
    """Write a batch within `foreachBatch` by Spark's own Kafka sink, so that it can be observed."""
    session = rows.sparkSession
    # Only by its newer interface does Spark's sink let a batch be observed.
    older = session.conf.get(_V1_SOURCES) or ""
    session.conf.set(_V1_SOURCES, ",".join(s for s in older.split(",") if s.strip() != "kafka"))
    for name, value in _PLAINLY.items():
        session.conf.set(name, value)
    rows.write.format("kafka").options(**options, topic=topic).mode("append").save()


def writer_number(query: str) -> int:
    """A gateway's number as a writer, of 40 bits, from its checkpoint's name: a gateway that starts
    over with another checkpoint, and with batch 0, is another writer to readers.

    Example:
        >>> writer_number("00000000ff0000000000000000000000")
        255
    """
    return int(query[:10], 16)
