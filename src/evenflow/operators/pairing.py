"""Pairs of rows of a key that are close in time, from ranges of sorted arrays."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from evenflow.operators.groups import I64
from evenflow.operators.windows import Booleans

BLOCK = 1 << 19  #: pairs per block
Pairs = Iterator[tuple[I64, I64]]  #: numbers of left and right rows


def pairs_within(
    group: I64,
    times: I64,
    within: int,
    fresh: Booleans,
    ranks: Callable[[I64], I64],
    block: int = BLOCK,
) -> Pairs:
    """Every pair of rows of one group, at most `within` apart, of which one is fresh: once, with the
    earlier row on the left.

    Parameters:
        group, times, fresh: of each row.
        within: inclusive.
        ranks: rows of equal group and time among others → their order.
        block: the maximum number of pairs per block.

    Example:
        >>> found = pairs_within(
        ...     np.zeros(3, int), np.array([5, 1, 3]), 2, np.array([True, True, False]), np.argsort)
        >>> [(left.tolist(), right.tolist()) for left, right in found]
        [([1], [2]), ([2], [0])]
    """
    order = np.lexsort((times, group))
    order = _settled(order, group, times, ranks)
    group, times, fresh = group[order], times[order], fresh[order]
    place = np.arange(len(order))
    # A fresh row is paired with all later rows, an old one only with fresh rows.
    for lefts, rights in ((place[fresh], place), (place[~fresh], place[fresh])):
        _, high = _ranges(group, times, lefts, rights, within)
        low = np.searchsorted(rights, lefts, "right")
        for left, right in _spread(low, high, block):
            yield order[lefts[left]], order[rights[right]]


def pairs_across(
    group: I64,
    times: I64,
    within: int,
    fresh: Booleans,
    is_right: Booleans,
    block: int = BLOCK,
) -> Pairs:
    """Every pair of a left and a right row of one group, at most `within` apart, of which one is
    fresh, once.

    Parameters:
        group, times, fresh: of each row.
        within: inclusive.
        is_right: on which side each row is.
        block: the maximum number of pairs per block.

    Example:
        >>> found = pairs_across(np.zeros(3, int), np.array([5, 1, 3]), 2,
        ...     np.array([True, True, False]), np.array([False, False, True]))
        >>> [(left.tolist(), right.tolist()) for left, right in found]
        [([1, 0], [2, 2])]
    """
    order = np.lexsort((times, group))
    group, times, fresh = group[order], times[order], fresh[order]
    right_side = is_right[order]
    place = np.arange(len(order))
    for lefts, rights in (
        (place[~right_side & fresh], place[right_side]),
        (place[~right_side & ~fresh], place[right_side & fresh]),
    ):
        low, high = _ranges(group, times, lefts, rights, within)
        for left, right in _spread(low, high, block):
            yield order[lefts[left]], order[rights[right]]


def every_pair(left: I64, right: I64) -> tuple[I64, I64]:
    """The numbers of all rows of the left and of the right that have the same value.

    Parameters:
        left, right: small whole numbers.

    Example:
        >>> found = every_pair(np.array([0, 1, 0]), np.array([0, 2, 0]))
        >>> [one.tolist() for one in found]
        [[0, 0, 2, 2], [0, 2, 0, 2]]
    """
    order = np.argsort(right, kind="stable")
    low, high = (np.searchsorted(right[order], left, end) for end in ("left", "right"))
    asking = np.repeat(np.arange(len(left)), high - low)
    first = np.repeat(low - np.cumsum(high - low) + (high - low), high - low)
    return asking, order[first + np.arange(len(asking))]


def _settled(order: I64, group: I64, times: I64, ranks: Callable[[I64], I64]) -> I64:
    """Rows of one group and time put into the order of `ranks`."""
    if len(order) < 2:
        return order
    a, b = order[:-1], order[1:]
    tie = (group[a] == group[b]) & (times[a] == times[b])
    if not tie.any():
        return order
    (tied,) = np.nonzero(np.append(tie, False) | np.append(False, tie))
    rows = order[tied]
    order[tied] = rows[np.lexsort((ranks(rows), times[rows], group[rows]))]
    return order


def _ranges(group: I64, times: I64, asking: I64, among: I64, within: int) -> tuple[I64, I64]:
    """For each row of `asking`, the range of rows of `among` that are close to it.

    Rows are sorted by group and time. Group and time become one integer, with times as ranks, so that
    no product exceeds 64 bits.
    """
    ranked = np.unique(times[among])
    width = len(ranked)
    numbers = group[among] * width + np.searchsorted(ranked, times[among])
    # Within the range of 64 bits: a sum would wrap near the first and the last moment.
    whole = np.iinfo(np.int64)
    earliest = np.maximum(times[asking], whole.min + within) - within
    latest = np.minimum(times[asking], whole.max - within) + within
    low = group[asking] * width + np.searchsorted(ranked, earliest, "left")
    high = group[asking] * width + np.searchsorted(ranked, latest, "right")
    return np.searchsorted(numbers, low, "left"), np.searchsorted(numbers, high, "left")


def _spread(low: I64, high: I64, block: int) -> Pairs:
    """(i, j) for all j in low[i] … high[i] − 1, at most `block` at a time."""
    counts = np.maximum(high - low, 0)
    ends = np.cumsum(counts)
    total = int(ends[-1]) if len(ends) else 0
    for start in range(0, total, block):
        stop = min(start + block, total)
        first = int(np.searchsorted(ends, start, "right"))
        last = int(np.searchsorted(ends, stop - 1, "right"))
        begins = np.maximum(ends[first : last + 1] - counts[first : last + 1], start)
        taken = np.minimum(ends[first : last + 1], stop) - begins
        asking = np.repeat(np.arange(first, last + 1), taken)
        yield asking, low[asking] + np.arange(start, stop) - (ends - counts)[asking]
