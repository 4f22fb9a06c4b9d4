"""The workers that a hot key may go to, as a set of bits that is made once and kept.

A row holds the key and the d that its set was made for, the place in the levels where a worker was last
found, how many hash functions were used, and then the set itself.
"""

from __future__ import annotations

import numpy as np

from evenflow.grouping.protocol import U64
from evenflow.kernels.jit import inlined, kernel
from evenflow.kernels.mixing import choice, mix
from evenflow.kernels.selection import add_to_set, is_in_set, take_least_of_set, words_for

KEY, MADE_FOR, PLACE, DRAWN, SET = range(5)

_ROWS = 2048  # a power of two; hot keys that share a row only cost time


def new_sets(n: int) -> U64:
    """Rows for sets of n workers, which fit no key yet."""
    return np.zeros((_ROWS, SET + words_for(n)), np.uint64)


@kernel
def _make_set(row, key, mixed, n, d, distinct):
    """The set of F₁(key) … F_d(key), or of all workers where d is n.

    If the workers are to be `distinct`, functions whose worker is there already do not count.
    """
    made = np.int64(row[MADE_FOR])
    if row[KEY] != key or made > d or d == n:
        row[SET:] = np.uint64(0)
        row[DRAWN] = np.uint64(0)
        made = np.int64(0)
    row[KEY], row[MADE_FOR], row[PLACE] = key, d, np.uint64(0)
    # Hash functions cannot be relied upon to reach every worker: after many, workers go by number.
    by_hash = np.uint64(64) * n
    while made < d:
        drawn = row[DRAWN]
        row[DRAWN] += np.uint64(1)
        if d == n:
            w = drawn
        elif drawn < by_hash:
            w = choice(mixed, drawn, n)
        else:
            w = drawn - by_hash
        made += 1 if not (distinct and is_in_set(row[SET:], w)) else 0
        add_to_set(row[SET:], w)


@inlined
def take_of_row(row, key, seed, n, d, distinct, loads, board, levels):
    """Add one to the least loaded of the key's d workers, and return it."""
    if (row[KEY] != key) | (row[MADE_FOR] != np.uint64(d)):
        _make_set(row, key, mix(key ^ seed), n, d, distinct)
    w, row[PLACE] = take_least_of_set(loads, board, levels, row[SET:], row[PLACE])
    return w
