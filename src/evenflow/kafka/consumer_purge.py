"""Deletes `done` messages that were read, which nothing else deletes."""

from __future__ import annotations

from collections.abc import Iterable

from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

from evenflow.kafka.consumer_partition import PartitionWork

_INTERVAL = 30.0  # seconds between two deletions


class Purge:
    """Lets the broker delete `done` messages from time to time.

    Guarantee: only those whose effects are committed. The broker's answer is not waited for: what it
    refuses stays, and is asked for again with the next ones.

    Parameters:
        admin: any client.
        topic: the control topic.
    """

    def __init__(self, admin: AdminClient, topic: str) -> None:
        self._admin, self._topic = admin, topic
        self._next: float | None = None
        self._purged: dict[int, int] = {}

    def after_commit(self, works: Iterable[PartitionWork], now: float) -> None:
        """Delete what these partitions have read, if it is time."""
        if self._next is None:
            self._next = now + _INTERVAL
        if now < self._next:
            return
        self._next = now + _INTERVAL
        read = {work.partition: work.next_control for work in works if not work.changed}
        new = {p: offset for p, offset in read.items() if offset > self._purged.get(p, 0)}
        if new:
            self._admin.delete_records([TopicPartition(self._topic, p, o) for p, o in new.items()])
            self._purged.update(new)
