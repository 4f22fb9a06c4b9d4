"""Conditions: how many rows fulfil one, whether all do, whether any does."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyarrow as pa

from evenflow.operators.aggregate import ColumnAggregate
from evenflow.operators.counts import add_counts, emit_counts
from evenflow.operators.extremes import Maximum, Minimum
from evenflow.operators.groups import Groups
from evenflow.operators.input_columns import boolean_type


@dataclass(frozen=True)
class CountIf(ColumnAggregate):
    """Counts the rows in which a condition is true.

    Guarantee: exact; null is not true. The result is a bigint, never null.

    Parameters:
        column: booleans.

    Example:
        >>> from evenflow.operators import Aggregates, on_table
        >>> rows = pa.table({"page": ["a", "a", "b"], "slow": [True, False, None]})
        >>> on_table(Aggregates(slow=CountIf("slow")), rows, "page").to_pylist()
        [{'page': 'a', 'slow': 1}, {'page': 'b', 'slow': 0}]
    """

    name: ClassVar[str] = "count_if"
    state_columns: ClassVar[tuple[str, ...]] = ("count",)

    def state_schema(self, rows: pa.Schema) -> pa.Schema:
        """The count so far."""
        boolean_type(rows, self.column, self)
        return pa.schema([("count", pa.int64())])

    def partial(self, table: pa.Table, groups: Groups) -> pa.Table:
        """The rows of each key in which it is true."""
        self.state_schema(table.schema)
        values, groups = self.values(table, groups)
        true = groups.where(np.asarray(values.to_numpy(zero_copy_only=False), np.bool_))
        return pa.table({"count": pa.array(true.counts, pa.int64())})

    def merge(self, states: pa.Table, groups: Groups) -> pa.Table:
        """The counts of the parts, added up."""
        return add_counts(states, groups)

    def emit(self, state: pa.Table) -> pa.Array:
        """The count; zero for a key without state."""
        return emit_counts(state)


@dataclass(frozen=True)
class BoolAnd(Minimum):
    """Whether a condition is true in all rows in which it is not null.

    Guarantee: exact. Null if it is null in all rows.

    Parameters:
        column: booleans.

    Example:
        >>> from evenflow.operators import Aggregates, on_table
        >>> rows = pa.table({"page": ["a", "a", "b"], "ok": [True, False, None]})
        >>> on_table(Aggregates(ok=BoolAnd("ok")), rows, "page").to_pylist()
        [{'page': 'a', 'ok': False}, {'page': 'b', 'ok': None}]
    """

    name: ClassVar[str] = "bool_and"
    state_columns: ClassVar[tuple[str, ...]] = ("bool_and",)

    def state_schema(self, rows: pa.Schema) -> pa.Schema:
        """The answer so far."""
        return pa.schema([(self.name, boolean_type(rows, self.column, self))])


@dataclass(frozen=True)
class BoolOr(Maximum):
    """Whether a condition is true in any row; guarantee and column type as for `BoolAnd`.

    Example:
        >>> from evenflow.operators import Aggregates, on_table
        >>> rows = pa.table({"page": ["a", "a", "b"], "ok": [True, False, None]})
        >>> on_table(Aggregates(ok=BoolOr("ok")), rows, "page").to_pylist()
        [{'page': 'a', 'ok': True}, {'page': 'b', 'ok': None}]
    """

    name: ClassVar[str] = "bool_or"
    state_columns: ClassVar[tuple[str, ...]] = ("bool_or",)

    def state_schema(self, rows: pa.Schema) -> pa.Schema:
        """The answer so far."""
        return pa.schema([(self.name, boolean_type(rows, self.column, self))])
