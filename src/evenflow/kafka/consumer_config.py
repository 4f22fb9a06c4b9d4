"""The configuration of an ordered consumer, the settings of its Kafka clients, and its counters."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from confluent_kafka import libversion

from evenflow.kafka.dead_letters import DeadLetters
from evenflow.model import InputError
from evenflow.model.validation import check_positive, check_whole

_REBOOTSTRAPS = 0x020B00FF  # librdkafka 2.11


@dataclass(frozen=True)
class ConsumerConfig:
    """The configuration of an ordered consumer.

    Parameters:
        bootstrap: the broker's address.
        topic: the data topic, written by a gateway or a `Writer`.
        group: consumers of a group share the partitions and their state.
        output_topic: the topic for outputs, partitioned by key; None for no outputs.
        instance: a name that this consumer keeps over restarts, unique in the group. With it, a
            consumer that was killed and restarted gets its partitions back at once; without it, others
            get them after `session_timeout`.
        commit_interval: seconds between two transactions, which make results visible. A move that
            others wait for is committed at once.
        buffer: messages of awaited keys that a partition may hold; above that, it is paused until a
            `done` arrives. One fetch may exceed it.
        session_timeout: seconds after which a silent consumer loses its partitions.
        transaction_timeout: seconds after which the broker ends a dead consumer's transaction.
        patience: seconds to wait for a broker that does not answer.
        partial_log: start although the head of the log was deleted: keys that moved in that part may
            wait forever for a last marker that is gone.
        dead_letter_topic: for messages that the handler fails for; None to stop at the first. It must
            exist. The state of a key is then serialised before every call of the handler.
        dead_letter_limit: messages per partition, since the group began, that may be set aside.
        settings: more confluent-kafka settings for all clients, such as security.
    """

    bootstrap: str
    topic: str
    group: str
    output_topic: str | None = None
    instance: str | None = None
    commit_interval: float = 0.1
    buffer: int = 100_000
    session_timeout: float = 10.0
    transaction_timeout: float = 10.0
    patience: float = 120.0
    partial_log: bool = False
    dead_letter_topic: str | None = None
    dead_letter_limit: int = 100
    settings: tuple[tuple[str, Any], ...] = ()

    def __post_init__(self) -> None:
        for what in ("commit_interval", "session_timeout", "transaction_timeout", "patience"):
            check_positive(what, getattr(self, what))
        if self.buffer < 1:
            raise InputError(f"the buffer must hold at least one message, got {self.buffer}")
        check_whole("dead_letter_limit", self.dead_letter_limit, 1)

    @property
    def dead_letters(self) -> DeadLetters | None:
        """Where failing messages go; None to stop."""
        if self.dead_letter_topic is None:
            return None
        return DeadLetters(self.dead_letter_topic, self.dead_letter_limit, self.group)

    def client_settings(self) -> dict[str, Any]:
        """Settings of all clients."""
        settings: dict[str, Any] = {"bootstrap.servers": self.bootstrap}
        if libversion()[1] >= _REBOOTSTRAPS:
            # Such a client drops all metadata once every broker was unreachable, and then
            # send_offsets_to_transaction waits forever for a coordinator that no longer exists.
            settings["metadata.recovery.strategy"] = "none"
        return {**settings, **dict(self.settings)}

    def producer_settings(self, instance: str) -> dict[str, Any]:
        """Settings of the transactional producer."""
        return {
            **self.client_settings(),
            "transactional.id": f"{self.topic}-{self.group}-{instance}",
            "transaction.timeout.ms": int(self.transaction_timeout * 1000),
            "partitioner": "murmur2_random",  # as in Java: outputs of a key stay together
            "linger.ms": 1,
            "queue.buffering.max.messages": 1_000_000,
        }

    def control_settings(self, group: str) -> dict[str, Any]:
        """Settings of the consumer of `done` messages."""
        return {
            **self.client_settings(),
            "group.id": group,
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "auto.offset.reset": "error",  # every offset is explicit; nothing is skipped silently
        }

    def data_settings(self) -> dict[str, Any]:
        """Settings of the consumer of messages, a member of the group."""
        member = {} if self.instance is None else {"group.instance.id": self.instance}
        return {
            **self.control_settings(self.group),
            **member,
            "enable.partition.eof": True,
            "partition.assignment.strategy": "cooperative-sticky",
            "session.timeout.ms": int(self.session_timeout * 1000),
            "heartbeat.interval.ms": max(200, int(self.session_timeout * 1000 / 6)),
            "max.poll.interval.ms": max(300_000, int(self.session_timeout * 1000)),
        }


@dataclass
class ConsumerCounts:
    """Counters of a consumer since its start."""

    processed: int = 0
    duplicates: int = 0
    keys_sent: int = 0
    keys_received: int = 0
    transactions: int = 0
    aborts: int = 0
    restores: int = 0
    most_held: int = 0
    pauses: int = 0
    set_aside: int = 0
