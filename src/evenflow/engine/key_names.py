"""Keys as text, for reports and messages: any key has a name."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pyarrow.types as types


def key_names(keys: pa.Table) -> list[str]:
    """One name per row: its values as JSON.

    Guarantee: it never fails. What Python has no value for is shown as Arrow shows it (dates outside
    the years 1 to 9999) or escaped (strings that are not UTF-8, which Spark has after a cast from
    binary).

    Example:
        >>> days = pa.array([4_000_000], pa.int32()).view(pa.date32())
        >>> key_names(pa.table({"k0": days, "k1": ["x"]}))
        ['["12921-08-18", "x"]']
    """
    columns = [_values(column.combine_chunks()) for column in keys.columns]
    return [
        json.dumps(list(row), default=str, ensure_ascii=False) for row in zip(*columns, strict=True)
    ]


def _values(array: pa.Array) -> list[Any]:
    try:
        return list(array.to_pylist())
    except (ValueError, OverflowError):  # UnicodeDecodeError is a ValueError
        return _shown(array)


def _shown(array: pa.Array) -> list[Any]:
    kind = array.type
    if types.is_dictionary(kind):
        return _shown(array.dictionary_decode())
    if types.is_struct(kind):
        fields = zip(*(_values(part) for part in array.flatten()), strict=True)
        names = [field.name for field in kind]
        valid = array.is_valid().to_pylist()
        return [
            dict(zip(names, row, strict=True)) if there else None
            for row, there in zip(fields, valid, strict=True)
        ]
    if types.is_string(kind) or types.is_large_string(kind):
        raw = array.cast(pa.large_binary()).to_pylist()
        return [None if one is None else one.decode(errors="backslashreplace") for one in raw]
    if types.is_timestamp(kind):
        # Without its zone, which would need a database of zones.
        array = array.view(pa.int64()).view(pa.timestamp(kind.unit))
    return list(array.cast(pa.string()).to_pylist())
