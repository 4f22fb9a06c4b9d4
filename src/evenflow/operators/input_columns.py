"""Input columns of aggregates: existence, types and nulls."""

from __future__ import annotations

import difflib

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.types as types

from evenflow.model import InputError
from evenflow.operators.groups import Groups

NUMBERS = "integers, float, double and decimal"
PLAIN = "numbers, booleans, strings, binary, dates, timestamps and intervals"


def column_type(rows: pa.Schema, column: str, user: object) -> pa.DataType:
    """The type of a column, or an error that lists the columns."""
    index = rows.get_field_index(column)
    if index < 0:
        if rows.names.count(column) > 1:
            raise InputError(f"{user}: there are several columns {column!r}; rename all but one")
        near = difflib.get_close_matches(column, rows.names, 1)
        hint = f"did you mean {near[0]!r}? " if near else ""
        raise InputError(
            f"{user}: there is no column {column!r}; {hint}columns: {', '.join(rows.names)}"
        )
    found = rows.field(index).type
    return found.value_type if types.is_dictionary(found) else found


def number_type(rows: pa.Schema, column: str, user: object) -> pa.DataType:
    """The type of a column of numbers."""
    found = column_type(rows, column, user)
    if not is_number(found):
        raise InputError(f"{user}: column {column!r} is {found}, allowed are {NUMBERS}; cast it")
    return found


def plain_type(rows: pa.Schema, column: str, user: object) -> pa.DataType:
    """The type of a column of single values, which can be ordered and compared."""
    found = column_type(rows, column, user)
    if not is_plain(found):
        raise InputError(
            f"{user}: column {column!r} is {found}, allowed are {PLAIN}; choose a field of it or "
            "cast it to a string"
        )
    return found


def boolean_type(rows: pa.Schema, column: str, user: object) -> pa.DataType:
    """The type of a column of booleans."""
    found = column_type(rows, column, user)
    if not types.is_boolean(found):
        raise InputError(
            f"{user}: column {column!r} is {found}, expected booleans; give a condition, such as "
            f'F.col("{column}") > 0'
        )
    return found


def is_number(kind: pa.DataType) -> bool:
    """Whether it can be summed."""
    if types.is_decimal(kind):
        return not types.is_decimal256(kind)
    if types.is_integer(kind):
        return not types.is_uint64(kind)
    return bool(types.is_float32(kind) or types.is_float64(kind))


def is_plain(kind: pa.DataType) -> bool:
    """Whether its values can be ordered and compared."""
    return bool(
        is_number(kind)
        or types.is_uint64(kind)
        or types.is_boolean(kind)
        or is_text(kind)
        or is_bytes(kind)
        or is_time(kind)
    )


def is_text(kind: pa.DataType) -> bool:
    """Whether its values are strings."""
    return bool(types.is_string(kind) or types.is_large_string(kind))


def is_bytes(kind: pa.DataType) -> bool:
    """Whether its values are bytes."""
    return bool(
        types.is_binary(kind) or types.is_large_binary(kind) or types.is_fixed_size_binary(kind)
    )


def is_time(kind: pa.DataType) -> bool:
    """Whether its values are times or durations, which Arrow stores as integers."""
    return bool(
        types.is_date(kind)
        or types.is_timestamp(kind)
        or types.is_time(kind)
        or types.is_duration(kind)
    )


def integers_type(kind: pa.DataType) -> pa.DataType:
    """The integers as which Arrow stores times of this type."""
    return pa.int32() if kind.bit_width == 32 else pa.int64()


def doubles_of(values: pa.Array) -> npt.NDArray[np.float64]:
    """Numbers without nulls as doubles; integers beyond 2⁵³ are rounded, as in Spark.

    Example:
        >>> from decimal import Decimal
        >>> doubles_of(pa.array([Decimal("5.27")])).tolist()
        [5.27]
    """
    if types.is_decimal(values.type):
        # Arrow's cast is off by one bit for numbers as short as 5.27; parsing digits is exact.
        values = values.cast(pa.string())
    doubles: npt.NDArray[np.float64] = values.cast(pa.float64(), safe=False).to_numpy()
    return doubles


def one_array(column: pa.ChunkedArray | pa.Array) -> pa.Array:
    """A column in one piece and without a dictionary."""
    array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    if isinstance(array, pa.ChunkedArray):  # strings of more than 2 GiB do not fit in one piece
        raise InputError(
            f"a column of {column.nbytes >> 20} MiB of {column.type} in one task does not fit in "
            "one Arrow array; use more partitions or smaller batches"
        )
    return array.dictionary_decode() if types.is_dictionary(array.type) else array


def present(values: pa.Array, groups: Groups) -> tuple[pa.Array, Groups]:
    """The non-null values, and their groups."""
    if values.null_count == 0:
        return values, groups
    there = np.asarray(values.is_valid().to_numpy(zero_copy_only=False), dtype=np.bool_)
    return values.drop_null(), groups.where(there)
