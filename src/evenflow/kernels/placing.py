"""Operators on nodes, on arrays: the steps of placement by load correlation.

Series are stored less their mean ("centred"), so that a covariance is a product of series and a node's
series is the sum of its operators' series, updated by one addition per move. Average loads are whole
numbers, so their sums do not depend on the order of moves. Scores and correlations are compared as
whole billionths: operators of one chain have the same correlations up to rounding, and rounding must
not decide. Ties go to the larger load, then to the smaller row or node.

The literal twin of these kernels is `evenflow_lab.literal.placement`.

This file handles two nodes, `placing_all.py` all of them.
"""

from typing import NamedTuple

import numpy as np

from evenflow.kernels.jit import inlined, kernel

BILLION = 1_000_000_000


class Operators(NamedTuple):
    """What is fixed during a placement.

    Parameters:
        centred: each load series less its mean, (operators, k).
        direction: the same, of length 1; zeros for a constant load.
        work: the average load as a whole number.
        movable: whether it may move.
        limit: a series with at most this sum of squares counts as constant.
    """

    centred: np.ndarray
    direction: np.ndarray
    work: np.ndarray
    movable: np.ndarray
    limit: float


class Sites(NamedTuple):
    """The nodes.

    Parameters:
        series: the sum of the centred series of its operators, (nodes, k).
        direction: the same, of length 1; zeros where it is constant.
        work: the sum of their average loads.
        speed: the node's capacity.
        first, following: the operators of each node as a linked list that ends with −1, in no order.
        where: the node of each operator.
    """

    series: np.ndarray
    direction: np.ndarray
    work: np.ndarray
    speed: np.ndarray
    first: np.ndarray
    following: np.ndarray
    where: np.ndarray


class Pair(NamedTuple):
    """A workbench with two nodes, where moves can be tried.

    Parameters:
        row: all operators of the two.
        side: the node of each operator, 0 or 1; −1 while it is on neither.
        series, work, speed: as in `Sites`, for the two.
        aim: scratch space for one series.
    """

    row: np.ndarray
    side: np.ndarray
    series: np.ndarray
    work: np.ndarray
    speed: np.ndarray
    aim: np.ndarray


@inlined
def in_billionths(value):
    return np.int64(np.floor(value * BILLION + 0.5))


@inlined
def is_better(operators, value, row, best_value, best_row):
    """Whether an operator with this value comes before the best so far; −1 is none so far."""
    if best_row < 0 or value != best_value:
        return best_row < 0 or value > best_value
    work, best_work = operators.work[row], operators.work[best_row]
    return work > best_work or (work == best_work and row < best_row)


@inlined
def product(a, b):
    """The scalar product of two series."""
    dot = 0.0
    for t in range(len(a)):
        dot += a[t] * b[t]
    return dot


@inlined
def to_unit(series, limit, out):
    """Scale `series` to length 1; zeros if it is constant."""
    squared = product(series, series)
    length = np.sqrt(squared)
    for t in range(len(series)):
        out[t] = series[t] / length if squared > limit else 0.0


@inlined
def _against(operators, row, series, without):
    """ρ(o, N) with a node's series, without the operator's own part if it is on the node."""
    dot = squared = 0.0
    for t in range(len(series)):
        value = series[t]
        if without:
            value -= operators.centred[row, t]
        dot += operators.direction[row, t] * value
        squared += value * value
    return dot / np.sqrt(squared) if squared > operators.limit else 0.0


# --- two nodes ------------------------------------------------------------------------------------


@kernel
def gather(sites, a, b, pair):
    """Put nodes a and b on the bench; return the number of their operators."""
    count = 0
    for side in range(2):
        node = a if side == 0 else b
        pair.work[side], pair.speed[side] = sites.work[node], sites.speed[node]
        for t in range(pair.series.shape[1]):
            pair.series[side, t] = sites.series[node, t]
        row = sites.first[node]
        while row >= 0:
            pair.row[count], pair.side[count] = row, side
            count += 1
            row = sites.following[row]
    return count


@kernel
def commit(operators, sites, a, b, pair, count):
    """Copy the bench back to the nodes."""
    for side in range(2):
        node = a if side == 0 else b
        sites.first[node] = -1
        sites.work[node] = pair.work[side]
        for t in range(pair.series.shape[1]):
            sites.series[node, t] = pair.series[side, t]
        to_unit(sites.series[node], operators.limit, sites.direction[node])
    for i in range(count):
        row, node = pair.row[i], a if pair.side[i] == 0 else b
        sites.where[row] = node
        sites.following[row] = sites.first[node]
        sites.first[node] = row


@inlined
def _put(operators, pair, i, side):
    """Put operator i, which is on neither node, on this one."""
    row = pair.row[i]
    pair.side[i] = side
    pair.work[side] += operators.work[row]
    for t in range(pair.series.shape[1]):
        pair.series[side, t] += operators.centred[row, t]


