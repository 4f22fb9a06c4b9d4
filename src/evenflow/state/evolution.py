"""Stored rows under a newer schema: what was added is null, what was dropped is left out.

Columns and the fields of structs are found by name, so their order does not matter. Numbers may become
wider. Segments stay as they were written; each is read as the schema of today has it.
"""

from __future__ import annotations

import base64
from collections.abc import Container

import numpy as np
import pyarrow as pa
import pyarrow.types as types

_WIDER = {
    "int8": ("int16", "int32", "int64"),
    "int16": ("int32", "int64"),
    "int32": ("int64",),
    "float": ("double",),
}


def schema_text(schema: pa.Schema) -> str:
    """A schema as text that `schema_of` reads."""
    return base64.b64encode(schema.serialize().to_pybytes()).decode()


def schema_of(text: str) -> pa.Schema:
    """The schema that `schema_text` has written.

    Example:
        >>> schema_of(schema_text(pa.schema({"n": pa.int64()}))).names
        ['n']
    """
    return pa.ipc.read_schema(pa.py_buffer(base64.b64decode(text)))


def obstacle(old: pa.Schema, new: pa.Schema, dropped: Container[str] = ()) -> str | None:
    """Why rows of the old schema cannot be read under the new one; None if they can.

    Parameters:
        dropped: columns that may be missing in the new one.

    Example:
        >>> old, new = pa.schema({"n": pa.int32()}), pa.schema({"n": pa.int64(), "m": pa.int64()})
        >>> obstacle(old, new), obstacle(new, old, ["m"])
        (None, 'n was int64 and is int32 now')
    """
    for field in old:
        if field.name not in new.names:
            if field.name not in dropped:
                return f"{field.name} is missing now"
            continue
        if wrong := _obstacle(field.type, new.field(field.name).type, field.name):
            return wrong
    return None


def _obstacle(old: pa.DataType, new: pa.DataType, what: str) -> str | None:
    if old == new or str(new) in _WIDER.get(str(old), ()):
        return None
    both = types.is_decimal128(old) and types.is_decimal128(new)
    if both and old.scale == new.scale and old.precision < new.precision:
        return None
    if types.is_struct(old) and types.is_struct(new):
        names = {field.name for field in new}
        for field in old:
            if field.name in names:
                inner = new.field(field.name).type
                if wrong := _obstacle(field.type, inner, f"{what}.{field.name}"):
                    return wrong
        return None
    if _is_list(old) and _is_list(new):
        return _obstacle(old.value_type, new.value_type, what)
    if types.is_map(old) and types.is_map(new) and old.key_type == new.key_type:
        return _obstacle(old.item_type, new.item_type, what)
    return f"{what} was {old} and is {new} now"


def _is_list(kind: pa.DataType) -> bool:
    return bool(types.is_list(kind) or types.is_large_list(kind))


def evolved(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """The columns of a schema, of a table that may have been written under an older one."""
    if table.schema.equals(schema):
        return table
    if table.schema.names == schema.names:
        try:
            return table.cast(schema)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError):
            pass  # structs of other fields
    table = table.combine_chunks()
    columns = [
        _evolved(_one(table.column(field.name)), field.type)
        if field.name in table.column_names
        else pa.nulls(table.num_rows, field.type)
        for field in schema
    ]
    return pa.table(columns, schema=schema)


def _one(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks else pa.array([], column.type)


def _evolved(array: pa.Array, kind: pa.DataType) -> pa.Array:
    if array.type == kind:
        return array
    if types.is_struct(kind):
        old = dict(zip((field.name for field in array.type), array.flatten(), strict=True))
        parts = [
            _evolved(old[field.name], field.type)
            if field.name in old
            else pa.nulls(len(array), field.type)
            for field in kind
        ]
        return pa.StructArray.from_arrays(parts, fields=list(kind), mask=array.is_null())
    if _is_list(kind) or types.is_map(kind):
        ends = array.offsets.to_numpy()
        missing = np.append(array.is_null().to_numpy(zero_copy_only=False), False)
        if _is_list(kind):
            values = _evolved(array.values, kind.value_type)
            offsets = pa.array(ends.astype(np.int64), mask=missing)
            return pa.LargeListArray.from_arrays(offsets, values).cast(kind)
        keys, items = _evolved(array.keys, kind.key_type), _evolved(array.items, kind.item_type)
        return pa.MapArray.from_arrays(pa.array(ends, mask=missing), keys, items).cast(kind)
    return array.cast(kind)
