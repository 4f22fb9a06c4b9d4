"""The gateway: any stream to the partitions of a Kafka topic, with hot keys spread and moved."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from evenflow.engine.loop import Metrics
from evenflow.kafka.gateway_batch import PRODUCER, GatewayProgram, Target
from evenflow.kafka.gateway_rows import Rows
from evenflow.kafka.gateway_topics import partitions_of
from evenflow.model import InputError
from evenflow.model.validation import check_positive, check_whole
from evenflow.planning.hot_keys import HotKeys
from evenflow.spark.checkpointed_query import start_checkpointed
from evenflow.spark.columns import check_columns
from evenflow.spark.query import StreamingQuery

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# After every poll Spark asks the broker twice how far the topic reaches; Kafka's own 500 messages a
# poll are few for that. A task holds no more of them than fit into the bytes of a fetch, which stay
# Kafka's: an executor keeps what it has fetched for up to 64 partitions.
CONSUMER = {"kafka.max.poll.records": "10000"}
_FIXED = ("kafka.acks", "kafka.enable.idempotence", "kafka.delivery.timeout.ms")


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
        on_batch: Callable[[Metrics], object] | None = None,
        keep: int = 10,
    ) -> StreamingQuery:
        """Start the streaming query.

        Parameters:
            df: a stream.
            checkpoint: the checkpoint location; a gateway that finds one goes on where it ended.
                Refused if it is another topic's.
            rows: which columns are key, value and order.
            every, available_now, name, on_batch, keep: as in `start_checkpointed`.
        """
        rows = rows or Rows()
        if not df.isStreaming:
            raise InputError("this is not a streaming DataFrame; read it with spark.readStream")
        _check_rows(df, rows)
        found = partitions_of(self.bootstrap, self.topic)
        if found != self.policy.partitions:
            raise InputError(
                f"the topic {self.topic!r} has {found} partitions, and the gateway was given "
                f"{self.policy.partitions}: give it {found}"
            )
        target = Target(
            self.topic,
            {**PRODUCER, **self.options, "kafka.bootstrap.servers": self.bootstrap},
            self.policy,
            self.interval,
            self.counting_window,
            self.gateways,
            self.index,
            self.clock,
        )
        name = name or f"gateway to {self.topic}"
        return start_checkpointed(
            rows.selected(
                df
            ),  # here and not in the batch: what is not needed would be copied into it
            os.fspath(checkpoint),
            self.identity,
            lambda _: GatewayProgram(target, rows, name),
            partitions=self.policy.partitions,
            every=every,
            available_now=available_now,
            name=name,
            on_batch=on_batch,
            keep=keep,
        )

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