@inlined
def _take(operators, pair, i):
    row, side = pair.row[i], pair.side[i]
    pair.side[i] = -1
    pair.work[side] -= operators.work[row]
    for t in range(pair.series.shape[1]):
        pair.series[side, t] -= operators.centred[row, t]


@inlined
def _fuller(pair):
    """The more loaded of the two."""
    return 0 if pair.work[0] / pair.speed[0] >= pair.work[1] / pair.speed[1] else 1


@inlined
def _score(operators, pair, i, here):
    """S(o, N2) of an operator on N1, in billionths."""
    row = pair.row[i]
    own = _against(operators, row, pair.series[here], True)
    other = _against(operators, row, pair.series[1 - here], False)
    return in_billionths((own - other) / 2)


@kernel
def one_way(operators, pair, count, rank):
    """Move operators from the more to the less loaded node, best first, without overshooting the even
    split. The best has the largest score or, if there are ranks, the smallest rank."""
    here = _fuller(pair)
    there = 1 - here
    room = (pair.work[here] * pair.speed[there] - pair.work[there] * pair.speed[here]) / (
        pair.speed[here] + pair.speed[there]
    )
    selected = np.int64(0)
    while True:
        best, best_row, best_value = -1, -1, np.int64(0)
        for i in range(count):
            row = pair.row[i]
            work = operators.work[row]
            if pair.side[i] != here or not operators.movable[row] or work == 0:
                continue
            if selected + work >= room:
                continue
            value = -rank[row] if len(rank) else _score(operators, pair, i, here)
            if is_better(operators, value, row, best_value, best_row):
                best, best_row, best_value = i, row, value
        if best < 0:
            return
        _take(operators, pair, best)
        _put(operators, pair, best, there)
        selected += operators.work[best_row]


@kernel
def redistribute(operators, pair, count, rank):
    """Remove all movable operators from both nodes; then repeatedly give the less loaded node the
    operator with the largest score; then `one_way`."""
    left = 0
    for side in range(2):
        pair.work[side] = 0
        for t in range(pair.series.shape[1]):
            pair.series[side, t] = 0.0
    for i in range(count):
        if operators.movable[pair.row[i]]:
            pair.side[i] = -1
            left += 1
        else:
            _put(operators, pair, i, pair.side[i])
    for _ in range(left):
        there = 1 - _fuller(pair)
        _aim(operators, pair, there)
        best, best_row, best_value = -1, -1, np.int64(0)
        for i in range(count):
            if pair.side[i] >= 0:
                continue
            row = pair.row[i]
            value = in_billionths(product(operators.direction[row], pair.aim) / 2)
            if is_better(operators, value, row, best_value, best_row):
                best, best_row, best_value = i, row, value
        _put(operators, pair, best, there)
    one_way(operators, pair, count, rank)


@inlined
def _aim(operators, pair, there):
    """The direction whose product with an operator's direction is its score for this node."""
    own, other = pair.series[there], pair.series[1 - there]
    own_squared, other_squared = product(own, own), product(other, other)
    own_scale = 1.0 / np.sqrt(own_squared) if own_squared > operators.limit else 0.0
    other_scale = 1.0 / np.sqrt(other_squared) if other_squared > operators.limit else 0.0
    for t in range(len(pair.aim)):
        pair.aim[t] = other[t] * other_scale - own[t] * own_scale


@kernel
def exchange(operators, pair, count, rank, least):
    """`one_way`; then repeatedly move the operator with the largest score off the more loaded node, as
    long as the score is above `least` billionths; then `one_way`."""
    one_way(operators, pair, count, rank)
    for _ in range(count):
        here = _fuller(pair)
        best, best_row, best_value = -1, -1, np.int64(0)
        for i in range(count):
            row = pair.row[i]
            if pair.side[i] != here or not operators.movable[row]:
                continue
            value = _score(operators, pair, i, here)
            if value > least and is_better(operators, value, row, best_value, best_row):
                best, best_row, best_value = i, row, value
        if best < 0:
            break
        _take(operators, pair, best)
        _put(operators, pair, best, 1 - here)
    one_way(operators, pair, count, rank)


@kernel
def bench_correlation(operators, pair):
    """ρ12 of the two nodes on the bench, in billionths."""
    a, b = pair.series[0], pair.series[1]
    first, second = product(a, a), product(b, b)
    if first <= operators.limit or second <= operators.limit:
        return np.int64(0)
    return in_billionths(product(a, b) / np.sqrt(first) / np.sqrt(second))


@kernel
def node_correlation(sites, a, b):
    """ρab in billionths."""
    return in_billionths(product(sites.direction[a], sites.direction[b]))
