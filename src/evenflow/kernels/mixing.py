"""One 64-bit key, many independent workers: the hash functions F₁, F₂, … of the papers.

A key is mixed once with the seed; the two halves of the mixed word give two independent choices, and
every further pair of choices costs one more mix. Sources that share a seed share the functions.

Schemes that split keys use these. The *owner* of a key is the same for schemes, state and Spark:
`model.owners`.
"""

import numpy as np

from evenflow.kernels.jit import inlined

MULTIPLIER = np.uint64(0xD6E8FEB86659FD93)
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_HALF = np.uint64(32)
_LOW = np.uint64(0xFFFFFFFF)
_ONE = np.uint64(1)


@inlined
def mix(word):
    """A bijection of 64-bit words; every output bit depends on every input bit."""
    word ^= word >> _HALF
    word *= MULTIPLIER
    word ^= word >> _HALF
    word *= MULTIPLIER
    word ^= word >> _HALF
    return word


@inlined
def high_choice(mixed, n):
    """A number below `n` (uint64, at most 2³²) from the upper half of a mixed word."""
    return ((mixed >> _HALF) * n) >> _HALF


@inlined
def low_choice(mixed, n):
    """A number below `n` from the lower half, independent of `high_choice`."""
    return ((mixed & _LOW) * n) >> _HALF


@inlined
def later_mix(mixed, pair):
    """The word behind choices 2·pair and 2·pair + 1; `later_mix(m, 0)` is not `m`: pair 0 is `m`."""
    return mix(mixed + pair * _GOLDEN)


@inlined
def _word_behind(mixed, i):
    """The word whose upper (for an even i) or lower half is the i-th choice."""
    pair = i >> _ONE
    return mixed if pair == np.uint64(0) else later_mix(mixed, pair)


@inlined
def choice(mixed, i, n):
    """F_{i+1}(key): the i-th of an endless sequence of independent choices of a mixed key."""
    word = _word_behind(mixed, i)
    return low_choice(word, n) if i & _ONE else high_choice(word, n)


@inlined
def choice_word(mixed, i):
    """The same choice as a point on the circle of 64-bit words."""
    word = _word_behind(mixed, i)
    return word << _HALF if i & _ONE else word & (_LOW << _HALF)


def salt(*parts: int) -> np.uint64:
    """A well-mixed 64-bit word from a seed and further whole numbers (source, role, …)."""
    word = 0x243F6A8885A308D3
    for part in parts:
        word = (word ^ (part & 0xFFFFFFFFFFFFFFFF)) * 0xD6E8FEB86659FD93 & 0xFFFFFFFFFFFFFFFF
        word ^= word >> 32
    return np.uint64(word)
