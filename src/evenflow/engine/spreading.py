"""Large keys on several partitions, all others whole: planned before rows are routed."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from math import ceil

import numpy as np
import pyarrow as pa

from evenflow.engine.layout import PARTITION
from evenflow.engine.routing import fingerprints_of
from evenflow.model import KeyCounts
from evenflow.model.owners import Owners


def spread_keys(hot: KeyCounts, partitions: int) -> dict[int, tuple[int, ...]]:
    """The partitions of the most frequent keys: as many for each as it has shares, and no more.

    Guarantee: a key with at most a partition's share of the rows has one partition; no part of a key
    is larger than that share.

    Parameters:
        hot: the rows of these keys, and of all.
        partitions: how many there are.

    Example:
        >>> places = spread_keys(KeyCounts({1: 50, 2: 20, 3: 20}, 100), 4)
        >>> [len(places[key]) for key in (1, 2, 3)]
        [2, 1, 1]
    """
    share = max(hot.total / partitions, 1.0)
    rest = (hot.total - sum(hot.counts.values())) / partitions
    loads = [(rest, partition) for partition in range(partitions)]
    parts = {key: min(partitions, ceil(rows / share)) for key, rows in hot.counts.items()}
    places: dict[int, tuple[int, ...]] = {}
    # The largest parts first: small ones even out what they leave.
    for key in sorted(parts, key=lambda one: (-hot.counts[one] / parts[one], one)):
        size = hot.counts[key] / parts[key]
        taken = [heapq.heappop(loads) for _ in range(parts[key])]
        for load, partition in taken:
            heapq.heappush(loads, (load + size, partition))
        places[key] = tuple(sorted(partition for _, partition in taken))
    return places


@dataclass(frozen=True)
class Spread:
    """A source task: puts the partition before the columns of each row.

    Guarantee: where a row goes depends on the rows before it in its source partition and on the number
    of that partition alone.

    Parameters:
        key: the key columns.
        owners: the partition of every key that is not listed.
        places: the partitions of those that are.
    """

    key: tuple[str, ...]
    owners: Owners
    places: Mapping[int, tuple[int, ...]] = field(default_factory=dict)

    def __call__(self, source: int, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        single = {key: there[0] for key, there in self.places.items() if len(there) == 1}
        owners = Owners(self.owners.partitions, self.owners.seed, single, self.owners.buckets)
        several = {key: np.array(there) for key, there in self.places.items() if len(there) > 1}
        listed = np.array(list(several), np.uint64)
        dealt = dict.fromkeys(several, source)  # so that sources do not all begin with the same one
        for batch in batches:
            prints = fingerprints_of(batch, self.key)
            out = np.asarray(owners(prints), np.int32).copy()
            for key in np.intersect1d(listed, prints).tolist():
                mine = np.flatnonzero(prints == np.uint64(key))
                there = several[key]
                out[mine] = there[(dealt[key] + np.arange(len(mine))) % len(there)]
                dealt[key] += len(mine)
            yield pa.record_batch(
                [pa.array(out), *batch.columns], names=[PARTITION, *batch.schema.names]
            )
