"""Back-pressure: a partition whose buffer is full is not read."""

from __future__ import annotations

import logging
from collections.abc import Iterable

from confluent_kafka import Consumer, TopicPartition

from evenflow.kafka.consumer_partition import PartitionWork

_LOG = logging.getLogger(__name__)

STUCK = 5.0  #: seconds without a `done`, with several writers, until the buffer may grow


def apply_back_pressure(
    consumer: Consumer, topic: str, works: Iterable[PartitionWork], bound: int, now: float
) -> int:
    """Pause partitions whose awaited messages fill the buffer, resume the others; return the pauses.

    Guarantee: with one writer, no partition waits forever. A paused partition waits for a `last` marker
    of an epoch that is not later than what it has read. If the partition with that marker is paused
    before it, it has read earlier epochs only, because markers precede the messages of their epoch. So
    epochs decrease along every chain of waiting partitions, and its end does not wait. The lanes of a
    gateway are one writer: it writes the markers of an epoch before the messages of any lane. With
    several writers two partitions can block each other's markers; then the bound is raised, `bound`
    messages at a time.
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
        elif len(work.reader.writers) > 1 and now - work.paused_since > STUCK:
            work.allowance = held + bound
            consumer.resume(place)
            work.paused_since = None
            _LOG.warning(
                "partition %d: message set %d was not done for %.0f s, and there are several writers; "
                "continuing beyond the buffer of %d messages",
                work.partition,
                work.reader.oldest_awaited() or 0,
                STUCK,
                bound,
            )
    return pauses
