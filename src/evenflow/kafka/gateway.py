"""The gateway: writes any stream to a Kafka topic, with hot keys balanced over its partitions."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from evenflow.engine.loop import Metrics
from evenflow.engine.resuming import refuse
from evenflow.kafka.gateway_batch import PRODUCER, GatewayProgram
from evenflow.kafka.gateway_rows import Rows
from evenflow.kafka.gateway_source import CONSUMER, SOURCE, TOPIC_ROWS, read_topic, topics_of
from evenflow.kafka.gateway_topics import check_target
from evenflow.model import InputError
from evenflow.model.validation import check_positive, check_whole
from evenflow.planning.hot_keys import HotKeys
from evenflow.spark.checkpointed_query import start_checkpointed
from evenflow.spark.columns import check_columns
from evenflow.spark.query import StreamingQuery

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from evenflow.state.checkpoint import Checkpoint

__all__ = ["CONSUMER", "TOPIC_ROWS", "Gateway", "read_topic"]

_FIXED = ("kafka.acks", "kafka.enable.idempotence", "kafka.delivery.timeout.ms")


@dataclass(frozen=True)
class Gateway:
    """Writes a stream to a Kafka topic: balances hot keys over partitions, and hashes all others.

    Every batch is one pass over its rows by Spark's expressions and Kafka sink, which also counts the
    most frequent keys. After a batch, the policy decides on moves by the counts and the clock; the
    batch's manifest records them before the next batch uses them.

    Guarantee: a key's messages are written in the order of the source, to one partition at a time;
    every move is announced by markers (`evenflow.ordering`) that precede the batch's messages in every
    partition. A batch that is rerun, after a crash at any moment, writes the same records with the same
    positions, sets and markers, so that readers can drop duplicates. A restarted gateway keeps its hot
    keys, sizes and message sets.

    Parameters:
        bootstrap: the brokers' address.
        topic: to write to. It has as many partitions as the policy.
        policy: which keys are hot, and where they go.
        interval: seconds between two decisions.
        window: seconds of a counting window; the interval by default.
        gateways: how many gateways share the stream, each with its own checkpoint.
        index: the number of this gateway, from 0. It writes only the keys that it owns.
        options: of Spark's Kafka sink, such as "kafka.compression.type".
        clock: returns the time in seconds.

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
                f"the gateway's index is {self.index}, but there are {self.gateways} gateways; give "
                f"each a different number from 0 to {self.gateways - 1}"
            )
        for name in _FIXED:
            if self.options.get(name, PRODUCER[name]) != PRODUCER[name]:
                raise InputError(
                    f"{name} is {self.options[name]!r} but must be {PRODUCER[name]!r}, because the "
                    "order of messages depends on it; leave it out"
                )

    @property
    def counting_window(self) -> float:
        return self.interval if self.window is None else self.window

    def sink_options(self) -> dict[str, str]:
        """All options of Spark's Kafka sink, the same for one run of the gateway.

        Producers with the same options are shared, and wait for each other's records. With an id of its
        own, a gateway does not wait for records that an earlier one could not deliver.
        """
        own = {"kafka.client.id": f"evenflow-gateway-{uuid4().hex[:8]}"}
        return {**PRODUCER, **own, **self.options, "kafka.bootstrap.servers": self.bootstrap}

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
        storage_options: Mapping[str, str] | None = None,
    ) -> StreamingQuery:
        """Start the streaming query.

        Parameters:
            df: a streaming DataFrame.
            checkpoint: the checkpoint location, from which a restarted gateway continues. That of
                another topic is refused.
            rows: which columns are key, value and order.
            every, available_now, name, on_batch, keep, storage_options: as in `start_checkpointed`.
        """
        rows = rows or Rows()
        if not df.isStreaming:
            raise InputError("this is not a streaming DataFrame; read it with spark.readStream")
        _check_rows(df, rows)
        target = check_target(self.bootstrap, self.topic, self.policy.partitions)
        topics = topics_of(df, rows)
        # With other topics, a batch that is run again would have other positions.
        identity = {**self.identity, **({"topics": topics} if topics else {})}
        name = name or f"gateway to {self.topic}"

        def program(opened: Checkpoint) -> GatewayProgram:
            if differences := opened.differences(identity):
                refuse(opened, differences)
            return GatewayProgram(self, rows, target, topics, name)

        return start_checkpointed(
            rows.selected(df),  # here, because a batch would copy columns that are not needed
            os.fspath(checkpoint),
            identity,
            program,
            partitions=self.policy.partitions,
            every=every,
            available_now=available_now,
            name=name,
            on_batch=on_batch,
            keep=keep,
            storage_options=storage_options,
        )

    @property
    def identity(self) -> dict[str, Any]:
        """What must be equal for a checkpoint to be reused: it determines the keys' home partitions."""
        return {
            "gateway": {
                "topic": self.topic,
                "partitions": self.policy.partitions,
                "seed": self.policy.seed,
                "gateways": self.gateways,
                "index": self.index,
            }
        }


def _check_rows(df: DataFrame, rows: Rows) -> None:
    if SOURCE in rows.order and SOURCE not in df.columns:
        raise InputError(
            f"this DataFrame has no column {SOURCE!r}, which tells the partitions of several topics "
            "apart; read the topics with evenflow.kafka.gateway.read_topic"
        )
    names = [rows.key, rows.value, *rows.order, *([rows.headers] if rows.headers else [])]
    check_columns(df, names, "the gateway")
    for what, name in (("key", rows.key), ("value", rows.value)):
        kind = df.schema[name].dataType.simpleString()
        if kind not in ("string", "binary"):
            raise InputError(
                f"the {what} column {name!r} has type {kind}, but Kafka takes strings or bytes; "
                f"cast it with df.withColumn({name!r}, F.col({name!r}).cast('string'))"
            )
    if rows.in_order and len(rows.order) != 2:
        raise InputError(
            f"rows that arrive in order need two order columns, the number of a source and the "
            f"position in it; got {', '.join(rows.order) or 'none'}"
        )
