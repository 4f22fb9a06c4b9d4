"""What consumers remembered, read back when a partition changes hands."""

from __future__ import annotations

import time
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, TopicPartition

from evenflow.kafka.consumer_records import Saved, SavedBuilder
from evenflow.kafka.consumer_topics import end_offsets

_BATCH = 10_000
_QUIET = 3.0  # seconds without a record, after which a new client is asked


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
            raise TimeoutError(
                f"the changelog could not be read to its end within {patience:.0f} s: partitions "
                f"{sorted(left)} of {topic!r} are held by a transaction that nobody ends, or the "
                "broker is away. Kafka 4.3.0 and 4.3.1 leave such transactions behind when they are "
                "killed (KAFKA-20734); kafka-transactions.sh find-hanging names them"
            )
    return found


def _read(
    settings: dict[str, Any], topic: str, builders: dict[int, SavedBuilder], ends: dict[int, int]
) -> set[int]:
    """Reads until the ends, or until nothing has come for a while; which partitions reached theirs.

    Those that did not are read by a new client from the beginning: where nothing but an aborted
    transaction follows, and where a broker was restarted, the old one may not tell that it goes on.
    """
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
                    # Aborted records and the marks of transactions show in this offset alone.
                    del left[partition]
                    reached.add(partition)
    finally:
        reader.close()
    return reached
