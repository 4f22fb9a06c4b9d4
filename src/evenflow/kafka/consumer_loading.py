"""Loads a newly assigned partition: its offsets and its saved state."""

from __future__ import annotations

import logging
import time
from typing import Any

from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    KafkaError,
    KafkaException,
    TopicPartition,
)

from evenflow.kafka.consumer_config import ConsumerConfig
from evenflow.kafka.consumer_records import UNKNOWN, Saved, SavedBuilder
from evenflow.kafka.consumer_topics import GroupTopics, end_offsets, first_offsets
from evenflow.kafka.consumer_transaction import ConsumerStopped
from evenflow.model import InputError

_LOG = logging.getLogger(__name__)

_OFFSETS_TIMEOUT = 5.0  # seconds to wait for the group's offsets
_CONSTANT = 5.0  # seconds for which two offsets must disagree, unchanged, to be an error
_BATCH = 10_000
_QUIET = 3.0  # seconds without a record, after which a new client takes over


class Loader:
    """Reads the group's offsets and the changelog, and compares the two.

    Both are written in one transaction, so they agree while the partition is ours. They may differ
    briefly if this consumer has lost the partition without knowing it, and its successor is committing.
    They differ permanently if somebody moved the group's offsets by hand.

    Parameters:
        client: settings of any client.
        consumer: of the group.
        topics: of the group.
        config: the timeouts.
    """

    def __init__(
        self,
        client: dict[str, Any],
        consumer: Consumer,
        topics: GroupTopics,
        config: ConsumerConfig,
    ) -> None:
        self._client, self._consumer = client, consumer
        self._topics, self._config = topics, config
        self._mismatches: dict[int, tuple[tuple[int, int], float]] = {}

    def load(self, partitions: list[int]) -> dict[int, Saved]:
        """The saved state of these partitions, except those whose offsets do not agree now."""
        if not partitions:
            return {}
        committed = self._committed(partitions)
        found = restore(self._client, self._topics.changelog, partitions, self._config.patience)
        agreeing = {}
        for partition, saved in found.items():
            if committed[partition] in (UNKNOWN, saved.data_offset):
                agreeing[partition] = saved
                self._mismatches.pop(partition, None)
            else:
                self._note_mismatch(partition, committed[partition], saved.data_offset)
        new = [p for p, saved in agreeing.items() if saved.data_offset == UNKNOWN]
        if new and not self._config.partial_log:
            self._refuse_partial_log(new)
        return agreeing

    def _note_mismatch(self, partition: int, committed: int, changelog: int) -> None:
        both, now = (committed, changelog), time.monotonic()
        known = self._mismatches.get(partition)
        if known is None or known[0] != both:
            self._mismatches[partition] = (both, now)
        elif now - known[1] > _CONSTANT:
            raise InputError(
                f"partition {partition}: the group's offset is {committed}, but its changelog is at "
                f"{changelog}: somebody else moved the group's offsets. To start over, use another "
                f"group, or delete the topics {self._topics.control!r} and "
                f"{self._topics.changelog!r} together with the group"
            )

    def _committed(self, partitions: list[int]) -> dict[int, int]:
        """The group's offsets; unknown where the broker does not return them in time.

        It does not while a transaction that includes them is open, which after a kill may take minutes.
        The changelog alone is enough to continue, so waiting longer is not worth it.
        """
        places = [TopicPartition(self._topics.data, partition) for partition in partitions]
        try:
            found = self._consumer.committed(
                places, timeout=min(_OFFSETS_TIMEOUT, self._config.patience)
            )
        except KafkaException as error:
            _LOG.warning("the group's offsets are not available, using the changelog's: %s", error)
            found = []
        offsets = dict.fromkeys(partitions, UNKNOWN)
        for place in found:
            if place.error is None:
                offsets[place.partition] = max(place.offset, UNKNOWN)
        return offsets

    def _refuse_partial_log(self, partitions: list[int]) -> None:
        starts = first_offsets(self._client, self._topics.data, partitions)
        cut = {partition: start for partition, start in starts.items() if start > 0}
        if cut:
            raise InputError(
                f"the group {self._config.group!r} is new, and the head of {self._topics.data!r} was "
                f"deleted (partitions and first offsets: {cut}): a key that moved in the deleted part "
                "could wait forever. Set partial_log to start anyway"
            )


def restore(
    settings: dict[str, Any],
    topic: str,
    partitions: list[int],
    patience: float,
) -> dict[int, Saved]:
    """Read the changelog of each partition.

    Guarantee: it includes everything that was committed before this call. Reading stops only at the end
    of the partition *including* open transactions: what a later owner committed may lie behind the open
    transaction of an earlier owner that was killed, and is visible only once that one is aborted.

    Parameters:
        settings: of any client.
        topic: the changelog.
        partitions: its partitions to read.
        patience: seconds to wait for open transactions to end.
    """
    found: dict[int, Saved] = {}
    left = set(partitions)
    deadline = time.monotonic() + patience
    while left:
        ends = end_offsets(settings, topic, sorted(left))
        builders = {partition: SavedBuilder() for partition in left}
        reached = {partition for partition, end in ends.items() if end == 0}
        reached |= _read(settings, topic, builders, ends)
        found.update({partition: builders[partition].saved() for partition in reached})
        left -= reached
        if left and time.monotonic() > deadline:
            raise ConsumerStopped(
                f"the changelog could not be read to its end within {patience:.0f} s: partitions "
                f"{sorted(left)} of {topic!r} are blocked by a hanging transaction, or the broker is "
                "not available. Kafka 4.3.0 and 4.3.1 leave such transactions behind when killed "
                "(KAFKA-20734); kafka-transactions.sh find-hanging lists them",
                fenced=False,
            )
    return found


def _read(
    settings: dict[str, Any], topic: str, builders: dict[int, SavedBuilder], ends: dict[int, int]
) -> set[int]:
    """Read until the ends, or until nothing arrives for a while; return the partitions at their end.

    The others are read again from the beginning by a new client: if only an aborted transaction
    follows, or a broker was restarted, the old client may not notice that there is more.
    """
    reader = Consumer(
        {
            **settings,
            "group.id": f"{topic}-restore",  # required by the client; nothing is committed
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": "read_committed",
            "auto.offset.reset": "earliest",
        }
    )
    left = {partition: end for partition, end in ends.items() if end > 0}
    reached: set[int] = set()
    try:
        reader.assign([TopicPartition(topic, partition, OFFSET_BEGINNING) for partition in left])
        deadline = time.monotonic() + _QUIET
        while left and time.monotonic() < deadline:
            for message in reader.consume(_BATCH, 0.01):
                partition, offset, error = message.partition(), message.offset(), message.error()
                if error is None:
                    deadline = time.monotonic() + _QUIET
                    builders[partition].add(message.key(), message.value())
                elif error.code() == KafkaError._PARTITION_EOF and offset >= left.get(
                    partition, offset + 1
                ):
                    # Aborted records and transaction markers are visible in this offset only.
                    del left[partition]
                    reached.add(partition)
    finally:
        reader.close()
    return reached
