"""Loads a newly assigned partition: its offsets and its saved state."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable
from typing import Any

from confluent_kafka import Consumer, KafkaException, TopicPartition

from evenflow.kafka.consumer_changelog import ChangelogReader
from evenflow.kafka.consumer_config import ConsumerConfig
from evenflow.kafka.consumer_records import UNKNOWN, Saved
from evenflow.kafka.consumer_topics import GroupTopics, first_offsets
from evenflow.model import InputError

_LOG = logging.getLogger(__name__)

_OFFSETS_TIMEOUT = 5.0  # seconds to wait for the group's offsets
_CONSTANT = 5.0  # seconds for which two offsets must disagree, unchanged, to be an error


class Loader:
    """Loads partitions a little at a time, between two polls: reads the group's offsets and the
    changelog, and compares the two.

    Both are written in one transaction, so they agree while the partition is ours. They may differ
    briefly if this consumer has lost the partition without knowing it, and its successor is committing.
    They differ permanently if somebody moved the group's offsets by hand.

    Guarantee: a partition is loaded as soon as its own changelog is read, whatever the others wait for.

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
        self._offsets: dict[int, int] = {}  # the group's, of the partitions that are being loaded
        self._new: dict[
            int, float
        ] = {}  # partitions whose offsets are not known yet, and since when
        self._changelog = ChangelogReader(client, topics.changelog, config.patience)

    @property
    def loading(self) -> bool:
        """Whether partitions are being loaded."""
        return bool(self._new or self._offsets)

    def add(self, partitions: Iterable[int]) -> None:
        """Load these, from now on."""
        partitions = set(partitions)
        self.drop(partitions)
        self._new.update(dict.fromkeys(partitions, time.monotonic()))

    def drop(self, partitions: Iterable[int]) -> None:
        """Do not load these any more."""
        for partition in partitions:
            self._new.pop(partition, None)
            self._offsets.pop(partition, None)
            self._changelog.drop(partition)

    def step(self, seconds: float) -> dict[int, Saved]:
        """Load for about so long; return the saved state of partitions that are loaded completely."""
        if self._new:
            self._read_offsets(seconds)
        agreeing = {}
        for partition, saved in self._changelog.read(seconds).items():
            committed = self._offsets.pop(partition)
            if committed in (UNKNOWN, saved.data_offset):
                agreeing[partition] = saved
                self._mismatches.pop(partition, None)
            else:
                self._note_mismatch(partition, committed, saved.data_offset)
                self.add([partition])
        self._refuse_gaps(agreeing)
        new = [p for p, saved in agreeing.items() if saved.data_offset == UNKNOWN]
        if new and not self._config.partial_log:
            self._refuse_partial_log(new)
        return agreeing

    def close(self) -> None:
        """Close the connections."""
        self._changelog.close()

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

    def _read_offsets(self, seconds: float) -> None:
        """Ask for the group's offsets, and begin to read the changelog of partitions that have one.

        The broker does not return them while a transaction that includes them is open, which after a
        kill may take minutes. The changelog alone is enough to continue, so they are not waited for
        long.
        """
        now = time.monotonic()
        places = [TopicPartition(self._topics.data, partition) for partition in self._new]
        try:
            found = self._consumer.committed(places, timeout=max(seconds, 0.1))
        except KafkaException as error:
            late = [p for p, since in self._new.items() if now - since > _OFFSETS_TIMEOUT]
            if not late:
                return
            _LOG.warning("the group's offsets are not available, using the changelog's: %s", error)
            offsets = dict.fromkeys(late, UNKNOWN)
        else:
            offsets = {
                place.partition: UNKNOWN if place.error else max(place.offset, UNKNOWN)
                for place in found
            }
        for partition, offset in offsets.items():
            del self._new[partition]
            self._offsets[partition] = offset
            self._changelog.add(partition)

    def _refuse_gaps(self, found: dict[int, Saved]) -> None:
        """Every `done` since the last one that was read must be in the control topic."""
        starts = first_offsets(self._client, self._topics.control, sorted(found)) if found else {}
        for partition, start in starts.items():
            following = max(found[partition].control_offset, 0)
            if start > following:
                raise lost_dones(self._topics.control, partition, following, start)

    def _refuse_partial_log(self, partitions: list[int]) -> None:
        starts = first_offsets(self._client, self._topics.data, partitions)
        cut = {partition: start for partition, start in starts.items() if start > 0}
        if cut:
            raise InputError(
                f"the group {self._config.group!r} is new, and the head of {self._topics.data!r} was "
                f"deleted (partitions and first offsets: {cut}): a key that moved in the deleted part "
                "could wait forever. Set partial_log to start anyway"
            )


def lost_dones(topic: str, partition: int, following: int, start: int | None = None) -> InputError:
    """The error for a control topic from which something was deleted before it was read."""
    until = "" if start is None else f" to {start - 1}"
    return InputError(
        f"partition {partition} of {topic!r} lost the records from offset {following}{until} before "
        "they were read: they were the only copy of the state of keys that moved. Use another group, "
        "which reads the data topic from its beginning, and do not change this topic's retention"
    )
