"""The first and the last value of a column, in the order in which rows arrive."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyarrow as pa

from evenflow.operators.aggregate import ColumnAggregate
from evenflow.operators.groups import I64, Groups
from evenflow.operators.input_columns import column_type, one_array


@dataclass(frozen=True)
class First(ColumnAggregate):
    """The value of a column in the row of a key that arrived first.

    Guarantee: the value of one row, null if that row has null, or with `ignorenulls` the value of a
    row that has one. As in Spark, which row it is depends on the order in which a shuffle delivers
    rows. Rows of an earlier batch come first. Within a batch, the order of the DataFrame holds for a
    key whose rows are in one of its partitions, under schemes that do not split keys and without
    overlapping windows; otherwise any row may be first. `min_by` chooses by a column instead, and is
    the same however the rows were split or ordered.

    Parameters:
        column: of any type.
        ignorenulls: skip nulls; null only if a key has nothing else.

    Example:
        >>> from evenflow.operators import Aggregates, on_table
        >>> rows = pa.table({"page": ["a", "a", "b"], "user": [None, "x", None]})
        >>> on_table(Aggregates(u=First("user"), v=First("user", True)), rows, "page").to_pylist()
        [{'page': 'a', 'u': None, 'v': 'x'}, {'page': 'b', 'u': None, 'v': None}]
    """

    name: ClassVar[str] = "first"
    state_columns: ClassVar[tuple[str, ...]] = ("value", "seen")

    ignorenulls: bool = False

    def compared(self) -> tuple[str, ...]:
        """None: values are only kept."""
        return ()

    def state_schema(self, rows: pa.Schema) -> pa.Schema:
        """The value, and true once there is one: null may be the first value."""
        kind = column_type(rows, self.column, self)
        return pa.schema([("value", kind), ("seen", pa.bool_())])

    def output_schema(self, rows: pa.Schema) -> pa.Schema:
        """The type of the column."""
        return pa.schema([(self.name, column_type(rows, self.column, self))])

    def partial(self, table: pa.Table, groups: Groups) -> pa.Table:
        """The value of one row of each key."""
        values = one_array(table.column(self.column))
        rows = np.arange(len(values))
        if self.ignorenulls and values.null_count:
            rows = np.flatnonzero(values.is_valid().to_numpy(zero_copy_only=False))
        return self._chosen(values, rows, groups)

    def merge(self, states: pa.Table, groups: Groups) -> pa.Table:
        """The value of one part; the parts of each key come in order."""
        seen = one_array(states.column("seen")).fill_null(False)
        rows = np.flatnonzero(seen.to_numpy(zero_copy_only=False))
        return self._chosen(one_array(states.column("value")), rows, groups)

    def _chosen(self, values: pa.Array, rows: I64, groups: Groups) -> pa.Table:
        groups = groups.where(rows)
        place = np.zeros(groups.n, np.int64)
        occupied = np.flatnonzero(groups.counts)
        place[occupied] = rows[groups.order[self._places(groups)[occupied]]]
        chosen = values.take(pa.array(place, mask=groups.empty))
        return pa.table({"value": chosen, "seen": pa.array(~groups.empty, mask=groups.empty)})

    def _places(self, groups: Groups) -> I64:
        return groups.bounds[:-1]


@dataclass(frozen=True)
class Last(First):
    """The value of a column in the row of a key that arrived last; as `First` in all else.

    Example:
        >>> from evenflow.operators import Aggregates, on_table
        >>> rows = pa.table({"page": ["a", "a", "b"], "user": ["x", "y", "z"]})
        >>> on_table(Aggregates(user=Last("user")), rows, "page").to_pylist()
        [{'page': 'a', 'user': 'y'}, {'page': 'b', 'user': 'z'}]
    """

    name: ClassVar[str] = "last"

    def _places(self, groups: Groups) -> I64:
        return groups.bounds[1:] - 1
