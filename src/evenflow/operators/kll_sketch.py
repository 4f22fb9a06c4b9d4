"""KLL quantile sketches that depend on their values alone, in the format of Apache DataSketches."""

from __future__ import annotations

import struct
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from evenflow.operators.sketch_library import damaged_sketch

F64 = npt.NDArray[np.float64]

_LEAST = 8  # of a level's capacity, as in DataSketches
_PREAMBLE = struct.Struct("<BBBBHBBQHBB")  # of more than one value
_SINGLE = struct.Struct("<BBBBHBBd")
_FAMILY, _IS_SINGLE = 15, 4
_WORD = (1 << 64) - 1
_HIGHEST = 60  # levels: more than 2⁶⁰ values nobody has


def kll_of(values: F64, k: int) -> bytes:
    """The serialized sketch of these values.

    Guarantee: it is the same for the same values in any order. The error is that of KLL, and smaller
    for many values at once, because a level is halved once and not bit by bit. DataSketches tosses its
    coins with a generator that starts afresh in every process; here they follow from the number of
    values, so that a batch that is run again leaves the same state.

    Parameters:
        values: at least one, no NaN.
        k: the size of the sketch.

    Example:
        >>> kll_of(np.arange(1e5), 200) == kll_of(np.arange(1e5)[::-1], 200)
        True
    """
    lowest, highest = float(values.min()), float(values.max())
    return _written(_compressed([np.sort(values)], k, len(values)), k, lowest, highest)


def merge_kll(parts: Sequence[bytes]) -> bytes:
    """One sketch of all values of these, which have the same k; in whichever order they come."""
    read = [_read(part) for part in parts]
    k, height = read[0][0], max(len(levels) for _, levels, _, _ in read)
    levels = [
        np.sort(np.concatenate([part[h] for _, part, _, _ in read if h < len(part)]))
        for h in range(height)
    ]
    n = sum(len(items) << h for h, items in enumerate(levels))
    lowest, highest = min(one[2] for one in read), max(one[3] for one in read)
    return _written(_compressed(levels, k, n), k, lowest, highest)


def _compressed(levels: list[F64], k: int, n: int) -> list[F64]:
    """The levels, halved until they fit: a value of level h stands for 2^h values."""
    while sum(map(len, levels)) > sum(_capacities(k, len(levels))):
        capacities = _capacities(k, len(levels))
        h = next(h for h, items in enumerate(levels) if len(items) >= capacities[h])
        if h + 1 == len(levels):
            levels = [*levels, np.zeros(0)]
        odd = len(levels[h]) % 2
        promoted = levels[h][odd + _coin(n, h) :: 2]
        levels = list(levels)
        levels[h + 1] = np.sort(np.concatenate([levels[h + 1], promoted]))
        levels[h] = levels[h][:odd]
    return levels


def _capacities(k: int, height: int) -> list[int]:
    """How many values each level holds: ⅔ of the one above, as DataSketches rounds it."""
    return [max(_LEAST, _scaled(k, height - h - 1)) for h in range(height)]


def _scaled(k: int, depth: int) -> int:
    if depth > 30:
        return _scaled(_scaled(k, depth // 2), depth - depth // 2)
    return (((k << depth + 1) // int(3**depth)) + 1) >> 1


def _coin(n: int, h: int) -> int:
    """0 or 1, by the number of values and the level (the finalizer of SplitMix64)."""
    z = (n * 0x9E3779B97F4A7C15 + (h + 1) * 0xD1B54A32D192ED03) & _WORD
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & _WORD
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & _WORD
    return (z ^ (z >> 31)) & 1


def _written(levels: list[F64], k: int, lowest: float, highest: float) -> bytes:
    n = sum(len(items) << h for h, items in enumerate(levels))
    if n == 1:
        return _SINGLE.pack(2, 2, _FAMILY, _IS_SINGLE, k, _LEAST, 0, lowest)
    counts = [len(items) for items in levels]
    # Values lie at the end of a room for all that the levels could hold.
    starts = sum(_capacities(k, len(levels))) - sum(counts) + np.cumsum([0, *counts[:-1]])
    return b"".join(
        [
            _PREAMBLE.pack(5, 1, _FAMILY, 0, k, _LEAST, 0, n, k, len(levels), 0),
            starts.astype("<u4").tobytes(),
            struct.pack("<dd", lowest, highest),
            *(items.astype("<f8").tobytes() for items in levels),
        ]
    )


def _read(sketch: bytes) -> tuple[int, list[F64], float, float]:
    """(k, the values of each level, the smallest value, the largest)."""
    try:
        if sketch[3] & _IS_SINGLE:
            *_, k, _, _, value = _SINGLE.unpack(sketch)
            return k, [np.array([value])], value, value
        *_, k, _, _, _, _, height, _ = _PREAMBLE.unpack_from(sketch)
        starts = np.frombuffer(sketch, "<u4", height, _PREAMBLE.size).astype(np.int64)
        lowest, highest = struct.unpack_from("<dd", sketch, _PREAMBLE.size + 4 * height)
        values = np.frombuffer(sketch, "<f8", offset=_PREAMBLE.size + 4 * height + 16)
        if not 0 < height <= _HIGHEST or not k or (np.diff(starts) < 0).any():
            raise ValueError("its levels are not in order")
    except (struct.error, ValueError, IndexError) as error:
        raise damaged_sketch(error) from None
    return k, np.split(values, (starts - starts[0])[1:]), lowest, highest
