"""Slow, obvious twins for planning, and instances for hypothesis.

The twin of the planners of mixed routing is shipped, because `evenflow bench planner` measures against
it: `evenflow_lab.literal.planning`.
"""

from itertools import pairwise

import numpy as np
from hypothesis import strategies as st

from evenflow.planning.protocol import Constraints, Statistics
from evenflow_lab.literal import planning as literal

LITERAL = {
    "llfd": literal.llfd_alone,
    "min-table": literal.min_table,
    "min-mig": literal.min_mig,
}


def workers_of(trial, statistics):
    """F′ in the order of the statistics."""
    assignment = trial.assignment()
    return [assignment[key] for key in statistics.keys.tolist()]


def simple(costs, workers):
    """The overload that the appendix's Simple reaches: the costliest key first, each to the least
    loaded worker."""
    loads = [0.0] * workers
    for cost in sorted(costs, reverse=True):
        loads[loads.index(min(loads))] += cost
    return max(loads) * workers / sum(loads) - 1


def overload_of(trial):
    return trial.constraints.overload(np.array([trial.load[d] for d in sorted(trial.load)]))


@st.composite
def instances(draw, most_keys=24, most_workers=5, leaving=True, weights=True, even_state=False):
    """(statistics, constraints) with whole costs, so that sums are exact and ties are common."""
    n = draw(st.integers(1, most_workers))
    k = draw(st.integers(0, most_keys))
    greatest = draw(st.sampled_from([1, 4, 30, 1000]))
    costs = draw(st.lists(st.integers(0, greatest), min_size=k, max_size=k))
    states = draw(st.lists(st.integers(0, 5), min_size=k, max_size=k))
    home = draw(st.lists(st.integers(0, n - 1), min_size=k, max_size=k))
    top = n if leaving else n - 1
    now = draw(st.lists(st.none() | st.integers(0, top), min_size=k, max_size=k))
    keys = draw(st.lists(st.integers(0, 2**64 - 1), min_size=k, max_size=k, unique=True))
    statistics = Statistics.of(
        costs,
        [h if d is None else d for d, h in zip(now, home, strict=True)],
        home,
        [3] * k if even_state else states,
        keys,
    )
    capacities = st.lists(st.sampled_from([0.5, 1.0, 3.0]), min_size=n, max_size=n).map(tuple)
    constraints = Constraints(
        n,
        draw(st.sampled_from([0.0, 0.02, 0.1, 0.5])),
        draw(st.integers(0, 10)),
        draw(st.none() | capacities) if weights else None,
    )
    return statistics, constraints


@st.composite
def perfect_instances(draw):
    """(statistics, N): every worker's share cut into parts, and the parts dealt out anew."""
    n = draw(st.integers(2, 6))
    share = draw(st.integers(6, 60))
    costs = []
    for _ in range(n):
        cuts = draw(st.sets(st.integers(1, share - 1), min_size=1, max_size=3))
        edges = [0, *sorted(cuts), share]
        costs += [b - a for a, b in pairwise(edges)]
    worker = draw(st.lists(st.integers(0, n - 1), min_size=len(costs), max_size=len(costs)))
    return Statistics.of(costs, worker), n


def shuffled(statistics, seed):
    """The same rows in another order, and that order."""
    order = np.random.default_rng(seed).permutation(len(statistics))
    columns = ("keys", "costs", "state", "worker", "home")
    return Statistics(*(getattr(statistics, column)[order] for column in columns)), order
