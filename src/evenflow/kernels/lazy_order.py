"""Groups of rows, each sorted only as far as somebody reads it: incremental quicksort.

Who wants the few most urgent of a million rows should not wait until all are sorted. Quicksort works
from the front here and stops when the place that is asked for is settled; where it stopped is kept, as
`cuts`: what lies before a cut comes before what lies after it. Reading the first m of n rows takes
O(n + m log m), and reading them again nothing.

Rows come in the order of their priority, the highest first; on a tie the costlier one, then the one
with the smaller key. Keys differ, so the order does not depend on where a row stood.
"""

from typing import NamedTuple

import numpy as np

from evenflow.kernels.jit import inlined, kernel

_CUTS = 64  # more than quicksort with medians of three needs; beyond them a part is sorted at once
_SHORT = 24  # rows that are sorted by insertion


class Rows(NamedTuple):
    """What is known of each row.

    Parameters:
        cost: of one of its keys.
        key: its fingerprint, or any number that no other row has.
        keys_alike: how many of them it stands for; an empty array if each is one key.
        scale: a power of two: costs are added up as whole numbers of 1/scale, so that no sum depends
            on the order in which it is made.
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
    """Room for groups of these sizes; `priority` and `row` are to be filled."""
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
    """Sort a part whole, by Shell's method: no memory, no bad worst case."""
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
    """Part the rows around the median of three of them; where the second part begins."""
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
    """Make sure that the row at `place`, in that group, is the one that belongs there."""
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
