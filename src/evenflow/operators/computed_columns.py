"""Columns as arguments of aggregates: by name, or as pyspark's `Column`."""

from __future__ import annotations

from typing import Any, Protocol

from evenflow.model import InputError


class SparkColumn(Protocol):
    """The part of pyspark's `Column` that this package uses without importing pyspark."""

    def alias(self, *alias: str, **kwargs: Any) -> Any: ...

    def cast(self, dataType: Any) -> Any: ...


ColumnOrName = str | SparkColumn


class ComputedColumn(str):
    """The name of a column that is computed from others before the rows are routed.

    Guarantee: pickled, it is a plain name; the expression stays on the driver.

    Parameters:
        expression: the `Column` that computes it.
    """

    expression: SparkColumn

    def __new__(cls, expression: SparkColumn) -> ComputedColumn:
        text = str(expression)  # "Column<'(ms / 1000)'>"
        text = text.removeprefix("Column<'").removesuffix("'>")
        # Spark would read a dot in a name as access to a struct field.
        name = super().__new__(cls, text.replace(".", "·").replace("`", "'"))
        name.expression = expression
        return name

    def __reduce__(self) -> tuple[type[str], tuple[str]]:
        return str, (str(self),)


def is_star(column: ColumnOrName) -> bool:
    """Whether it is "*"."""
    return isinstance(column, str) and column == "*"


def name_of(column: ColumnOrName, function: str) -> str:
    """The name of a column, given by name or as a `Column`.

    Parameters:
        function: the name of the aggregate, for messages.
    """
    if isinstance(column, str):
        return column
    if hasattr(column, "alias") and hasattr(column, "cast"):
        return ComputedColumn(column)
    raise InputError(
        f'{function} takes the name of a column or a Column, got {column!r}; write {function}("ms")'
    )
