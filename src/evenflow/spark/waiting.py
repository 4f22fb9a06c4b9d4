"""How many rows wait at a query's source, as far as Spark says so."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from evenflow.state.source import Source, topic_offsets


def rows_waiting(source: Source, progress: Mapping[str, Any] | None) -> int | None:
    """The rows in the topics of Kafka that a batch has left for later; None where nothing says so.

    Spark tells with each batch how far the topics went when the batch before it was planned. What has
    come since is not counted.

    Parameters:
        source: the rows of the batch.
        progress: Spark's account of the batch before it, if there was one.

    Example:
        >>> batch = Source("q", 'v1\\n{}\\n{"clicks":{"0":12,"1":7}}')
        >>> rows_waiting(batch, {"sources": [{"latestOffset": '{"clicks":{"0":20,"1":7}}'}]})
        8
        >>> rows_waiting(batch, None) is None
        True
    """
    if progress is None:
        return None
    taken, waiting, known = topic_offsets(source.offsets), 0, False
    for one in progress["sources"]:
        for topic, places in _latest(one["latestOffset"]).items():
            known = known or topic in taken
            for partition, at in taken.get(topic, {}).items():
                waiting += max(0, places.get(partition, at) - at)
    return waiting if known else None


def _latest(text: Any) -> dict[str, dict[int, int]]:
    plain = text if isinstance(text, str) else json.dumps(text)
    return topic_offsets(f"\n\n{plain}")
