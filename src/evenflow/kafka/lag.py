"""The lag of a consumer group, in messages and in seconds."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, NamedTuple

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient

from evenflow.kafka.consumer_topics import end_offsets, first_offsets, partition_count
from evenflow.model import InputError

_TIMEOUT = 30.0

# A broker's answers about a group while it starts.
_NOT_YET = (
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.NOT_COORDINATOR,
)


class PartitionLag(NamedTuple):
    """The lag of a group in one partition.

    messages: the records that are not committed. seconds: the age of the oldest one, 0 if there is
    none, None if it has no timestamp or could not be read. offset: the next one, None if the group has
    committed nothing.
    """

    partition: int
    offset: int | None
    end: int
    messages: int
    seconds: float | None


class LagReader:
    """Reads the lag of a group, any number of times.

    Parameters:
        bootstrap: the broker's address.
        topic: the topic that the group reads.
        group: any Kafka consumer group.
        clock: seconds since 1970, to compare with the messages' timestamps.
    """

    def __init__(
        self, bootstrap: str, topic: str, group: str, clock: Callable[[], float] = time.time
    ) -> None:
        self._client: dict[str, Any] = {"bootstrap.servers": bootstrap, "log_level": 2}
        self._topic, self._clock = topic, clock
        count = partition_count(AdminClient(self._client), topic)
        self._partitions = list(range(count))
        # It never joins the group.
        self._reader = Consumer(
            {
                **self._client,
                "group.id": group,
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "isolation.level": "read_uncommitted",
                "fetch.wait.max.ms": 100,
            }
        )

    def read(self) -> list[PartitionLag]:
        """The lag of each partition."""
        ends = end_offsets(self._client, self._topic, self._partitions)
        starts = first_offsets(self._client, self._topic, self._partitions)
        places = [TopicPartition(self._topic, partition) for partition in self._partitions]
        answers = self._committed(places)
        offsets = {place.partition: place.offset for place in answers if place.offset >= 0}
        nexts = {p: max(offsets.get(p, 0), starts[p]) for p in self._partitions}
        times = self._times([p for p in self._partitions if nexts[p] < ends[p]], nexts)
        now = self._clock()
        found = []
        for partition in self._partitions:
            behind = max(0, ends[partition] - nexts[partition])
            written = times.get(partition)
            seconds = None if written is None else max(0.0, now - written)
            found.append(
                PartitionLag(
                    partition,
                    offsets.get(partition),
                    ends[partition],
                    behind,
                    seconds if behind else 0.0,
                )
            )
        return found

    def close(self) -> None:
        """Close the connections."""
        self._reader.close()

    def _committed(self, places: list[TopicPartition]) -> list[TopicPartition]:
        deadline = time.monotonic() + _TIMEOUT
        while True:
            try:
                answers: list[TopicPartition] = self._reader.committed(places, timeout=_TIMEOUT)
                return answers
            except KafkaException as error:
                if error.args[0].code() not in _NOT_YET or time.monotonic() > deadline:
                    raise InputError(
                        f"the broker does not return the group's offsets: {error}"
                    ) from error
            time.sleep(0.05)

    def _times(self, partitions: list[int], nexts: dict[int, int]) -> dict[int, float]:
        """The timestamp of the next record of each partition, in seconds since 1970."""
        found: dict[int, float] = {}
        if not partitions:
            return found
        self._reader.assign([TopicPartition(self._topic, p, nexts[p]) for p in partitions])
        wanted, deadline = set(partitions), time.monotonic() + 5.0
        while wanted and time.monotonic() < deadline:
            message = self._reader.poll(0.2)
            if message is None or message.error() is not None:
                continue
            partition = message.partition()
            if partition in wanted:
                wanted.discard(partition)
                self._reader.pause([TopicPartition(self._topic, partition)])
                _, milliseconds = message.timestamp()
                if milliseconds > 0:
                    found[partition] = milliseconds / 1000
        self._reader.unassign()
        return found
