"""How far a query that reads Kafka is behind, from what its last batch has committed."""

from __future__ import annotations

import json


def topic_offsets(offsets: str) -> dict[str, dict[int, int]]:
    """The topics in an entry of Spark's log of offsets: topic → partition → next offset.

    Example:
        >>> topic_offsets('v1\\n{"batchWatermarkMs":0}\\n{"clicks":{"0":12,"1":7}}')
        {'clicks': {0: 12, 1: 7}}
        >>> topic_offsets('v1\\n{}\\n{"logOffset":3}')
        {}
    """
    found: dict[str, dict[int, int]] = {}
    for line in offsets.splitlines()[2:]:
        try:
            for topic, places in json.loads(line).items():
                found[topic] = {int(partition): int(at) for partition, at in places.items()}
        except (ValueError, AttributeError, TypeError):
            continue  # another source's
    return found


def source_lag(bootstrap: str, offsets: str) -> int | None:
    """The messages that a query has not committed yet; None if it does not read Kafka.

    Parameters:
        bootstrap: the broker's address.
        offsets: of its last batch, as Spark's log has them.
    """
    from evenflow.kafka.consumer_topics import end_offsets

    topics = topic_offsets(offsets)
    if not topics:
        return None
    behind = 0
    for topic, places in topics.items():
        ends = end_offsets({"bootstrap.servers": bootstrap}, topic, list(places))
        behind += sum(max(0, ends[partition] - at) for partition, at in places.items())
    return behind
