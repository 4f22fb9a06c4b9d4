"""Operators on nodes, on arrays: the steps of placement by load correlation.

Series are kept less their mean ("centred"), so that a covariance is a product of series and a node's
series is the sum of those of its operators, kept up to date by one addition for each move. Average
loads are whole numbers: their sums do not depend on the order of moves. Scores and correlations are
compared as whole billionths: operators of one chain have the same correlations but for rounding, and
rounding must not decide. Ties go to the larger load, then to the smaller row or node.

The twin of these kernels is `evenflow_lab.literal.placement`, the paper's words taken one by one.

This file has two nodes, `placing_all.py` all of them.
"""

from typing import NamedTuple

import numpy as np

from evenflow.kernels.jit import inlined, kernel

BILLION = 1_000_000_000


class Operators(NamedTuple):
    """What does not change.

    Parameters:
        centred: each load series less its mean, (operators, k).
        direction: the same, of length 1; zeros for a constant load.
        work: the average load as a whole number.
        movable: whether it may move.
        limit: a sum of squares up to which a series is a constant one.
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
        first, following: the operators of each node as a chain that ends with −1, in no order.
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
    """Two nodes on a bench of their own, where moves can be tried.

    Parameters:
        row: all operators of the two.
        side: on which of the two each is, 0 or 1; −1 while it is on neither.
        series, work, speed: as in `Sites`, for the two.
        aim: room for one series.
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
def is_better(value, work, row, best_value, best_work, best_row):
    if value != best_value:
        return value > best_value
    if work != best_work:
        return work > best_work
    return row < best_row


@inlined
def to_unit(series, limit, out):
    """`series` at length 1, zeros if it is constant."""
    squared = 0.0
    for t in range(len(series)):
        squared += series[t] * series[t]
    length = np.sqrt(squared)
    for t in range(len(series)):
        out[t] = series[t] / length if squared > limit else 0.0


@inlined
def _against(operators, row, series, without):
    """ρ(o, N) with a node's series; without the operator's own part where it is in it."""
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
    """Put nodes a and b on the bench; how many operators they have."""
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
    """Make what is on the bench the nodes' own."""
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
    """Operator i, which is on neither node, goes to this one."""
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
    """Move operators from the more to the less loaded node, best first, while they are less than what
    evens the two. The best has the largest score; or, if there are ranks, the smallest of those."""
    here = _fuller(pair)
    there = 1 - here
    room = (pair.work[here] * pair.speed[there] - pair.work[there] * pair.speed[here]) / (
        pair.speed[here] + pair.speed[there]
    )
    selected = np.int64(0)
    while True:
        best, best_value = -1, np.int64(0)
        for i in range(count):
            row = pair.row[i]
            work = operators.work[row]
            if pair.side[i] != here or not operators.movable[row] or work == 0:
                continue
            if selected + work >= room:
                continue
            value = -rank[row] if len(rank) else _score(operators, pair, i, here)
            if best < 0 or is_better(
                value, work, row, best_value, operators.work[pair.row[best]], pair.row[best]
            ):
                best, best_value = i, value
        if best < 0:
            return
        _take(operators, pair, best)
        _put(operators, pair, best, there)
        selected += operators.work[pair.row[best]]


@kernel
def redistribute(operators, pair, count, rank):
    """Empty both nodes of what is movable; then the less loaded gets the operator with the largest
    score, again and again; then `one_way`."""
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
        best, best_value = -1, np.int64(0)
        for i in range(count):
            if pair.side[i] >= 0:
                continue
            row = pair.row[i]
            dot = 0.0
            for t in range(len(pair.aim)):
                dot += operators.direction[row, t] * pair.aim[t]
            value = in_billionths(dot / 2)
            if best < 0 or is_better(
                value,
                operators.work[row],
                row,
                best_value,
                operators.work[pair.row[best]],
                pair.row[best],
            ):
                best, best_value = i, value
        _put(operators, pair, best, there)
    one_way(operators, pair, count, rank)


@inlined
def _aim(operators, pair, there):
    """The direction that scores with respect to this node are products with."""
    here_squared = there_squared = 0.0
    for t in range(len(pair.aim)):
        here_squared += pair.series[1 - there, t] ** 2
        there_squared += pair.series[there, t] ** 2
    here = 1.0 / np.sqrt(here_squared) if here_squared > operators.limit else 0.0
    own = 1.0 / np.sqrt(there_squared) if there_squared > operators.limit else 0.0
    for t in range(len(pair.aim)):
        pair.aim[t] = pair.series[1 - there, t] * here - pair.series[there, t] * own


@kernel
def exchange(operators, pair, count, rank, least):
    """`one_way`; then the more loaded node gives away its operator with the largest score, if that is
    above `least` billionths, again and again; then `one_way`."""
    one_way(operators, pair, count, rank)
    for _ in range(count):
        here = _fuller(pair)
        best, best_value = -1, np.int64(0)
        for i in range(count):
            row = pair.row[i]
            if pair.side[i] != here or not operators.movable[row]:
                continue
            value = _score(operators, pair, i, here)
            if value > least and (
                best < 0
                or is_better(
                    value,
                    operators.work[row],
                    row,
                    best_value,
                    operators.work[pair.row[best]],
                    pair.row[best],
                )
            ):
                best, best_value = i, value
        if best < 0:
            break
        _take(operators, pair, best)
        _put(operators, pair, best, 1 - here)
    one_way(operators, pair, count, rank)


@kernel
def bench_correlation(operators, pair):
    """ρ12 of the two nodes on the bench, in billionths."""
    dot = first = second = 0.0
    for t in range(pair.series.shape[1]):
        dot += pair.series[0, t] * pair.series[1, t]
        first += pair.series[0, t] ** 2
        second += pair.series[1, t] ** 2
    if first <= operators.limit or second <= operators.limit:
        return np.int64(0)
    return in_billionths(dot / np.sqrt(first) / np.sqrt(second))


@kernel
def node_correlation(sites, a, b):
    """ρab in billionths."""
    dot = 0.0
    for t in range(sites.direction.shape[1]):
        dot += sites.direction[a, t] * sites.direction[b, t]
    return in_billionths(dot)
