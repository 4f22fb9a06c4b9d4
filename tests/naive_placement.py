"""Slow, obvious twins of what `evenflow.placement` does besides the paper's pseudo-code (whose twin is
`evenflow_lab.literal.placement`): largest load first, random order, and the true optimum."""

from itertools import product

import numpy as np

from evenflow.placement.protocol import Nodes, Observed
from evenflow_lab.literal import placement as literal


def greedy(observed: Observed, nodes: Nodes, order: list[int]) -> list[int]:
    """Each operator in turn to the least loaded node; then one round of one-way balancing."""
    plan = literal.Plan.of(observed, nodes, emptied=True)
    for o in order:
        if o in plan.nowhere:
            plan.put(o, min(range(nodes.count), key=lambda node: (plan.busy(node), node)))
    _one_way_round(plan, order, 0.0)
    return plan.where()


def balance(observed: Observed, nodes: Nodes, order: list[int], threshold: float) -> list[int]:
    """One round of one-way balancing, operators in this order."""
    plan = literal.Plan.of(observed, nodes)
    _one_way_round(plan, order, threshold)
    return plan.where()


def _one_way_round(plan, order, threshold):
    for a, b in literal.pairs(plan, threshold):
        here, there = literal.fuller(plan, a, b)
        c1, c2 = plan.capacity[here], plan.capacity[there]
        room = (plan.work[here] * c2 - plan.work[there] * c1) / (c1 + c2)
        selected = 0
        for o in order:
            candidate = o in plan.on[here] and plan.movable[o] and plan.load[o]
            if candidate and selected + plan.load[o] < room:
                plan.take(o, here)
                plan.put(o, there)
                selected += plan.load[o]


def brute_force(observed: Observed, nodes: Nodes, largest: float) -> float:
    """The least average load variance of all plans in which no node's average load is above
    `largest`; infinite if there is none."""
    series, n = observed.series, nodes.count
    loads = series.mean(axis=1)
    least = np.inf
    for node in product(range(n), repeat=len(series) - 1):
        where = np.array((0, *node))  # nodes are alike: the first operator can be on node 0
        if np.bincount(where, loads, n).max() > largest * (1 + 1e-9):
            continue
        total = np.array([series[where == j].sum(axis=0) for j in range(n)])
        least = min(least, total.var(axis=1).mean())
    return least


def covariance(series: np.ndarray) -> np.ndarray:
    """cov of every pair of rows, by its definition."""
    k = series.shape[1]
    return np.array(
        [
            [
                sum(a * b for a, b in zip(x, y, strict=True)) / k - x.mean() * y.mean()
                for y in series
            ]
            for x in series
        ]
    )
