"""All nodes at once, on arrays: the greedy assignment of operators and the correlation improvement.

Two things make these kernels fast, besides compilation. The score of an operator for a node is its
direction times (the average of all nodes' directions − that of the node), so n correlations take one
product of k numbers. And the pair with the least correlation is found through the minimum of each row;
a change of two nodes invalidates only few of these.

The literal twin of these kernels is `evenflow_lab.literal.placement`.
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
    product,
    redistribute,
    to_unit,
)

_NONE = np.int64(4 * BILLION)  #: more than any correlation
ADOPTED, TRIED, PAIRS_SUM = range(3)  # `counters` of `improve`


@inlined
def _settle(operators, sites, row, node):
    """Put an unplaced operator on a node."""
    sites.where[row] = node
    sites.following[row] = sites.first[node]
    sites.first[node] = row
    sites.work[node] += operators.work[row]
    for t in range(sites.series.shape[1]):
        sites.series[node, t] += operators.centred[row, t]


@kernel
def fill(operators, sites):
    """Compute the nodes' lists, loads and series from the operators' places."""
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
    """Repeatedly give the least loaded node the operator with the largest score for it, of those in
    `left`, until none is left. `together` and `aim` are scratch space for one series each."""
    n, k = sites.series.shape
    for t in range(k):
        together[t] = 0.0
        for node in range(n):
            together[t] += sites.direction[node, t]
    for count in range(len(left), 0, -1):
        there = _idlest(sites)
        for t in range(k):
            aim[t] = together[t] / n - sites.direction[there, t]
        best, best_row, best_value = 0, -1, np.int64(0)
        for i in range(count):
            value = in_billionths(product(operators.direction[left[i]], aim))
            if is_better(operators, value, left[i], best_value, best_row):
                best, best_row, best_value = i, left[i], value
        left[best] = left[count - 1]
        _settle(operators, sites, best_row, there)
        for t in range(k):
            together[t] -= sites.direction[there, t]
        to_unit(sites.series[there], operators.limit, sites.direction[there])
        for t in range(k):
            together[t] += sites.direction[there, t]


@kernel
def assign_in_order(operators, sites, order):
    """Put each operator in turn on the least loaded node."""
    for i in range(len(order)):
        _settle(operators, sites, order[i], _idlest(sites))
    for node in range(len(sites.first)):
        to_unit(sites.series[node], operators.limit, sites.direction[node])


@inlined
def _look_along(correlation, taken, least, least_at, node):
    """Find the least correlation in the row among pairs that were not tried."""
    least[node], least_at[node] = _NONE, -1
    for other in range(node + 1, len(least)):
        if not taken[node, other] and correlation[node, other] < least[node]:
            least[node], least_at[node] = correlation[node, other], other


@inlined
def _renew(sites, correlation, taken, node, counters):
    """Recompute the correlations of a node that has changed; its pairs count as untried."""
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
    """While the average correlation of all pairs is at most `threshold` billionths, redistribute the
    untried pair with the least correlation, and keep the result if its correlation grows.

    `correlation` and `taken` hold a number and a mark for each pair of nodes, zeroed; `least` and
    `least_at` the minimum of each row.
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
