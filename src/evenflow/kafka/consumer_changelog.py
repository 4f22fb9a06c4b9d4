"""Reads the changelog of partitions, a little at a time."""

from __future__ import annotations

import time
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, TopicPartition

from evenflow.kafka.consumer_records import Saved, SavedBuilder
from evenflow.kafka.consumer_topics import end_offsets
from evenflow.kafka.consumer_transaction import ConsumerStopped

_BATCH = 1000
_QUIET = 3.0  # seconds without a record, after which a new client takes over


class ChangelogReader:
    """Reads the changelogs of partitions side by side; each is ready once its own end is reached.

    Guarantee: what is returned includes everything that was committed before the partition was added.
    Reading stops only at the end of the partition *including* open transactions: what a later owner
    committed may lie behind the open transaction of an earlier owner that was killed, and is visible
    only once that one is aborted.

    Parameters:
        settings: of any client.
        topic: the changelog.
        patience: seconds to wait for open transactions to end.
    """

    def __init__(self, settings: dict[str, Any], topic: str, patience: float) -> None:
        self._settings, self._topic, self._patience = settings, topic, patience
        self._builders: dict[int, SavedBuilder] = {}  # of all partitions that are not ready
        self._ends: dict[int, int] = {}  # of those that are being read
        self._client: Consumer | None = None
        self._heard = 0.0  # when the last record arrived
        self._progress = 0.0  # when a record last arrived that had not been read before
        self._most: dict[int, int] = {}  # how far each partition was ever read

    def add(self, partition: int) -> None:
        """Read this partition from its beginning."""
        if not self._builders:
            self._progress = time.monotonic()
        self._builders[partition] = SavedBuilder()

    def drop(self, partition: int) -> None:
        """Do not read this partition any more."""
        if self._builders.pop(partition, None) is not None:
            self._forget(partition)

    def read(self, seconds: float) -> dict[int, Saved]:
        """Read for about so long; return the partitions that have become ready."""
        ready: dict[int, Saved] = {}
        if not self._builders:
            return ready
        end = time.monotonic() + seconds
        self._begin(ready)
        while self._ends and self._client is not None:
            for message in self._client.consume(_BATCH, 0.005):
                self._take(message, ready)
            now = time.monotonic()
            if now - self._heard > _QUIET:
                self._start_over()
            if now >= end:
                break
        if not self._builders:
            self.close()
        return ready

    def close(self) -> None:
        """Close the connection."""
        if self._client is not None:
            self._client.close()
            self._client = None
        self._ends.clear()

    def _begin(self, ready: dict[int, Saved]) -> None:
        new = sorted(self._builders.keys() - self._ends.keys())
        if not new:
            return
        ends = end_offsets(self._settings, self._topic, new)
        for partition in [p for p in new if ends[p] == 0]:
            ready[partition] = self._builders.pop(partition).saved()
            del ends[partition]
        if not ends:
            return
        if self._client is None:
            self._client = Consumer(
                {
                    **self._settings,
                    "group.id": f"{self._topic}-restore",  # required; nothing is committed
                    "enable.auto.commit": False,
                    "enable.partition.eof": True,
                    "isolation.level": "read_committed",
                    "auto.offset.reset": "earliest",
                }
            )
        self._client.incremental_assign(
            [TopicPartition(self._topic, partition, OFFSET_BEGINNING) for partition in ends]
        )
        self._ends.update(ends)
        self._heard = time.monotonic()

    def _take(self, message: Any, ready: dict[int, Saved]) -> None:
        partition, offset, error = message.partition(), message.offset(), message.error()
        if partition not in self._ends:
            return  # dropped meanwhile
        if error is None:
            self._heard = time.monotonic()
            if offset > self._most.get(partition, -1):
                self._most[partition] = offset
                self._progress = self._heard
            self._builders[partition].add(message.key(), message.value())
        elif error.code() == KafkaError._PARTITION_EOF and offset >= self._ends[partition]:
            # Aborted records and transaction markers are visible in this offset only.
            self._progress = time.monotonic()
            ready[partition] = self._builders.pop(partition).saved()
            self._forget(partition)

    def _forget(self, partition: int) -> None:
        self._most.pop(partition, None)
        if self._ends.pop(partition, None) is not None and self._client is not None:
            self._client.incremental_unassign([TopicPartition(self._topic, partition)])

    def _start_over(self) -> None:
        """Read what is left again from the beginning, with a new client: if only an aborted transaction
        follows, or a broker was restarted, the old one may not notice that there is more."""
        if time.monotonic() - self._progress > self._patience:
            raise ConsumerStopped(
                f"the changelog could not be read to its end within {self._patience:.0f} s: partitions "
                f"{sorted(self._ends)} of {self._topic!r} are blocked by a hanging transaction, or the "
                "broker is not available. Kafka 4.3.0 and 4.3.1 leave such transactions behind when "
                "killed (KAFKA-20734); kafka-transactions.sh find-hanging lists them",
                fenced=False,
            )
        self._builders.update({partition: SavedBuilder() for partition in self._ends})
        self.close()
