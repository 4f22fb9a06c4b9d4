"""The number of rows, or of non-null values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Self

import pyarrow as pa

from evenflow.operators.aggregate import Aggregate
from evenflow.operators.exact_sums import sum_integers
from evenflow.operators.groups import Groups
from evenflow.operators.input_columns import column_type, one_array, present


@dataclass(frozen=True)
class Count(Aggregate):
    """Counts the rows of a key, or the non-null values of a column.

    Guarantee: exact. The result is a bigint, never null.

    Parameters:
        column: the column whose nulls are not counted; None counts rows.

    Example:
        >>> from evenflow.operators import Aggregates, on_table
        >>> rows = pa.table({"page": ["a", "b", "a"], "ms": [1, 2, None]})
        >>> on_table(Aggregates(hits=Count(), timed=Count("ms")), rows, "page").to_pylist()
        [{'page': 'a', 'hits': 2, 'timed': 1}, {'page': 'b', 'hits': 1, 'timed': 1}]
    """

    name: ClassVar[str] = "count"
    state_columns: ClassVar[tuple[str, ...]] = ("count",)

    column: str | None = None

    def columns(self) -> tuple[str, ...]:
        """The column, if there is one."""
        return () if self.column is None else (self.column,)

    def compared(self) -> tuple[str, ...]:
        """None: values are only counted."""
        return ()

    def state_schema(self, rows: pa.Schema) -> pa.Schema:
        """The count so far."""
        if self.column is not None:
            column_type(rows, self.column, self)
        return pa.schema([("count", pa.int64())])

    def partial(self, table: pa.Table, groups: Groups) -> pa.Table:
        """The rows of each key."""
        if self.column is not None:
            groups = present(one_array(table.column(self.column)), groups)[1]
        return pa.table({"count": pa.array(groups.counts, pa.int64())})

    def merge(self, states: pa.Table, groups: Groups) -> pa.Table:
        """The counts of the parts, added up."""
        return add_counts(states, groups)

    def emit(self, state: pa.Table) -> pa.Array:
        """The count; zero for a key without state."""
        return emit_counts(state)

    def __str__(self) -> str:
        return "count()" if self.column is None else f"count({self.column!r})"

    @classmethod
    def parse(cls, text: str) -> Self:
        """Rows, or the values of the column of that name."""
        return cls(text or None)


def add_counts(states: pa.Table, groups: Groups) -> pa.Table:
    """The counts of each group, added up; zero for a group without any."""
    counts, groups = present(one_array(states.column("count")), groups)
    totals, _ = sum_integers(counts.to_numpy(), groups)
    return pa.table({"count": pa.array(totals)})


def emit_counts(state: pa.Table) -> pa.Array:
    """The counts; zero for a key without state."""
    return one_array(state.column("count")).fill_null(0)
