"""All values of a column as a list, and its distinct values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyarrow as pa

from evenflow.operators.aggregate import ColumnAggregate
from evenflow.operators.distinct_values import Distinct
from evenflow.operators.groups import Groups
from evenflow.operators.input_columns import column_type, one_array, plain_type
from evenflow.operators.value_lists import flattened, list_type, lists_of
from evenflow.operators.value_order import order_numbers


@dataclass(frozen=True)
class CollectList(ColumnAggregate):
    """All values of a column.

    Guarantee: every value that is not null, as often as it came; an empty list if there is none. As in
    Spark, the order is the one in which rows arrive: values of an earlier batch come first, and within
    a batch the order is that of `first`. The state of a key grows with its rows, and every batch that
    touches the key reads and writes all of it.

    Parameters:
        column: of any type.

    Example:
        >>> from evenflow.operators import Aggregates, on_table
        >>> rows = pa.table({"page": ["a", "a", "b", "a"], "user": ["x", "y", None, "x"]})
        >>> on_table(Aggregates(users=CollectList("user")), rows, "page").to_pylist()
        [{'page': 'a', 'users': ['x', 'y', 'x']}, {'page': 'b', 'users': []}]
    """

    name: ClassVar[str] = "collect_list"
    state_columns: ClassVar[tuple[str, ...]] = ("values",)

    def compared(self) -> tuple[str, ...]:
        """None: values are only kept."""
        return ()

    def state_schema(self, rows: pa.Schema) -> pa.Schema:
        """The values so far."""
        return pa.schema([("values", pa.list_(column_type(rows, self.column, self)))])

    def output_schema(self, rows: pa.Schema) -> pa.Schema:
        """A list without nulls."""
        return pa.schema([(self.name, list_type(column_type(rows, self.column, self)))])

    def partial(self, table: pa.Table, groups: Groups) -> pa.Table:
        """The values of the rows of each key."""
        return _in_order(*self.values(table, groups))

    def merge(self, states: pa.Table, groups: Groups) -> pa.Table:
        """The lists of the parts, one after the other."""
        return _in_order(*flattened(one_array(states.column("values")), groups))

    def emit(self, state: pa.Table) -> pa.Array:
        """The list; empty for a key without state."""
        every = Groups(np.arange(state.num_rows), state.num_rows)
        values, of = flattened(one_array(state.column("values")), every)
        return lists_of(values, of, list_type(values.type))


def _in_order(values: pa.Array, groups: Groups) -> pa.Table:
    return pa.table({"values": lists_of(values.take(pa.array(groups.order)), groups)})


@dataclass(frozen=True)
class CollectSet(Distinct):
    """The distinct values of a column, smallest first.

    Guarantee: every value that is not null, once; an empty list if there is none. NaN is one value and
    the largest, −0.0 is 0.0. Spark's list has the same values in any order.

    Parameters:
        column: numbers, booleans, strings, binary, dates, timestamps or intervals.

    Example:
        >>> from evenflow.operators import Aggregates, on_table
        >>> rows = pa.table({"page": ["a", "a", "b", "a"], "user": ["y", "x", None, "y"]})
        >>> on_table(Aggregates(users=CollectSet("user")), rows, "page").to_pylist()
        [{'page': 'a', 'users': ['x', 'y']}, {'page': 'b', 'users': []}]
    """

    name: ClassVar[str] = "collect_set"

    def output_schema(self, rows: pa.Schema) -> pa.Schema:
        """A list without nulls."""
        return pa.schema([(self.name, list_type(plain_type(rows, self.column, self)))])

    def emit(self, state: pa.Table) -> pa.Array:
        """The values of each key in their order."""
        every = Groups(np.arange(state.num_rows), state.num_rows)
        values, of = flattened(one_array(state.column("values")), every)
        order = np.lexsort((order_numbers(values), of.group))
        return lists_of(values.take(pa.array(order)), of, list_type(values.type))
