"""Values as integers: equality and order by Spark's rules."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as types

from evenflow.operators.groups import I64
from evenflow.operators.input_columns import integers_type, is_plain, is_time

_ALL_BUT_SIGN = (1 << 63) - 1


def normalised(values: pa.Array) -> pa.Array:
    """Floats with one zero and one NaN, also within structs, so that equal values have equal bits;
    others unchanged. Spark does so with what it groups by.

    Example:
        >>> normalised(pa.array([-0.0, None, 1.0])).to_pylist()
        [0.0, None, 1.0]
    """
    kind = values.type
    if types.is_floating(kind):
        # −0.0 + 0.0 is 0.0
        zero, nan = pa.scalar(0.0, kind), pa.scalar(float("nan"), kind)
        return pc.if_else(pc.is_nan(values), nan, pc.add(values, zero))
    if types.is_struct(kind) and _has_floats(kind):
        parts = [normalised(part) for part in values.flatten()]
        return pa.StructArray.from_arrays(parts, fields=list(kind), mask=values.is_null())
    return values


def _has_floats(kind: pa.DataType) -> bool:
    if types.is_struct(kind):
        return any(_has_floats(field.type) for field in kind)
    return bool(types.is_floating(kind))


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
    # Arrow sorts NaN after all numbers, like Spark.
    rank[pc.array_sort_indices(distinct).to_numpy()] = np.arange(len(distinct))
    return rank


def order_numbers(values: pa.Array) -> I64:
    """Integers that are equal and ordered as these values, which have no nulls.

    Example:
        >>> a, b, c, d = order_numbers(pa.array([-1.5, -0.0, 0.0, float("nan")])).tolist()
        >>> a < b == c < d
        True
    """
    kind = values.type
    numbers: I64
    if types.is_floating(kind):
        bits = normalised(values).cast(pa.float64()).to_numpy().view(np.int64)
        numbers = bits ^ ((bits >> 63) & np.int64(_ALL_BUT_SIGN))
    elif types.is_uint64(kind):
        numbers = (values.to_numpy() ^ np.uint64(1 << 63)).view(np.int64)
    elif types.is_boolean(kind) or types.is_integer(kind):
        numbers = values.cast(pa.int64()).to_numpy()
    elif is_time(kind):
        numbers = values.view(integers_type(kind)).to_numpy().astype(np.int64)
    else:
        places, distinct = codes(values)
        numbers = ranks(distinct)[places]
    return numbers


def content_ranks(rows: pa.Table) -> I64:
    """The place of each row in the order of its values, column by column; nulls come last.

    Columns without an order (lists, structs) are ignored; rows that differ in nothing else keep their
    order.

    Example:
        >>> content_ranks(pa.table({"a": [2, 1, 2], "b": ["y", "x", None]})).tolist()
        [1, 0, 2]
    """
    place = np.arange(rows.num_rows)
    named = [name for name in rows.column_names if is_plain(rows.schema.field(name).type)]
    if named:
        # Arrow cannot sort by booleans or fixed-size binary together with other columns.
        columns = {name: _sortable(rows.column(name)) for name in named}
        columns["\0row"] = pa.array(place)
        keys = [(name, "ascending") for name in columns]
        order = pc.sort_indices(pa.table(columns), sort_keys=keys).to_numpy()
        rank = np.empty_like(place)
        rank[order] = place
        return rank
    return place


def _sortable(column: pa.ChunkedArray) -> pa.ChunkedArray:
    return column.cast(pa.int8()) if types.is_boolean(column.type) else column
