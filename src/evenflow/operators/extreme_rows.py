"""The value of one column in the row in which another is smallest or largest."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np
import pyarrow as pa
import pyarrow.types as types

from evenflow.model import InputError
from evenflow.operators.aggregate import ColumnAggregate
from evenflow.operators.groups import I64, Groups
from evenflow.operators.input_columns import column_type, one_array, plain_type
from evenflow.operators.value_order import content_ranks, order_numbers


@dataclass(frozen=True)
class MinBy(ColumnAggregate):
    """The value of a column in the row in which `ord` is smallest.

    Guarantee: Spark's order of `ord`, as in `min`; rows in which it is null are skipped. The value may
    be null. Null if a key has no row with an `ord`. Among several rows with the same `ord`, the one
    with the smallest value, null last, where Spark takes whichever came last; fields of a struct are
    compared one after the other, lists and maps not at all, so that they come from any of the rows.

    Parameters:
        column: of any type; a struct for several columns of the row.
        ord: numbers, booleans, strings, binary, dates, timestamps or intervals.

    Example:
        >>> from evenflow.operators import Aggregates, on_table
        >>> rows = pa.table({"page": ["a", "a", "b"], "user": ["x", "y", "z"], "at": [2, 1, None]})
        >>> on_table(Aggregates(user=MinBy("user", "at")), rows, "page").to_pylist()
        [{'page': 'a', 'user': 'y'}, {'page': 'b', 'user': None}]
    """

    name: ClassVar[str] = "min_by"
    state_columns: ClassVar[tuple[str, ...]] = ("value", "ord")
    choose: ClassVar[np.ufunc] = np.minimum

    ord: str

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.ord, str) or not self.ord:
            raise InputError(
                f"{self.name} needs the name of the column to order by, got {self.ord!r}; "
                f'write {self.name}("column", "ord")'
            )

    def columns(self) -> tuple[str, ...]:
        """The value and what it is ordered by."""
        return (self.column, self.ord)

    def state_schema(self, rows: pa.Schema) -> pa.Schema:
        """The value and its `ord` so far."""
        kind = column_type(rows, self.column, self)
        return pa.schema([("value", kind), ("ord", plain_type(rows, self.ord, self))])

    def output_schema(self, rows: pa.Schema) -> pa.Schema:
        """The type of the value's column."""
        return pa.schema([(self.name, self.state_schema(rows).field("value").type)])

    def partial(self, table: pa.Table, groups: Groups) -> pa.Table:
        """Value and `ord` of one row of each key."""
        self.state_schema(table.schema)
        values, order = one_array(table.column(self.column)), one_array(table.column(self.ord))
        return self._chosen(values, order, groups)

    def merge(self, states: pa.Table, groups: Groups) -> pa.Table:
        """Value and `ord` of one part."""
        values, order = one_array(states.column("value")), one_array(states.column("ord"))
        return self._chosen(values, order, groups)

    def _chosen(self, values: pa.Array, order: pa.Array, groups: Groups) -> pa.Table:
        rows = np.flatnonzero(order.is_valid().to_numpy(zero_copy_only=False))
        numbers = order_numbers(order.drop_null())
        groups = groups.where(rows)
        best = groups.reduce(self.choose, numbers)
        tied = np.flatnonzero(numbers == best[groups.group])
        rows, group = rows[tied], groups.group[tied]
        place = np.zeros(groups.n, np.int64)
        if len(rows) > groups.n - int(groups.empty.sum()):
            place_in_order = np.argsort(_ranks(values, rows))[::-1]
            rows, group = rows[place_in_order], group[place_in_order]
        place[group] = rows  # of several, the last one stays
        chosen = pa.array(place, mask=groups.empty)
        return pa.table({"value": values.take(chosen), "ord": order.take(chosen)})

    def __str__(self) -> str:
        return f"{self.name}({self.column!r}, {self.ord!r})"

    @classmethod
    def parse(cls, text: str) -> Self:
        """From `COLUMN:ORD`."""
        column, _, order = text.rpartition(":")
        if not column or not order:
            raise InputError(
                f"'{cls.name}:{text}': expected two columns, as in '{cls.name}:user:time'"
            )
        return cls(column, order)


@dataclass(frozen=True)
class MaxBy(MinBy):
    """The value of a column in the row in which `ord` is largest; as `MinBy` in all else, ties
    included.

    Example:
        >>> from evenflow.operators import Aggregates, on_table
        >>> rows = pa.table({"page": ["a", "a", "b"], "user": ["x", "y", "z"], "at": [2, 1, None]})
        >>> on_table(Aggregates(user=MaxBy("user", "at")), rows, "page").to_pylist()
        [{'page': 'a', 'user': 'x'}, {'page': 'b', 'user': None}]
    """

    name: ClassVar[str] = "max_by"
    choose: ClassVar[np.ufunc] = np.maximum


def _ranks(values: pa.Array, rows: I64) -> I64:
    """The places of these values in their order."""
    parts = _flat(values.take(pa.array(rows)))
    return content_ranks(pa.table(parts, names=[str(i) for i in range(len(parts))]))


def _flat(values: pa.Array) -> list[pa.Array]:
    if not types.is_struct(values.type):
        return [values]
    return [values.is_null(), *(part for field in values.flatten() for part in _flat(field))]
