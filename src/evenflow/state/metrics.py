"""The metrics of the batches: one object per batch, and older ones together in objects of lines.

    metrics/0000000012.json               one batch, put after its commit
    metrics/0000000000-0000000011.jsonl   the batches from the first number to the last, one line each

A store cannot append to an object, and thousands of small objects are slow to list and to read. So
they are compacted now and then, as segments are: older objects are joined while they have no more
batches than the newer ones together.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from evenflow.state.checkpoint import FOLDER, IDENTITY
from evenflow.state.errors import explained, no_checkpoint, other_format
from evenflow.state.manifest import FORMAT
from evenflow.storage import Storage, storage_at

METRICS = "metrics/"
KEPT = 10_000  #: batches whose metrics are kept
_MOST_LINES = 1024  # of one object, so that dropping old ones is a delete
_NAME = re.compile(r"metrics/(\d{10,})(?:\.json|-(\d{10,})\.jsonl)")
_TRIES = 10  # to read while a compaction goes on


def put_metrics(storage: Storage, metrics: Mapping[str, Any]) -> None:
    """Write down the metrics of a batch, by their `batch`; the same batch again replaces them.

    Parameters:
        storage: the checkpoint's.
        metrics: plain JSON.
    """
    name = f"{METRICS}{metrics['batch']:010d}.json"
    with explained("write", storage.where(name)):
        storage.put(name, [json.dumps(metrics).encode()])


def compact_metrics(storage: Storage) -> None:
    """Join the metrics of single batches into few objects, and drop the oldest.

    Guarantee: whenever it is interrupted, `read_metrics` finds the same as before. n batches lie in at
    most log₂ n + n / 1024 + 2 objects, and a line is written again O(log n) times.
    """
    with explained("compact", storage.where(METRICS)):
        found = metrics_objects(storage)
        if not found:
            return
        oldest = max(one.last for one in found) - KEPT + 1
        kept = [one for one in found if one.last >= oldest]
        joined = [one for one in kept if one.single]
        for one in reversed([one for one in kept if not one.single]):
            batches = sum(each.batches for each in joined)
            overlaps = any(each.first <= one.last for each in joined)
            large = one.batches > batches or one.batches + batches > _MOST_LINES
            if large and not overlaps:
                break
            joined.insert(0, one)
        if len(joined) > 1:
            _join(storage, joined, oldest)
        for one in found:
            if one.last < oldest:
                storage.delete(one.name)


def read_metrics(checkpoint: str | os.PathLike[str] | Storage) -> list[dict[str, Any]]:
    """The metrics of the newest batches of a query, at most 10 000, oldest first.

    Before the first batch there are none. A location that is not a checkpoint's is refused.

    Parameters:
        checkpoint: the checkpoint location that the user named, or the checkpoint's storage.
    """
    if isinstance(checkpoint, (str, os.PathLike)):
        storage = storage_at(checkpoint).under(FOLDER)
    else:
        storage = checkpoint
    with explained("read", storage.where(METRICS)):
        for left in reversed(range(_TRIES)):
            found = metrics_objects(storage)
            try:
                rows = _rows(storage, found)
                break
            except FileNotFoundError:  # joined to another object since it was listed
                if not left:
                    raise
        if not found and storage.list("metrics.jsonl"):
            raise other_format(storage.where(), 1, FORMAT)
        if not found and not storage.list(IDENTITY):
            raise no_checkpoint(storage.where(IDENTITY))
    return [rows[batch] for batch in sorted(rows)[-KEPT:]]


class MetricsObject(NamedTuple):
    """An object of metrics, of the batches from `first` to `last`."""

    name: str
    first: int
    last: int
    single: bool

    @property
    def batches(self) -> int:
        return self.last - self.first + 1


def metrics_objects(storage: Storage) -> list[MetricsObject]:
    """All objects, in such an order that of two that have a batch the newer one comes later.

    An interrupted compaction leaves objects beside the one that they were joined to, which reaches
    further back or ends later than each of them.
    """
    found = []
    for name in storage.list(METRICS):
        if match := _NAME.fullmatch(name):
            first, last = int(match[1]), int(match[2] or match[1])
            found.append(MetricsObject(name, first, last, single=match[2] is None))
    return sorted(found, key=lambda one: (one.single, one.last, -one.first))


def _rows(storage: Storage, objects: list[MetricsObject]) -> dict[int, dict[str, Any]]:
    """Batch → its metrics, by the last object that has it."""
    return {row["batch"]: row for one in objects for row in metrics_in(storage.read(one.name))}


def metrics_in(content: bytes) -> Iterator[dict[str, Any]]:
    """The metrics in an object's lines; what is not metrics is left out."""
    for line in content.splitlines():
        try:
            row = json.loads(line)
            if type(row["batch"]) is not int:
                continue
        except (ValueError, KeyError, TypeError, RecursionError):
            continue  # not ours: metrics are worth less than a query that goes on
        yield row


def _join(storage: Storage, objects: list[MetricsObject], oldest: int) -> None:
    rows = _rows(storage, objects)
    lines = [json.dumps(rows[batch]).encode() + b"\n" for batch in sorted(rows) if batch >= oldest]
    first, last = min(one.first for one in objects), max(one.last for one in objects)
    name = f"{METRICS}{max(first, oldest):010d}-{last:010d}.jsonl"
    storage.put(name, [b"".join(lines)])
    for one in objects:
        if one.name != name:
            storage.delete(one.name)
