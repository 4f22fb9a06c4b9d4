"""All nodes at once, on arrays: the greedy assignment of operators and the correlation improvement.

What makes them fast, besides being compiled: the score of an operator with respect to a node is its
direction times (the average of all nodes' directions − that of the node), so that n correlations are
one product of k numbers; and the pair with the least correlation is looked up in the least of each row,
of which a change of two nodes makes only few out of date.

The twin of these kernels is `evenflow_lab.literal.placement`.
"""

import numpy as np

from evenflow.kernels.jit import inlined, kernel
from evenflow.kernels.placing import (
    BILLION,
    bench_correlation,
    commit,
    gather,
    in_billionths,
    is_better,
    node_correlation,
    redistribute,
    to_unit,
)

_NONE = np.int64(4 * BILLION)  #: more than any correlation
ADOPTED, TRIED, PAIRS_SUM = range(3)  # `counters` of `improve`


@inlined
def _settle(operators, sites, row, node):
    """An operator that is nowhere goes to a node."""
    sites.where[row] = node
    sites.following[row] = sites.first[node]
    sites.first[node] = row
    sites.work[node] += operators.work[row]
    for t in range(sites.series.shape[1]):
        sites.series[node, t] += operators.centred[row, t]


@kernel
def fill(operators, sites):
    """The nodes' chains, loads and series, from where operators are."""
    for node in range(len(sites.first)):
        sites.first[node] = -1
    for row in range(len(sites.where)):
        if sites.where[row] >= 0:
            _settle(operators, sites, row, sites.where[row])
    for node in range(len(sites.first)):
        to_unit(sites.series[node], operators.limit, sites.direction[node])


@inlined
def _idlest(sites):
    best = 0
    for node in range(1, len(sites.work)):
        if sites.work[node] / sites.speed[node] < sites.work[best] / sites.speed[best]:
            best = node
    return best


@kernel
def assign_by_score(operators, sites, left, together, aim):
    """The least loaded node gets, of the operators `left`, the one with the largest score with respect
    to it, until none is left. `together` and `aim` are room for one series each."""
    n, k = sites.series.shape
    for t in range(k):
        together[t] = 0.0
        for node in range(n):
            together[t] += sites.direction[node, t]
    for count in range(len(left), 0, -1):
        there = _idlest(sites)
        for t in range(k):
            aim[t] = together[t] / n - sites.direction[there, t]
        best, best_value = 0, np.int64(0)
        for i in range(count):
            row = left[i]
            dot = 0.0
            for t in range(k):
                dot += operators.direction[row, t] * aim[t]
            value = in_billionths(dot)
            if i == 0 or is_better(
                value,
                operators.work[row],
                row,
                best_value,
                operators.work[left[best]],
                left[best],
            ):
                best, best_value = i, value
        row = left[best]
        left[best] = left[count - 1]
        _settle(operators, sites, row, there)
        for t in range(k):
            together[t] -= sites.direction[there, t]
        to_unit(sites.series[there], operators.limit, sites.direction[there])
        for t in range(k):
            together[t] += sites.direction[there, t]


@kernel
def assign_in_order(operators, sites, order):
    """Each operator in turn goes to the least loaded node."""
    for i in range(len(order)):
        _settle(operators, sites, order[i], _idlest(sites))
    for node in range(len(sites.first)):
        to_unit(sites.series[node], operators.limit, sites.direction[node])


@inlined
def _look_along(correlation, taken, least, least_at, node):
    """The least correlation of the row that is not remembered."""
    least[node], least_at[node] = _NONE, -1
    for other in range(node + 1, len(least)):
        if not taken[node, other] and correlation[node, other] < least[node]:
            least[node], least_at[node] = correlation[node, other], other


@inlined
def _renew(sites, correlation, taken, node, counters):
    """The correlations of a node that has changed; its pairs are forgotten."""
    for other in range(len(sites.first)):
        if other == node:
            continue
        low, high = min(node, other), max(node, other)
        value = node_correlation(sites, low, high)
        counters[PAIRS_SUM] += value - correlation[low, high]
        correlation[low, high] = value
        taken[low, high] = False


@kernel
def improve(operators, sites, pair, rank, threshold, correlation, taken, least, least_at, counters):
    """While the average correlation of all pairs is not above `threshold` billionths: redistribute the
    pair with the least correlation that is not remembered, and keep that if its correlation grows.

    `correlation` and `taken` are room for a number and a mark for each pair of nodes, zeroed; `least`
    and `least_at` for the least of each row.
    """
    n = len(sites.first)
    pairs = n * (n - 1) // 2
    for node in range(n):
        for other in range(node + 1, n):
            correlation[node, other] = node_correlation(sites, node, other)
            counters[PAIRS_SUM] += correlation[node, other]
    for node in range(n):
        _look_along(correlation, taken, least, least_at, node)
    for _ in range(pairs):
        if counters[PAIRS_SUM] > threshold * pairs:
            break
        at = np.int64(0)
        for node in range(1, n):
            if least[node] < least[at]:
                at = np.int64(node)
        a, b = at, np.int64(least_at[at])
        if b < 0:
            break
        counters[TRIED] += 1
        taken[a, b] = True
        count = gather(sites, a, b, pair)
        redistribute(operators, pair, count, rank)
        if bench_correlation(operators, pair) <= correlation[a, b]:
            _look_along(correlation, taken, least, least_at, a)
            continue
        counters[ADOPTED] += 1
        commit(operators, sites, a, b, pair, count)
        _renew(sites, correlation, taken, a, counters)
        _renew(sites, correlation, taken, b, counters)
        for node in range(b + 1):
            if node in (a, b) or least_at[node] in (a, b):
                _look_along(correlation, taken, least, least_at, node)
                continue
            for changed in (a, b):
                value = correlation[node, changed]
                if changed > node and (
                    value < least[node] or (value == least[node] and changed < least_at[node])
                ):
                    least[node], least_at[node] = value, changed
