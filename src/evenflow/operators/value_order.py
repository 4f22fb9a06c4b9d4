"""Values as integers: which are the same, and which comes first, by Spark's rules."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as types

from evenflow.operators.groups import I64


def normalised(values: pa.Array) -> pa.Array:
    """Floats with one zero and one NaN, so that equal values have equal bits; others unchanged."""
    if not types.is_floating(values.type):
        return values
    floats = values.to_numpy(zero_copy_only=False) + 0  # −0.0 + 0 is 0.0
    floats[np.isnan(floats)] = np.nan
    return pa.array(floats, values.type)


def codes(values: pa.Array) -> tuple[I64, pa.Array]:
    """Values without nulls as numbers 0, 1, … and, for each number, its value.

    Example:
        >>> numbers, distinct = codes(pa.array([0.5, float("nan"), -0.0, 0.0, float("nan")]))
        >>> numbers.tolist(), distinct.to_pylist()
        ([0, 1, 2, 2, 1], [0.5, nan, 0.0])
    """
    encoded = normalised(values).dictionary_encode()
    return encoded.indices.to_numpy().astype(np.int64), encoded.dictionary


def ranks(distinct: pa.Array) -> I64:
    """The place of each of these distinct values in their order, from 0. NaN is the largest.

    Strings are ordered by their UTF-8 bytes and binary by unsigned bytes, as in Spark.

    Example:
        >>> ranks(pa.array([float("nan"), 2.0, -1.0, float("inf")])).tolist()
        [3, 1, 0, 2]
    """
    rank = np.empty(len(distinct), np.int64)
    if types.is_boolean(distinct.type):
        distinct = distinct.cast(pa.int8())
    # Arrow puts NaN behind all numbers, where Spark has it.
    rank[pc.array_sort_indices(distinct).to_numpy()] = np.arange(len(distinct))
    return rank
