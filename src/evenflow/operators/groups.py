"""Rows grouped by key: the one sort that all aggregates of a table share."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

I64 = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Groups:
    """The key of each row, as a number below n.

    Parameters:
        group: row → number of its key, 0 … n − 1.
        n: the number of keys. A key may have no rows.

    Example:
        >>> groups = Groups(np.array([2, 0, 2]), 3)
        >>> groups.order.tolist(), groups.counts.tolist()
        ([1, 0, 2], [1, 0, 2])
        >>> groups.reduce(np.maximum, np.array([5, 6, 7])).tolist()
        [6, 0, 7]
    """

    group: I64
    n: int

    @cached_property
    def order(self) -> I64:
        """The rows, key by key, in their own order within a key."""
        group, rows = self.group, len(self.group)
        if rows < 2 or bool(np.all(group[1:] >= group[:-1])):
            return np.arange(rows)
        bits = (rows - 1).bit_length()
        if bits + self.n.bit_length() > 62:
            return np.argsort(group, kind="stable")
        # Pack key and row number into one integer: NumPy sorts plain integers with vector
        # instructions, several times faster than a stable argsort, and this order is stable too.
        packed = (group << bits) | np.arange(rows)
        packed.sort()
        return packed & ((1 << bits) - 1)

    @cached_property
    def counts(self) -> I64:
        """The number of rows of each key."""
        return np.bincount(self.group, minlength=self.n)

    @cached_property
    def starts(self) -> I64:
        """Where each key's rows begin in `order`."""
        return self.bounds[:-1]

    @cached_property
    def bounds(self) -> I64:
        """Where each key's rows begin in `order` and, at the next index, end: n + 1 numbers."""
        return np.concatenate([np.zeros(1, np.int64), np.cumsum(self.counts)])

    @cached_property
    def empty(self) -> npt.NDArray[np.bool_]:
        """The keys without rows."""
        return np.equal(self.counts, 0)

    def reduce(self, ufunc: np.ufunc, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """`ufunc` over the values of each key; zero for a key without rows."""
        result = np.zeros(self.n, values.dtype)
        if len(values):
            # reduceat returns the next key's first value for a key without rows, so skip those.
            occupied = np.flatnonzero(self.counts)
            result[occupied] = ufunc.reduceat(values[self.order], self.starts[occupied])
        return result

    def where(self, chosen: npt.NDArray[Any]) -> Groups:
        """The groups of the rows selected by a mask or an index array."""
        return Groups(self.group[chosen], self.n)


def pairs(n: int) -> Groups:
    """The groups of two stacked tables of n keys: row i and row n + i belong to key i."""
    return Groups(np.concatenate([np.arange(n), np.arange(n)]), n)
