"""How full partitions would be under a scheme, from the counts of keys alone."""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from math import log, pi, sqrt

import numpy as np

from evenflow.model import KeyCounts
from evenflow.model.owners import owner_of
from evenflow.planning.batch_costs import Load
from evenflow.planning.protocol import F64, U64

_PLANNED = 1.06  # fullest ÷ average that a planner is content with
_SPREAD = 1.02  # fullest ÷ average where hot keys have as many partitions as they need


@dataclass(frozen=True)
class KeyLoads:
    """The counts of keys in a batch, and what schemes would make of them.

    The hottest keys are known one by one; all others together, as so many keys of the same size.

    Parameters:
        counts: of the hottest keys, and of all rows.
        keys: how many different keys there are.
        partitions, seed: of the hash.
        before: the counts that a table for this batch would have been made from; None for the same.

    Example:
        >>> loads = KeyLoads(KeyCounts({7: 400}, 1000), keys=100, partitions=10)
        >>> [round(one.fullest) for one in (loads.hashed(), loads.split(2), loads.split(None))]
        [460, 200, 102]
    """

    counts: KeyCounts
    keys: int
    partitions: int
    seed: int = 0
    before: KeyCounts | None = None

    @property
    def rows(self) -> float:
        return float(self.counts.total)

    def hashed(self) -> Load:
        """Every key where the hash says."""
        prints, counts = _columns(self.counts)
        return Load(self.rows, self._fullest(prints, counts, self._homes(prints)))

    def planned(self) -> Load:
        """The hot keys spread by a table, the largest first, as their counts were before."""
        known, sizes = _columns(self.counts if self.before is None else self.before)
        scale = self.rows / max(1, (self.counts if self.before is None else self.before).total)
        rest = self._rest(sizes * scale) / self.partitions
        heap = [(rest, partition) for partition in range(self.partitions)]
        place = np.empty(len(known), np.int64)
        for i in np.argsort(-sizes, kind="stable").tolist():
            load, place[i] = heap[0]
            heapq.heapreplace(heap, (load + float(sizes[i]) * scale, int(place[i])))
        prints, counts = _columns(self.counts)
        owners = self._homes(prints).astype(np.int64)
        if len(known):
            order = np.argsort(known)
            at = order[np.minimum(np.searchsorted(known[order], prints), len(known) - 1)]
            owners = np.where(known[at] == prints, place[at], owners)
        fullest = max(self._fullest(prints, counts, owners), _PLANNED * self.rows / self.partitions)
        moved = float((owners != self._homes(prints)).sum())
        return Load(self.rows, min(fullest, self.hashed().fullest), in_python=True, moved=moved)

    def split(self, choices: int | None) -> Load:
        """Every key in as many partitions as it may use: two, or any number (None)."""
        prints, counts = _columns(self.counts)
        even = self.rows / self.partitions
        fullest = _SPREAD * even
        if choices is not None:
            fullest = max(fullest, self._two_choices(prints, counts))
        more = 0.0 if choices is not None else float(np.maximum(counts / even - 2, 0).sum())
        return Load(self.rows, fullest, self._parts(counts) + more, in_python=True)

    def _two_choices(self, prints: U64, counts: F64) -> float:
        """The fullest partition if the rows of each key go to the emptier one of two."""
        loads = np.zeros(self.partitions)
        first = self._homes(prints)
        apart = 1 + owner_of(prints, max(1, self.partitions - 1), self.seed + 1)
        second = (first + apart) % self.partitions
        for i in np.argsort(-counts, kind="stable").tolist():
            one, two, rows = int(first[i]), int(second[i]), float(counts[i])
            if loads[one] > loads[two]:
                one, two = two, one
            lead = float(loads[two] - loads[one])
            loads[one] += rows if rows <= lead else (rows + lead) / 2
            loads[two] += 0.0 if rows <= lead else (rows - lead) / 2
        return float(loads.max(initial=0.0))  # light keys go where room is left

    def _parts(self, counts: F64) -> float:
        """Parts of states, if a key is in two partitions at most: a key with one row is in one."""
        light = max(0, self.keys - len(counts))
        rows = self._rest(counts) / light if light else 0.0
        heavy = float((2 - 0.5 ** (np.maximum(counts, 1) - 1)).sum())
        return heavy + light * float(2 - 0.5 ** max(rows - 1, 0.0))

    def _fullest(self, prints: U64, counts: F64, owners: np.ndarray) -> float:
        heavy = np.bincount(owners, counts, self.partitions)
        rest = self._rest(counts) / self.partitions
        light = max(1, self.keys - len(counts))
        # By chance, some partition has more of the light keys than others.
        chance = rest * _largest(self.partitions) * sqrt(self.partitions / light)
        alone, beside = float(heavy.max(initial=0.0)) + rest, float(heavy.mean()) + rest + chance
        return min(max(alone, beside), self.rows)

    def _homes(self, prints: U64) -> np.ndarray:
        return owner_of(prints, self.partitions, self.seed)

    def _rest(self, counts: F64) -> float:
        return max(0.0, self.rows - float(counts.sum()))


def _largest(n: int) -> float:
    """The expected largest of n normal variables, in standard deviations.

    Example:
        >>> [round(_largest(n), 1) for n in (1, 8, 100)]
        [0.0, 1.2, 2.4]
    """
    if n < 3:
        return 0.56 * (n - 1)
    root = sqrt(2 * log(n))
    return root - (log(log(n)) + log(4 * pi)) / (2 * root)


def _columns(counts: KeyCounts) -> tuple[U64, F64]:
    n = len(counts.counts)
    return (
        np.fromiter(counts.counts.keys(), np.uint64, n),
        np.fromiter(counts.counts.values(), np.float64, n),
    )
