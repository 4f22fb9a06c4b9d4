"""How far a query that reads Kafka is behind, from what its last batch has committed."""

from __future__ import annotations

from evenflow.state.source import topic_offsets


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
