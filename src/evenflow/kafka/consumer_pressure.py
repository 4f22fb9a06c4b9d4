"""Back-pressure: a partition whose awaited messages fill the buffer is not read until some may go."""

from __future__ import annotations

import logging
from collections.abc import Iterable

from confluent_kafka import Consumer, TopicPartition

from evenflow.kafka.consumer_partition import PartitionWork

_LOG = logging.getLogger(__name__)

STUCK = 5.0  #: seconds without a `done`, with several writers, until the buffer may grow


def press_back(
    consumer: Consumer, topic: str, works: Iterable[PartitionWork], bound: int, now: float
) -> int:
    """Pauses the partitions that hold too much and resumes those that hold little; how many it paused.

    Guarantee: with one writer, no partition waits forever. A partition that is paused waits for a
    `last` marker of an epoch that is not later than what it has read; the partition with that marker,
    if it is paused before it, has read earlier epochs only, because markers come before the messages
    of their epoch; so whoever waits for whom, epochs go down, and somebody does not wait. With
    several writers two partitions can hold each other's markers back; then the bound gives way,
    `bound` messages at a time.
    """
    pauses = 0
    for work in works:
        held = work.reader.held
        place = [TopicPartition(topic, work.partition)]
        if work.paused_since is None:
            if held <= bound:
                work.allowance = bound
            if held > work.allowance:
                consumer.pause(place)
                work.paused_since = now
                pauses += 1
        elif held <= work.allowance // 2:
            consumer.resume(place)
            work.paused_since = None
        elif len(work.reader.positions) > 1 and now - work.paused_since > STUCK:
            work.allowance = held + bound
            consumer.resume(place)
            work.paused_since = None
            _LOG.warning(
                "partition %d: message set %d was not done for %.0f s, and there are several writers: "
                "reading on beyond the buffer of %d messages",
                work.partition,
                work.reader.oldest_awaited() or 0,
                STUCK,
                bound,
            )
    return pauses
