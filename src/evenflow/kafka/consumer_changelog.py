"""What consumers remembered, read back when a partition changes hands."""

from __future__ import annotations

import time
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, TopicPartition

from evenflow.kafka.consumer_records import Saved, SavedBuilder
from evenflow.kafka.consumer_topics import end_offsets

_BATCH = 10_000


def restore(
    settings: dict[str, Any],
    topic: str,
    partitions: list[int],
    patience: float,
) -> dict[int, Saved]:
    """What the changelog says of each partition.

    Guarantee: everything that was committed before this call is in it. Reading stops only where the
    partition ended *with* open transactions: what a later owner committed may lie behind the open
    transaction of an earlier one that was killed, and shows only when that one has been aborted.

    Parameters:
        settings: of any client.
        topic: the changelog.
        partitions: which of them.
        patience: seconds to wait for open transactions to end.
    """
    builders = {partition: SavedBuilder() for partition in partitions}
    ends = end_offsets(settings, topic, partitions)
    open_ends = {partition: end for partition, end in ends.items() if end > 0}
    if open_ends:
        reader = Consumer(
            {
                **settings,
                "group.id": f"{topic}-restore",  # needed by the client; nothing is committed
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "isolation.level": "read_committed",
                "auto.offset.reset": "earliest",
            }
        )
        try:
            reader.assign(
                [TopicPartition(topic, partition, OFFSET_BEGINNING) for partition in open_ends]
            )
            _read(reader, builders, open_ends, patience)
        finally:
            reader.close()
    return {partition: builder.saved() for partition, builder in builders.items()}


def _read(
    reader: Consumer, builders: dict[int, SavedBuilder], ends: dict[int, int], patience: float
) -> None:
    deadline = time.monotonic() + patience
    left = dict(ends)
    while left:
        messages = reader.consume(_BATCH, 0.01)
        for message in messages:
            partition, offset = message.partition(), message.offset()
            error = message.error()
            if error is not None:
                # Aborted records and the marks of transactions show in this offset alone.
                reached = error.code() == KafkaError._PARTITION_EOF
                if reached and offset >= left.get(partition, offset + 1):
                    del left[partition]
                continue
            deadline = time.monotonic() + patience
            builders[partition].add(message.key(), message.value())
        if left and time.monotonic() > deadline:
            raise TimeoutError(
                f"the changelog could not be read to its end within {patience:.0f} s: partitions "
                f"{sorted(left)} are held by a transaction that nobody ends, or the broker is away"
            )
