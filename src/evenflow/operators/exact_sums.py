"""Sums of integers and decimals that never wrap: halves of 32 bits are added, then carried."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from evenflow.operators.groups import I64, Groups

_HALF = 0xFFFFFFFF
_EXACT_IN_A_DOUBLE = 1 << 53


def sum_integers(values: I64, groups: Groups) -> tuple[I64, npt.NDArray[np.bool_]]:
    """The sum of each group, and which sums do not fit in 64 bits.

    Example:
        >>> big = np.array([2**62, 2**62, -1], np.int64)
        >>> sum_integers(big, Groups(np.array([0, 0, 0]), 1))
        (array([9223372036854775807]), array([False]))
        >>> sum_integers(big, Groups(np.array([0, 0, 1]), 2))[1]
        array([ True, False])
    """
    if len(values) == 0:
        return np.zeros(groups.n, np.int64), np.zeros(groups.n, np.bool_)
    largest = max(-int(values.min()), int(values.max()))
    if largest * len(values) < _EXACT_IN_A_DOUBLE:
        # Every partial sum is an integer that a double holds exactly, so no sort is needed.
        totals = np.bincount(groups.group, weights=values, minlength=groups.n)
        return totals.astype(np.int64), np.zeros(groups.n, np.bool_)
    low, high = _carried([_sums(values & _HALF, groups), _sums(values >> 32, groups)])
    return (high << 32) | low, _beyond_32_bits(high)


def sum_decimals(values: pa.Array, groups: Groups) -> tuple[pa.Array, npt.NDArray[np.bool_]]:
    """The sum of each group in the scale and with the precision of `values`, a decimal128 array
    without nulls, and which sums do not fit in 128 bits."""
    words = decimal_words(values)
    halves = [words[:, 0] & _HALF, (words[:, 0] >> 32) & _HALF, words[:, 1] & _HALF]
    halves.append(words[:, 1] >> 32)
    a, b, c, d = _carried([_sums(half, groups) for half in halves])
    sums = np.stack([(b << 32) | a, (d << 32) | c], axis=1)
    return from_decimal_words(sums, values.type), _beyond_32_bits(d)


def decimal_words(values: pa.Array) -> I64:
    """The lower and the upper 64 bits of each number of a decimal128 array."""
    buffer = values.buffers()[1]
    if buffer is None or len(values) == 0:
        return np.zeros((0, 2), np.int64)
    words = np.frombuffer(buffer, np.int64).reshape(-1, 2)
    return words[values.offset : values.offset + len(values)]


def from_decimal_words(words: I64, kind: pa.DataType) -> pa.Array:
    """The decimal128 array of these words."""
    data = pa.py_buffer(np.ascontiguousarray(words))
    return pa.Array.from_buffers(kind, len(words), [None, data])


def _sums(values: I64, groups: Groups) -> I64:
    return groups.reduce(np.add, values)


def _carried(halves: list[I64]) -> list[I64]:
    """Halves after carrying: all but the last are then between 0 and 2³² − 1."""
    carried, carry = [], np.zeros_like(halves[0])
    for half in halves[:-1]:
        full = half + carry
        carried.append(full & _HALF)
        carry = full >> 32
    return [*carried, halves[-1] + carry]


def _beyond_32_bits(values: I64) -> npt.NDArray[np.bool_]:
    return (values < -(1 << 31)) | (values >= 1 << 31)
