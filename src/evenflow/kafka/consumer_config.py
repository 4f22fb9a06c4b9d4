"""How an ordered consumer reads, and what it counts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from evenflow.model import InputError
from evenflow.model.validation import check_positive


@dataclass(frozen=True)
class ConsumerConfig:
    """How an ordered consumer reads.

    Parameters:
        bootstrap: the broker's address.
        topic: the data topic, written by a gateway or a `Writer`.
        group: consumers of one group share the partitions and remember together.
        output_topic: where outputs go, by the hash of their key; None if there are none.
        instance: a name that stays with this consumer over restarts and that no other of the group
            has. Given, a consumer that was killed and comes back takes its partitions at once;
            without one, others get them after `session_timeout`.
        commit_interval: seconds between two transactions; what is processed shows after that. A move
            that others wait for is committed at once.
        buffer: messages of awaited keys that one partition may hold; above that, no more are read of
            the partition until a `done` comes. May be exceeded by what is read in one go.
        session_timeout: seconds after which a consumer that is silent loses its partitions.
        transaction_timeout: seconds after which the broker ends a dead consumer's transaction.
        patience: seconds to wait for a broker that does not answer.
        partial_log: begin although the head of the log was deleted: keys that moved there and then
            may wait forever for a partition whose last marker is gone.
        settings: more of confluent-kafka's settings, for all clients (security, say).
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
    settings: tuple[tuple[str, Any], ...] = ()

    def __post_init__(self) -> None:
        for what in ("commit_interval", "session_timeout", "transaction_timeout", "patience"):
            check_positive(what, getattr(self, what))
        if self.buffer < 1:
            raise InputError(f"the buffer holds at least one message, got {self.buffer}")


@dataclass
class ConsumerCounts:
    """What a consumer has done since its start."""

    processed: int = 0
    duplicates: int = 0
    keys_sent: int = 0
    keys_received: int = 0
    transactions: int = 0
    aborts: int = 0
    restores: int = 0
    most_held: int = 0
    pauses: int = 0
