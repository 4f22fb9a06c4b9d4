"""In which order operators are taken by algorithms that do not look at correlations."""

from __future__ import annotations

import numpy as np

from evenflow.placement.board import I64, whole_loads
from evenflow.placement.protocol import Observed


def by_load(observed: Observed) -> I64:
    """The place of each operator in the order of falling load; ties by row.

    Example:
        >>> by_load(Observed.of([[1.0], [3.0], [1.0]])).tolist()
        [1, 0, 2]
    """
    return _places(np.argsort(-whole_loads(observed), kind="stable"))


def at_random(observed: Observed, seed: int) -> I64:
    """The place of each operator in an order drawn by the seed and the period."""
    return _places(np.random.default_rng([seed, observed.period]).permutation(len(observed)))


def _places(order: I64) -> I64:
    places = np.empty(len(order), np.int64)
    places[order] = np.arange(len(order))
    return places
