"""Schemas as users write them: Spark's text, a `StructType`, Arrow's, or names and types."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, TypeAlias

import pyarrow as pa

from evenflow.model import InputError

Columns: TypeAlias = pa.Schema | str | Mapping[str, pa.DataType | str] | Any

_PLAIN = {
    "tinyint": pa.int8(),
    "byte": pa.int8(),
    "smallint": pa.int16(),
    "short": pa.int16(),
    "int": pa.int32(),
    "integer": pa.int32(),
    "bigint": pa.int64(),
    "long": pa.int64(),
    "float": pa.float32(),
    "real": pa.float32(),
    "double": pa.float64(),
    "boolean": pa.bool_(),
    "string": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"),
    "timestamp_ltz": pa.timestamp("us", "UTC"),
    "timestamp_ntz": pa.timestamp("us"),
    "decimal": pa.decimal128(10, 0),
    "void": pa.null(),
}
_TOKEN = re.compile(r"\s*(`(?:[^`]|``)*`|[A-Za-z0-9_]+|[<>(),:])")


def schema_of(columns: Columns, what: str) -> pa.Schema:
    """The Arrow schema of what a user gave.

    Parameters:
        columns: Arrow's schema, Spark's `StructType`, text as in "n bigint, names array<string>", or a
            mapping of names to types: Arrow's or their names, Arrow's or Spark's.
        what: the argument, for messages.

    Example:
        >>> schema_of("n bigint, `a b` array<string>", "state").types
        [DataType(int64), ListType(list<item: string>)]
        >>> schema_of({"n": "int64", "t": pa.string()}, "state").names
        ['n', 't']
    """
    if isinstance(columns, pa.Schema):
        return columns
    described = getattr(columns, "simpleString", None)
    if callable(described) and hasattr(columns, "fields"):
        # A StructType, whose names the text would not quote.
        fields = [(field.name, field.dataType.simpleString()) for field in columns.fields]
        return pa.schema([(name, _type(kind, what)) for name, kind in fields])
    if isinstance(columns, str):
        return pa.schema(_Parser(columns, what).fields(""))
    if not isinstance(columns, Mapping) or not columns:
        raise InputError(
            f'{what} must be names and types, as in "count bigint" or {{"count": "int64"}}, got '
            f"{columns!r}"
        )
    return pa.schema(
        [
            (name, _type(t, what) if isinstance(t, str) else _arrow(t, what))
            for name, t in columns.items()
        ]
    )


def _arrow(kind: Any, what: str) -> pa.DataType:
    if isinstance(kind, pa.DataType):
        return kind
    if isinstance(kind, str):
        return _type(kind, what)
    described = getattr(kind, "simpleString", None)
    if callable(described) and not isinstance(kind, type):
        return _type(str(described()), what)
    raise _unknown(repr(kind), what)


def _type(text: str, what: str) -> pa.DataType:
    if "<" not in text and "(" not in text and text.lower() not in _PLAIN:
        try:
            return pa.type_for_alias(text)
        except ValueError:
            raise _unknown(repr(text), what) from None
    parser = _Parser(text, what)
    kind = parser.kind()
    parser.end()
    return kind


def _unknown(kind: str, what: str) -> InputError:
    return InputError(
        f"{what} has an unknown type {kind}; use a pyarrow type or a name: Spark's, such as "
        '"bigint", "double", "array<string>" or "timestamp", or Arrow\'s, such as "int64"'
    )


class _Parser:
    """Spark's text of a type or of several columns."""

    def __init__(self, text: str, what: str) -> None:
        self.text, self.what = text, what
        self.at = 0

    def peek(self) -> str:
        found = _TOKEN.match(self.text, self.at)
        return found[1] if found else ""

    def take(self, expected: str = "") -> str:
        found = _TOKEN.match(self.text, self.at)
        if found is None or (expected and found[1] != expected):
            raise InputError(
                f"{self.what}: cannot read {self.text!r} from {self.text[self.at :]!r} on; write names "
                'and types, as in "n bigint, names array<string>"'
            )
        self.at = found.end()
        return found[1]

    def end(self) -> None:
        if self.text[self.at :].strip():
            self.take("end")

    def fields(self, last: str) -> list[pa.Field]:
        """Columns, up to the end or to a closing bracket."""
        found = []
        while True:
            name = self.take()
            name = name[1:-1].replace("``", "`") if name[0] == "`" else name
            if self.peek() == ":":
                self.take()
            found.append(pa.field(name, self.kind()))
            if self.peek().lower() == "not":
                self.take()
                self.take()
            if self.peek() != ",":
                break
            self.take()
        if last:
            self.take(last)
        else:
            self.end()
        return found

    def kind(self) -> pa.DataType:
        name = self.take().lower()
        if name == "array":
            self.take("<")
            item = self.kind()
            self.take(">")
            return pa.list_(item)
        if name == "map":
            self.take("<")
            key = self.kind()
            self.take(",")
            value = self.kind()
            self.take(">")
            return pa.map_(key, value)
        if name == "struct":
            self.take("<")
            return pa.struct(self.fields(">"))
        if name in ("decimal", "dec", "numeric") and self.peek() == "(":
            self.take()
            precision, scale = int(self.take()), 0
            if self.peek() == ",":
                self.take()
                scale = int(self.take())
            self.take(")")
            return pa.decimal128(precision, scale)
        if name in _PLAIN:
            return _PLAIN[name]
        try:
            return pa.type_for_alias(name)
        except ValueError:
            raise _unknown(repr(name), self.what) from None
