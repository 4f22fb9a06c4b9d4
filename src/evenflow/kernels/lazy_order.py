"""Groups of rows, each sorted only as far as it is read: incremental quicksort.

Quicksort works from the front and stops once the requested place is settled. It keeps its partition
points as `cuts`: rows before a cut come before rows after it. Reading the first m of n rows takes
O(n + m log m); reading them again is free.

Rows are ordered by priority, highest first; ties go to the costlier row, then to the smaller key. Keys
are distinct, so the order does not depend on the input order.
"""

from typing import NamedTuple

import numpy as np

from evenflow.kernels.jit import inlined, kernel

_CUTS = 64  # more than median-of-three quicksort needs; beyond them a part is sorted at once
_SHORT = 24  # rows that are sorted by insertion


class Rows(NamedTuple):
    """The columns of each row.

    Parameters:
        cost: of one of its keys.
        key: its fingerprint, or any distinct number.
        keys_alike: the number of identical keys in the row; an empty array if each row is one key.
        scale: a power of two: costs are added up as whole multiples of 1/scale, so that sums do not
            depend on the order of addition.
    """

    cost: np.ndarray
    key: np.ndarray
    keys_alike: np.ndarray
    scale: float


class Order(NamedTuple):
    """Rows in groups; group g is `start[g]` to `start[g + 1]`, settled up to `done[g]`."""

    priority: np.ndarray
    row: np.ndarray
    start: np.ndarray
    done: np.ndarray
    cuts: np.ndarray
    depth: np.ndarray


def new_order(sizes: np.ndarray) -> Order:
    """An order with groups of these sizes; the caller fills `priority` and `row`."""
    start = np.zeros(len(sizes) + 1, np.int64)
    np.cumsum(sizes, out=start[1:])
    return Order(
        priority=np.empty(start[-1], np.float64),
        row=np.empty(start[-1], np.int32),
        start=start,
        done=start[:-1].copy(),
        cuts=np.zeros((len(sizes), _CUTS), np.int64),
        depth=np.zeros(len(sizes), np.int64),
    )


@inlined
def comes_before(rows, priority, row, other_priority, other):
    """Whether `row` comes before `other`."""
    if priority != other_priority:
        return priority > other_priority
    if rows.cost[row] != rows.cost[other]:
        return rows.cost[row] > rows.cost[other]
    return rows.key[row] < rows.key[other]


@inlined
def _at_before(rows, order, i, j):
    return comes_before(rows, order.priority[i], order.row[i], order.priority[j], order.row[j])


@kernel
def _sort(rows, order, low, high):
    """Sort a part completely with Shellsort: no memory, no bad worst case."""
    gap = 1
    while gap < (high - low) // 3 and high - low > _SHORT:
        gap = 3 * gap + 1
    while gap > 0:
        for i in range(low + gap, high):
            priority, row, j = order.priority[i], order.row[i], i
            while j >= low + gap and comes_before(
                rows, priority, row, order.priority[j - gap], order.row[j - gap]
            ):
                order.priority[j] = order.priority[j - gap]
                order.row[j] = order.row[j - gap]
                j -= gap
            order.priority[j] = priority
            order.row[j] = row
        gap //= 3


@kernel
def _cut(rows, order, low, high):
    """Partition the rows around a median of three; return where the second part begins."""
    first, middle, last = low, (low + high) // 2, high - 1
    if _at_before(rows, order, middle, first):
        first, middle = middle, first
    if _at_before(rows, order, last, middle):
        middle = first if _at_before(rows, order, last, first) else last
    priority, row = order.priority[middle], order.row[middle]
    i, j = low, high - 1
    while True:
        while comes_before(rows, order.priority[i], order.row[i], priority, row):
            i += 1
        while comes_before(rows, priority, row, order.priority[j], order.row[j]):
            j -= 1
        if i >= j:
            return j + 1
        order.priority[i], order.priority[j] = order.priority[j], order.priority[i]
        order.row[i], order.row[j] = order.row[j], order.row[i]
        i += 1
        j -= 1


@kernel
def settle(rows, order, group, place):
    """Sort the group far enough that the row at `place` is final."""
    while order.done[group] <= place:
        low, depth = order.done[group], order.depth[group]
        high = order.cuts[group, depth - 1] if depth else order.start[group + 1]
        if high - low <= _SHORT or depth == _CUTS:
            _sort(rows, order, low, high)
            order.done[group] = high
            order.depth[group] = max(depth - 1, 0)
        else:
            order.cuts[group, depth] = _cut(rows, order, low, high)
            order.depth[group] = depth + 1
