"""Random draws of synthetic streams, by position, so that chunking changes nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import numpy.typing as npt

from evenflow.kernels.jit import kernel
from evenflow.kernels.mixing import mix
from evenflow.simulator.workloads.protocol import U64

F64 = npt.NDArray[np.float64]
I32 = npt.NDArray[np.int32]

# Roles separate the random numbers of one seed.
DRAW, IDENTITY, PERMUTE, HOME, SWAP = 101, 102, 103, 104, 105

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_UNIT = 2.0**-53
_TO_53_BITS = np.uint64(11)


def in_stretches(
    messages: int, stretch: int, size: int, fill: Callable[[int, int, U64], None]
) -> Iterator[U64]:
    """Chunks of a stream whose distribution changes after every `stretch` messages.

    Parameters:
        messages: length of the stream.
        stretch: messages of one distribution.
        size: of the chunks.
        fill: called as `fill(stretch number, position, out)`, in the stream's order and without
            gaps; writes the keys from `position` on, which all lie in one stretch.

    Example:
        >>> def fill(number, position, out):
        ...     out[:] = number
        >>> [chunk.tolist() for chunk in in_stretches(7, 2, 4, fill)]
        [[0, 0, 1, 1], [2, 2, 3]]
    """
    for position in range(0, messages, size):
        out = np.empty(min(size, messages - position), np.uint64)
        done = 0
        while done < len(out):
            number = (position + done) // stretch
            stop = min(len(out), (number + 1) * stretch - position)
            fill(number, position + done, out[done:stop])
            done = stop
        yield out


def from_tables(
    probabilities: F64,
    tables: Iterator[U64],
    salt: np.uint64,
    messages: int,
    stretch: int | None,
    size: int,
) -> Iterator[U64]:
    """Chunks of independent keys: cell c has a fixed probability, and one key per stretch.

    Parameters:
        probabilities: of each cell.
        tables: the key of each cell, one table per stretch; the array may be reused.
        salt: of the draws.
        messages: length of the stream.
        stretch: messages before the next table is used; None: never.
        size: of the chunks.
    """
    accept, alias = alias_table(probabilities)
    current, keys = 0, next(tables)

    def fill(number: int, position: int, out: U64) -> None:
        nonlocal current, keys
        if number != current:
            current, keys = number, next(tables)
        _draw(salt, position, accept, alias, keys, out)

    return in_stretches(messages, stretch or messages, size, fill)


def power_law_weights(exponent: float, shift: float, n: int) -> F64:
    """(r + shift)^−exponent for r = 1 … n."""
    # The logarithm keeps a huge exponent from overflowing: the tail underflows to 0 instead.
    weights: F64 = np.exp(-exponent * np.log(np.arange(1, n + 1, dtype=np.float64) + shift))
    return weights


def alias_table(probabilities: F64) -> tuple[F64, I32]:
    """Walker's table, which turns a uniform number into a draw in constant time.

    Cell c, chosen uniformly, gives c with probability `accept[c]` and `alias[c]` otherwise.

    Example:
        >>> accept, alias = alias_table(np.array([0.75, 0.25]))
        >>> accept.tolist(), alias.tolist()
        ([1.0, 0.5], [0, 0])

    Paper: Vose, "A linear algorithm for generating random numbers with a given distribution", 1991.
    """
    accept = np.empty(len(probabilities))
    alias = np.empty(len(probabilities), np.int32)
    _fill_alias_table(probabilities, accept, alias, np.empty(len(probabilities), np.int32))
    return accept, alias


def named_keys(salt: np.uint64, n: int) -> U64:
    """n different fingerprints."""
    keys = np.empty(n, np.uint64)
    _name_keys(salt, keys)
    return keys


@kernel
def unit(word: np.uint64) -> np.float64:
    """A mixed word as a number in [0, 1)."""
    return np.float64(word >> _TO_53_BITS) * _UNIT


@kernel
def random_word(salt: np.uint64, counter: int) -> np.uint64:
    """A word that depends on the salt and the counter alone."""
    word: np.uint64 = mix(salt + np.uint64(counter) * _GOLDEN)
    return word


@kernel
def shuffle(salt: np.uint64, keys: U64) -> None:
    """Fisher and Yates: every permutation is equally likely."""
    for i in range(len(keys) - 1, 0, -1):
        j = np.uint64(unit(random_word(salt, i)) * (i + 1.0))
        keys[i], keys[j] = keys[j], keys[i]


@kernel
def _draw(salt: np.uint64, position: int, accept: F64, alias: I32, keys: U64, out: U64) -> None:
    cells = np.float64(len(accept))
    for i in range(len(out)):
        # One uniform number gives the cell and, by its fraction, the choice within the cell.
        spot = unit(random_word(salt, position + i)) * cells
        cell = np.uint64(spot)
        own = spot - np.float64(cell) < accept[cell]
        rank = cell if own else np.uint64(alias[cell])
        out[i] = keys[rank]


@kernel
def _name_keys(salt: np.uint64, keys: U64) -> None:
    for rank in range(len(keys)):
        keys[rank] = mix(salt + np.uint64(rank))


@kernel
def _fill_alias_table(probabilities: F64, accept: F64, alias: I32, stack: I32) -> None:
    n = len(probabilities)
    # `stack` serves as two: cells with too little from the left, with too much from the right.
    small, large = 0, n
    for cell in range(n):
        accept[cell] = probabilities[cell] * n
        alias[cell] = cell
        if accept[cell] < 1.0:
            stack[small] = cell
            small += 1
        else:
            large -= 1
            stack[large] = cell
    while small > 0 and large < n:
        small -= 1
        poor, rich = stack[small], stack[large]
        alias[poor] = rich
        accept[rich] -= 1.0 - accept[poor]
        if accept[rich] < 1.0:
            large += 1
            stack[small] = rich
            small += 1
    # What is left over differs from 1 by rounding only.
    while small > 0:
        small -= 1
        accept[stack[small]] = 1.0
    while large < n:
        accept[stack[large]] = 1.0
        large += 1
