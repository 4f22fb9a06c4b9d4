"""Tables of more than 2 GiB: types with room for them, and pieces for those who have none.

Arrow's strings, bytes and lists count with 32 bits, so one array of them ends at 2 GiB. What a task
holds of all its keys is in the large types, which count with 64. Operators, Spark and files get the
types that they know, in pieces that fit.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.types as types

I64 = npt.NDArray[np.int64]

MOST = 1 << 30  #: bytes of a piece: half of what an array can hold, since a state may grow


def roomy(schema: pa.Schema) -> pa.Schema:
    """The schema with the large types of strings, bytes and lists, nulls allowed.

    Example:
        >>> roomy(pa.schema([("xs", pa.list_(pa.string()))])).field("xs").type
        LargeListType(large_list<item: large_string>)
    """
    return pa.schema([pa.field(field.name, _roomy(field.type)) for field in schema])


def pieces(table: pa.Table) -> Iterator[tuple[int, int]]:
    """The first row and the end of each stretch of at most about `MOST` bytes; all rows, in order.

    Parameters:
        table: in roomy types, if it may be large.
    """
    if table.nbytes <= MOST:
        yield 0, table.num_rows
        return
    ends = np.cumsum(row_bytes(table))
    cuts = [0]
    while cuts[-1] < table.num_rows:
        before = int(ends[cuts[-1] - 1]) if cuts[-1] else 0
        fits = int(np.searchsorted(ends, before + MOST, "right"))
        cuts.append(max(fits, cuts[-1] + 1))
    yield from pairwise(cuts)


def in_pieces(table: pa.Table, schema: pa.Schema) -> Iterator[pa.Table]:
    """The table, piece by piece, in the types of a schema."""
    for start, stop in pieces(table):
        yield piece_of(table, start, stop).cast(schema)


def piece_of(table: pa.Table, start: int, stop: int) -> pa.Table:
    """Some rows, in arrays of their own: a slice's offsets still count from the front of the whole."""
    if stop - start == table.num_rows:
        return table
    return table.take(pa.array(np.arange(start, stop)))


def _roomy(kind: pa.DataType) -> pa.DataType:
    if types.is_string(kind):
        return pa.large_string()
    if types.is_binary(kind):
        return pa.large_binary()
    if types.is_list(kind) or types.is_large_list(kind):
        return pa.large_list(kind.value_field.with_type(_roomy(kind.value_type)))
    if types.is_struct(kind):
        return pa.struct([field.with_type(_roomy(field.type)) for field in kind])
    return kind


def row_bytes(table: pa.Table) -> I64:
    """The bytes of each row's values: what has to be sent when the row moves.

    Example:
        >>> row_bytes(pa.table({"n": [1, 2], "name": ["a", "abc"], "xs": [[1, 2], []]})).tolist()
        [25, 11]
    """
    total = np.zeros(table.num_rows, np.int64)
    for column in table.combine_chunks().columns:
        array = column.chunk(0) if column.num_chunks else pa.array([], column.type)
        total += _value_bytes(array)
    return total


def _value_bytes(array: pa.Array) -> I64:
    kind, n = array.type, len(array)
    if pa.types.is_struct(kind):
        return sum((_value_bytes(part) for part in array.flatten()), np.zeros(n, np.int64))
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_map(kind):
        inner = np.concatenate([[0], np.cumsum(_value_bytes(array.values))])
        offsets = array.offsets.to_numpy()
        sizes: I64 = inner[offsets[1:]] - inner[offsets[:-1]]
        return sizes
    large = pa.types.is_large_string(kind) or pa.types.is_large_binary(kind)
    if large or pa.types.is_string(kind) or pa.types.is_binary(kind):
        ends: Any = np.frombuffer(array.buffers()[1], np.int64 if large else np.int32) if n else []
        sizes = np.diff(ends[array.offset : array.offset + n + 1]).astype(np.int64)
        return np.asarray(sizes, np.int64)
    return np.full(n, max(kind.bit_width, 8) // 8, np.int64)
