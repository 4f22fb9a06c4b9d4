"""Statistics of each key over intervals: rows, cost and state, added up and aged."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from evenflow.planning.protocol import F64, I32, U64, Statistics


@dataclass(frozen=True)
class Seen:
    """One row per key, sorted by fingerprint.

    Parameters:
        keys: fingerprints.
        rows: the number of rows of each key.
        costs: their cost, in the operator's own unit: rows, or seconds.
        state: bytes of the key's state, as last seen.

    Example:
        >>> import numpy as np
        >>> one = Seen.of(np.array([9, 7, 9], np.uint64), np.ones(3), np.ones(3), np.full(3, 8.0))
        >>> one.keys.tolist(), one.rows.tolist()
        ([7, 9], [1.0, 2.0])
    """

    keys: U64
    rows: F64
    costs: F64
    state: F64

    @classmethod
    def of(cls, keys: U64, rows: F64, costs: F64, state: F64) -> Seen:
        """From columns in any order; rows of the same key are added up."""
        order = np.argsort(keys, kind="stable")
        ordered = keys[order]
        begins = np.ones(len(ordered), bool)
        begins[1:] = ordered[1:] != ordered[:-1]
        (starts,) = np.nonzero(begins)
        sums = [
            np.add.reduceat(column[order], starts) if len(starts) else column[:0]
            for column in (rows, costs, state)
        ]
        return cls(ordered[begins], *sums)

    @classmethod
    def nothing(cls) -> Seen:
        """No key."""
        empty = np.zeros(0)
        return cls(np.zeros(0, np.uint64), empty, empty, empty)

    @classmethod
    def sum(cls, parts: Sequence[Seen]) -> Seen:
        """Several parts of one interval, added up."""
        if not parts:
            return cls.nothing()
        columns = [
            np.concatenate([getattr(p, c) for p in parts])
            for c in ("keys", "rows", "costs", "state")
        ]
        return cls.of(*columns)

    def __len__(self) -> int:
        return len(self.keys)

    def after(self, before: Seen, memory: float) -> Seen:
        """This interval plus `memory` times the earlier ones. The size of a state is the last known
        one; a key whose weight has almost vanished is dropped."""
        kept = before.rows * memory >= 0.5
        old = before.keys[kept]
        known = np.isin(old, self.keys, assume_unique=True)
        return Seen.of(
            np.concatenate([self.keys, old]),
            np.concatenate([self.rows, before.rows[kept] * memory]),
            np.concatenate([self.costs, before.costs[kept] * memory]),
            np.concatenate([self.state, np.where(known, 0.0, before.state[kept])]),
        )

    def with_keys(self, keys: U64) -> Seen:
        """This, with a row of zeros for each of these keys that is missing."""
        missing = np.setdiff1d(keys, self.keys)
        nothing = np.zeros(len(missing))
        return Seen.sum([self, Seen(missing, nothing, nothing, nothing)])

    def statistics(self, worker: I32, home: I32) -> Statistics:
        """The input of planners."""
        return Statistics(self.keys, self.costs, self.state, worker, home)

    def deviation(self, worker: I32, workers: int) -> F64:
        """One standard deviation of each worker's cost: a key whose n rows arrived independently could
        just as well have had √n more or fewer."""
        squares = self.costs**2 / np.maximum(self.rows, 1)
        deviation: F64 = np.sqrt(np.bincount(worker, squares, workers))
        return deviation
