"""The number of distinct values of a column: exact, by keeping them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import pyarrow as pa
import pyarrow.compute as pc

from evenflow.operators.aggregate import ColumnAggregate
from evenflow.operators.groups import Groups
from evenflow.operators.input_columns import one_array, plain_type
from evenflow.operators.value_lists import distinct_pairs, flattened, lists_of


@dataclass(frozen=True)
class Distinct(ColumnAggregate):
    """Counts the distinct values of a column by keeping them.

    Guarantee: exact; null does not count, NaN counts once, −0.0 and 0.0 are one value. The result is
    a bigint, never null. The state of a key, and the time to add to it, grow with its distinct values;
    `distinct(column, approximate=True)` needs a few kilobytes however many there are.

    Parameters:
        column: numbers, booleans, strings, binary, dates, timestamps or intervals.

    Example:
        >>> from evenflow.operators import Aggregates, on_table
        >>> rows = pa.table({"page": ["a", "a", "b", "a"], "user": ["x", "y", None, "x"]})
        >>> on_table(Aggregates(users=Distinct("user")), rows, "page").to_pylist()
        [{'page': 'a', 'users': 2}, {'page': 'b', 'users': 0}]
    """

    name: ClassVar[str] = "distinct"
    state_columns: ClassVar[tuple[str, ...]] = ("values",)

    def state_schema(self, rows: pa.Schema) -> pa.Schema:
        """The distinct values, as a list."""
        return pa.schema([("values", pa.list_(plain_type(rows, self.column, self)))])

    def output_schema(self, rows: pa.Schema) -> pa.Schema:
        """A bigint."""
        plain_type(rows, self.column, self)
        return pa.schema([("distinct", pa.int64())])

    def partial(self, table: pa.Table, groups: Groups) -> pa.Table:
        """The distinct values of the rows of each key."""
        self.state_schema(table.schema)
        values, _, groups = distinct_pairs(*self.values(table, groups))
        return pa.table({"values": lists_of(values, groups)})

    def merge(self, states: pa.Table, groups: Groups) -> pa.Table:
        """The union of the parts."""
        values, _, groups = distinct_pairs(*flattened(one_array(states.column("values")), groups))
        return pa.table({"values": lists_of(values, groups)})

    def emit(self, state: pa.Table) -> pa.Array:
        """Their number."""
        lengths = pc.list_value_length(one_array(state.column("values")))
        return lengths.cast(pa.int64()).fill_null(0)
