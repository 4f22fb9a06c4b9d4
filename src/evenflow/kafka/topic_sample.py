"""A look at a topic: how much its partitions hold, and the keys of the newest records."""

from __future__ import annotations

import time
from typing import Any, NamedTuple

from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient

from evenflow.kafka.consumer_topics import end_offsets, first_offsets, partition_count
from evenflow.kafka.lag import LagReader, PartitionLag

_MOST_KEYS = 100_000  #: of all partitions together
_LONGEST = 20.0  # seconds


class TopicSample(NamedTuple):
    """What was seen.

    Parameters:
        offsets: (first, end) of each partition.
        lags: of the group in each partition; empty without a group.
        keys: of the newest records, null among them.
    """

    offsets: list[tuple[int, int]]
    lags: list[PartitionLag]
    keys: list[bytes | None]


def sample_topic(bootstrap: str, topic: str, group: str | None = None) -> TopicSample:
    """Look at a topic, without joining a group and without committing anything.

    Parameters:
        bootstrap: the broker's address.
        topic: its name.
        group: whose lag is wanted; None for nobody's.
    """
    client: dict[str, Any] = {"bootstrap.servers": bootstrap, "log_level": 2}
    partitions = list(range(partition_count(AdminClient(client), topic)))
    first = first_offsets(client, topic, partitions)
    ends = end_offsets(client, topic, partitions)
    lags: list[PartitionLag] = []
    if group is not None:
        reader = LagReader(bootstrap, topic, group)
        try:
            lags = reader.read()
        finally:
            reader.close()
    offsets = [(first[p], ends[p]) for p in partitions]
    return TopicSample(offsets, lags, _keys(client, topic, offsets))


def _keys(client: dict[str, Any], topic: str, offsets: list[tuple[int, int]]) -> list[bytes | None]:
    """As large a share of each partition, so that the sample is as skewed as the topic."""
    total = sum(end - first for first, end in offsets)
    share = min(1.0, _MOST_KEYS / max(total, 1))
    begins = {
        p: end - max(1, round(share * (end - first)))
        for p, (first, end) in enumerate(offsets)
        if end > first
    }
    if not begins:
        return []
    settings = {
        **client,
        "group.id": "evenflow-diagnose",
        "enable.auto.commit": False,
        "enable.partition.eof": True,
        "isolation.level": "read_uncommitted",
    }
    found: list[bytes | None] = []
    reader = Consumer(settings)
    try:
        reader.assign([TopicPartition(topic, p, begin) for p, begin in begins.items()])
        waiting, until = set(begins), time.monotonic() + _LONGEST
        while waiting and time.monotonic() < until:
            message = reader.poll(0.2)
            if message is None:
                continue
            if message.error() is not None:  # the end of a partition, or a fault that passes
                waiting.discard(message.partition())
            else:
                found.append(message.key())
    finally:
        reader.close()
    return found
