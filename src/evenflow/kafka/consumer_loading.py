"""A partition that comes to a consumer: where to read on, and what was remembered of it."""

from __future__ import annotations

import logging
import time
from typing import Any

from confluent_kafka import Consumer, KafkaException, TopicPartition

from evenflow.kafka.consumer_changelog import restore
from evenflow.kafka.consumer_config import ConsumerConfig
from evenflow.kafka.consumer_records import UNKNOWN, Saved
from evenflow.kafka.consumer_topics import GroupTopics, first_offsets
from evenflow.model import InputError

_LOG = logging.getLogger(__name__)

_LONGEST = 5.0  # seconds to wait for the group's offsets
_CONSTANT = 5.0  # seconds for which two offsets must disagree, unchanged, to be a mistake


class Loader:
    """Reads the group's offsets and the changelog, and compares the two.

    Both are written in one transaction, so they agree wherever the partition is ours. They may differ
    for a consumer that does not know yet that it lost the partition, and whose successor is at work
    while it looks. They differ for good if somebody moved the group's offsets by hand.

    Parameters:
        client: settings of any client.
        consumer: of the group.
        topics: of the group.
        config: how patiently.
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
        """What was saved of these partitions; those whose offsets do not agree now are left out."""
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
                self._note(partition, committed[partition], saved.data_offset)
        new = [p for p, saved in agreeing.items() if saved.data_offset == UNKNOWN]
        if new and not self._config.partial_log:
            self._refuse_a_partial_log(new)
        return agreeing

    def _note(self, partition: int, committed: int, changelog: int) -> None:
        both, now = (committed, changelog), time.monotonic()
        known = self._mismatches.get(partition)
        if known is None or known[0] != both:
            self._mismatches[partition] = (both, now)
        elif now - known[1] > _CONSTANT:
            raise InputError(
                f"partition {partition}: the group's offset is {committed}, and its changelog is at "
                f"{changelog}: somebody else moved the group's offsets. To begin anew, choose another "
                f"group, or delete the topics {self._topics.control!r} and "
                f"{self._topics.changelog!r} with the group"
            )

    def _committed(self, partitions: list[int]) -> dict[int, int]:
        """The group's offsets; unknown where the broker does not tell them in time.

        It does not while a transaction that holds some is open, and after it was killed that may be
        for minutes. The changelog alone says where to read on, so this is not worth waiting for.
        """
        places = [TopicPartition(self._topics.data, partition) for partition in partitions]
        try:
            found = self._consumer.committed(places, timeout=min(_LONGEST, self._config.patience))
        except KafkaException as error:
            _LOG.warning("the group's offsets are not known, the changelog's count: %s", error)
            found = []
        offsets = dict.fromkeys(partitions, UNKNOWN)
        for place in found:
            if place.error is None:
                offsets[place.partition] = max(place.offset, UNKNOWN)
        return offsets

    def _refuse_a_partial_log(self, partitions: list[int]) -> None:
        starts = first_offsets(self._client, self._topics.data, partitions)
        cut = {partition: start for partition, start in starts.items() if start > 0}
        if cut:
            raise InputError(
                f"the group {self._config.group!r} is new, and the head of {self._topics.data!r} was "
                f"deleted (partitions and first offsets: {cut}): a key that moved in the part that "
                "is gone could wait forever. Set partial_log to begin nevertheless"
            )
