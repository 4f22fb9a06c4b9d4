"""Rows by key: exact for all key types, without a Python call per row."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from evenflow.operators.value_order import normalised, order_numbers

I64 = npt.NDArray[np.int64]


def group_rows(columns: Sequence[pa.Array | pa.ChunkedArray]) -> tuple[I64, I64]:
    """(row → number of its key, number → first row of that key), by order of first appearance.

    Guarantee: two rows have the same number if and only if all their key columns are equal, as Spark
    groups them: null equals null, NaN equals NaN, −0.0 equals 0.0.

    Example:
        >>> group, first = group_rows([pa.array(["b", None, "b"]), pa.array([1, 2, 1])])
        >>> group.tolist(), first.tolist()
        ([0, 1, 0], [0, 1])
    """
    codes: I64 | None = None
    size = 1
    for column in columns:
        for flat in _flattened(column):
            more, n_more = _codes(flat)
            if codes is None:
                codes, size = more, n_more
            else:
                codes, size = _codes(pa.array(codes * n_more + more))
    if codes is None:
        raise ValueError("at least one key column is needed")
    first = np.empty(size, np.int64)
    first[codes[::-1]] = np.arange(len(codes) - 1, -1, -1)  # the last one written is the first row
    return codes, first


def keys_at(columns: pa.Table, rows: I64) -> pa.Table:
    """The keys of these rows, as Spark puts them out: −0.0 as 0.0, and every NaN the same.

    Parameters:
        columns: the key columns.
        rows: numbers of rows, such as the first of each key.
    """
    taken = columns.take(pa.array(rows))
    return pa.table(
        [normalised(column.combine_chunks()) for column in taken.columns], schema=taken.schema
    )


def key_order(columns: Sequence[pa.Array | pa.ChunkedArray]) -> I64:
    """The rows in the order in which Spark sorts such columns: null first, NaN after all numbers.

    Example:
        >>> key_order([pa.array([2, None, 1, 2]), pa.array(["b", "c", "d", "a"])]).tolist()
        [1, 2, 3, 0]
    """
    numbers = []
    for column in columns:
        for flat in _flattened(column):
            rank = np.full(len(flat), -1, np.int64)
            valid = flat.is_valid().to_numpy(zero_copy_only=False)
            _, place = np.unique(order_numbers(flat.drop_null()), return_inverse=True)
            rank[valid] = place
            numbers.append(rank)
    return np.lexsort(numbers[::-1])


def _flattened(column: pa.Array | pa.ChunkedArray) -> list[pa.Array]:
    """A column as flat ones: the fields of a struct, after whether there is a struct at all; sorted by
    them, null comes first."""
    array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    if isinstance(array, pa.ChunkedArray):  # too large to be one array
        array = pa.concat_arrays(array.chunks)
    if not pa.types.is_struct(array.type):
        return [array]
    fields = [part for child in array.flatten() for part in _flattened(child)]
    return [array.is_valid(), *fields] if array.null_count else fields


def _codes(array: pa.Array) -> tuple[I64, int]:
    """A number for each value, by order of first appearance, and how many there are."""
    if pa.types.is_null(array.type):
        return np.zeros(len(array), np.int64), min(len(array), 1)
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    encoded = normalised(array).dictionary_encode(null_encoding="encode")
    return encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64), len(encoded.dictionary)
