"""The order of operators in algorithms that ignore correlations."""

from __future__ import annotations

import numpy as np

from evenflow.placement.board import I64, whole_loads
from evenflow.placement.protocol import Observed


def by_load(observed: Observed) -> I64:
    """The rank of each operator by decreasing load; ties by row.

    Example:
        >>> by_load(Observed.of([[1.0], [3.0], [1.0]])).tolist()
        [1, 0, 2]
    """
    return _ranks(np.argsort(-whole_loads(observed), kind="stable"))


def at_random(observed: Observed, seed: int) -> I64:
    """The rank of each operator in an order drawn from the seed and the period."""
    return _ranks(np.random.default_rng([seed, observed.period]).permutation(len(observed)))


def _ranks(order: I64) -> I64:
    ranks = np.empty(len(order), np.int64)
    ranks[order] = np.arange(len(order))
    return ranks
