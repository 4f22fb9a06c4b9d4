"""The gateway: any stream to the partitions of a Kafka topic, with hot keys spread and moved."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

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
from evenflow.kafka.gateway_topics import partitions_of
from evenflow.model import InputError
from evenflow.model.validation import check_positive, check_whole
from evenflow.planning.hot_keys import HotKeys
from evenflow.planning.hot_keys_state import Reason
from evenflow.spark.columns import check_columns
from evenflow.spark.control_loop import COLLECT_EVERY, Steps
from evenflow.spark.query import Query, stoppable
from evenflow.spark.session import check_session
from evenflow.state.checkpoint import Checkpoint, local_path
from evenflow.state.journal import append_metrics, drop_unfinished
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
# After every poll Spark asks the broker twice how far the topic reaches; Kafka's own 500 messages a
# poll are few for that. A task holds no more of them than fit into the bytes of a fetch, which stay
# Kafka's: an executor keeps what it has fetched for up to 64 partitions.
CONSUMER = {"kafka.max.poll.records": "10000"}
_FIXED = ("kafka.acks", "kafka.enable.idempotence", "kafka.delivery.timeout.ms")

# How a batch is run. `foreachBatch` has a session of its own, so that these settings are nobody else's.
_V1_SOURCES = "spark.sql.sources.useV1SourceList"
_PLAINLY = {
    "spark.sql.adaptive.enabled": "false",  # there is nothing to adapt, and it plans again
    "spark.sql.ui.explainMode": "simple",  # each batch's plan is printed for Spark's own displays
}


@dataclass(frozen=True)
class Gateway:
    """Writes a stream to a Kafka topic: hot keys where they balance, all others by hash.

    Every batch is one pass over its rows by Spark's own expressions and Spark's own Kafka sink; the
    batch's most frequent keys are counted on the way. After a batch, the policy decides by the counts
    and the clock; moves are written down with the batch's manifest before the next batch uses them.

    Guarantee: a key's messages are written in the order of the source, to one partition at a time;
    every move is announced by markers (`evenflow.ordering`) that come before the batch's messages in
    every partition. A batch that is run again, after a crash at any moment, writes the same records
    with the same positions, sets and markers, so that a reader knows what it has seen. A restarted
    gateway goes on with the hot keys, sizes and message sets that it had.

    Parameters:
        bootstrap: the brokers' address.
        topic: to write to. It has as many partitions as the policy.
        policy: which keys are hot, and where they go.
        interval: seconds between two decisions.
        window: seconds of a counting window; the interval if not given.
        gateways: how many gateways share the stream, each with its own checkpoint.
        index: which of them this is, from 0. It writes the keys that it owns, and no others.
        options: of Spark's Kafka sink, such as "kafka.compression.type".
        clock: tells the time in seconds.

    Example:
        >>> gateway = Gateway("localhost:9092", "clicks-balanced", HotKeys(12, threshold=1e-3))
        >>> query = gateway.start(read_topic(spark, "localhost:9092", "clicks"),
        ...                       "checkpoints/gateway", rows=TOPIC_ROWS)  # doctest: +SKIP

    Paper: "Load balancing and generalized split state reconciliation in event driven systems"
    (SMALOPS), §II.
    """

    bootstrap: str
    topic: str
    policy: HotKeys
    interval: float = 10.0
    window: float | None = None
    gateways: int = 1
    index: int = 0
    options: Mapping[str, str] = field(default_factory=dict)
    clock: Callable[[], float] = time.time

    def __post_init__(self) -> None:
        check_positive("the decision interval", self.interval)
        check_positive("the counting window", self.counting_window)
        check_whole("the number of gateways", self.gateways, 1)
        if not 0 <= self.index < self.gateways:
            raise InputError(
                f"the gateway's index is {self.index}, and there are {self.gateways} gateways: give a "
                f"number from 0 to {self.gateways - 1}, another one to each"
            )
        for name in _FIXED:
            if self.options.get(name, PRODUCER[name]) != PRODUCER[name]:
                raise InputError(
                    f"{name} is {self.options[name]!r} and must be {PRODUCER[name]!r}, because the "
                    "order of messages rests on it; leave it out"
                )

    @property
    def counting_window(self) -> float:
        return self.interval if self.window is None else self.window

    def start(
        self,
        df: DataFrame,
        checkpoint: str | os.PathLike[str],
        rows: Rows | None = None,
        *,
        every: str | None = None,
        available_now: bool = False,
        name: str | None = None,
        on_batch: Callable[[Mapping[str, Any]], object] | None = None,
        keep: int = 10,
    ) -> Query:
        """Start the streaming query.

        Parameters:
            df: a stream.
            checkpoint: a directory for the gateway's state and Spark's own progress; a gateway that
                finds one goes on where it ended. Refused if it is another topic's.
            rows: which columns are key, value and order.
            every: how often a batch begins ("5 seconds"); None for as soon as the last one is done.
            available_now: take what there is and end.
            name: of the query, for Spark's own displays.
            on_batch: called with the metrics of every batch, once it is committed.
            keep: how many old versions of the state to keep.
        """
        rows = rows or Rows()
        if not df.isStreaming:
            raise InputError("this DataFrame is no stream; read it with spark.readStream")
        if every is not None and available_now:
            raise InputError("give `every` or `available_now`, not both")
        check_session(df.sparkSession)
        _check_rows(df, rows)
        found = partitions_of(self.bootstrap, self.topic)
        if found != self.policy.partitions:
            raise InputError(
                f"the topic {self.topic!r} has {found} partitions, and the gateway was told "
                f"{self.policy.partitions}: tell it {found}"
            )
        path = str(local_path(os.fspath(checkpoint)))
        state = Checkpoint.open(path, self.identity)
        lock = state.lock()
        try:
            differences = state.differences(self.identity)
            if differences:
                raise InputError(
                    f"the checkpoint {path} belongs to another gateway ({'; '.join(differences)}); "
                    "start this one with a checkpoint of its own"
                )
            drop_unfinished(Path(path) / "spark")
            # Chosen here and not in the batch: what is not needed would be copied into it.
            chosen = rows.selected(df)
            writer = chosen.writeStream.foreachBatch(
                stoppable(_Loop(self, path, rows, on_batch, keep))
            )
            writer = writer.option("checkpointLocation", os.path.join(path, "spark"))
            writer = writer.queryName(name or f"gateway to {self.topic} ({state.query[:8]})")
            if available_now:
                writer = writer.trigger(availableNow=True)
            elif every is not None:
                writer = writer.trigger(processingTime=every)
            return Query(writer.start(), path, lock, self.policy.partitions)
        except BaseException:
            lock.release()
            raise

    @property
    def identity(self) -> dict[str, Any]:
        """What must be the same for a checkpoint to be used: it decides where keys are at home."""
        return {
            "gateway": {
                "topic": self.topic,
                "partitions": self.policy.partitions,
                "seed": self.policy.seed,
                "gateways": self.gateways,
                "index": self.index,
            }
        }


def read_topic(
    spark: SparkSession,
    bootstrap: str,
    topic: str,
    *,
    most: int | None = 1_000_000,
    options: Mapping[str, str] | None = None,
) -> DataFrame:
    """A stream of all messages of a topic, for `Gateway.start` with `TOPIC_ROWS`.

    Parameters:
        spark: a session with Spark's Kafka connector (`artifacts.connector_jars`).
        bootstrap: the brokers' address.
        topic: whose messages of one key are in one partition; that is what Kafka's own producers do.
        most: messages in a batch.
        options: of Spark's Kafka source; they go before ours.
    """
    settings = {"startingOffsets": "earliest", "includeHeaders": "true"}
    settings |= {**CONSUMER, **(options or {})}
    for refused in ("minPartitions", "maxRecordsPerPartition"):
        if refused in settings:
            raise InputError(
                f"{refused} would have a topic's partition read by several tasks at once, and a key's "
                "messages would lose their order; leave it out"
            )
    if most is not None:
        settings["maxOffsetsPerTrigger"] = str(most)
    reader = spark.readStream.format("kafka").option("kafka.bootstrap.servers", bootstrap)
    return reader.option("subscribe", topic).options(**settings).load()


#: How the rows of `read_topic` are to be sent.
TOPIC_ROWS = Rows("key", "value", ("partition", "offset"), "headers", in_order=True)


@dataclass(frozen=True)
class _Loop:
    """What `foreachBatch` is given."""

    gateway: Gateway
    path: str
    rows: Rows
    on_batch: Callable[[Mapping[str, Any]], object] | None
    keep: int
    made: dict[str, Any] = field(default_factory=dict)  #: the last batch's table, and of what

    def __call__(self, df: DataFrame, batch: int) -> None:
        steps = Steps()
        gateway, policy = self.gateway, self.gateway.policy
        checkpoint = Checkpoint.open(self.path)
        last = checkpoint.last()
        if last is not None and last.batch >= batch:
            return  # committed; the driver died before Spark knew
        expected = 0 if last is None else last.batch + 1
        if batch != expected:
            raise InputError(
                f"Spark is at batch {batch} and the gateway in {self.path} at batch {expected}: one of "
                "the two was changed by hand; restore the whole checkpoint directory"
            )
        if last is None:
            state = GatewayState.start(policy, gateway.clock())
        else:
            state = GatewayState.from_json(last.plan, policy)
        writer = writer_number(checkpoint.query)
        moves, routes = state.moves, state.routes()
        steps.done("plan")
        session = df.sparkSession
        if moves:
            markers = marker_rows(session, moves, writer, batch, policy.partitions)
            self._write(markers)
        steps.done("markers")
        before = 0 if last is None else int(last.metrics["rows"])
        counted = self._sent(df, routes, writer, batch, before)
        steps.done("messages")
        state = advanced(
            policy,
            state,
            counted,
            gateway.clock(),
            gateway.counting_window,
            gateway.interval,
            batch + 1,
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
        checkpoint.commit(Manifest(batch=batch, plan=state.to_json(policy), metrics=metrics))
        steps.done("commit")
        metrics = {**metrics, "began": steps.began, "durations": steps.seconds}
        append_metrics(checkpoint.directory, metrics)
        if batch % COLLECT_EVERY == COLLECT_EVERY - 1:
            checkpoint.retain(self.keep)
            checkpoint.collect_garbage()
        if self.on_batch is not None:
            self.on_batch(metrics)

    def _sent(
        self, df: DataFrame, routes: list[Route], writer: int, epoch: int, expected: int
    ) -> Counted:
        """Write a batch's messages; what was counted of them on the way."""
        gateway, policy = self.gateway, self.gateway.policy
        rows = own_rows(Selection.of(df), gateway.gateways, gateway.index, policy.seed)
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
        self._write(sent)
        return counts(seen, every)

    def _table(self, session: SparkSession, routes: list[Route]) -> Table | None:
        """A table of these routes: the last batch's, if they are the same."""
        if not routes:
            return None
        if self.made.get("routes") != routes:
            self.made.update(routes=routes, table=Table.of(session, routes))
        table: Table = self.made["table"]
        return table

    def _write(self, rows: DataFrame) -> None:
        options = {
            **PRODUCER,
            **self.gateway.options,
            "kafka.bootstrap.servers": self.gateway.bootstrap,
        }
        write_batch(rows, options, self.gateway.topic)


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
    """A gateway's number as a writer, of 40 bits, from its checkpoint's name: a gateway that begins
    anew with another checkpoint, and with batch 0, is another writer to readers.

    Example:
        >>> writer_number("00000000ff0000000000000000000000")
        255
    """
    return int(query[:10], 16)


def _check_rows(df: DataFrame, rows: Rows) -> None:
    names = [rows.key, rows.value, *rows.order, *([rows.headers] if rows.headers else [])]
    check_columns(df, names, "the gateway")
    for what, name in (("key", rows.key), ("value", rows.value)):
        kind = df.schema[name].dataType.simpleString()
        if kind not in ("string", "binary"):
            raise InputError(
                f"the {what} column {name!r} is of type {kind}, and Kafka takes text or bytes: "
                f"cast it by df.withColumn({name!r}, F.col({name!r}).cast('string'))"
            )
    if rows.in_order and len(rows.order) != 2:
        raise InputError(
            f"rows that come in order are told by two columns, their source's number and their place "
            f"in it; got {', '.join(rows.order) or 'none'}"
        )
