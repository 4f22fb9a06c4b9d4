"""The sum of a column."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as types

from evenflow.model import InputError
from evenflow.operators.aggregate import ColumnAggregate
from evenflow.operators.exact_sums import sum_decimals, sum_integers
from evenflow.operators.groups import Groups
from evenflow.operators.input_columns import number_type, one_array, present


@dataclass(frozen=True)
class Sum(ColumnAggregate):
    """Adds up the values of a column.

    Guarantee: exact for integers (the result is a bigint) and for decimals of precision p (the
    result has precision min(38, p + 10) and the same scale). A sum that does not fit, of a key or of
    a part of its rows, is an error, as in Spark's ANSI mode; it never wraps. Floats are added as
    doubles: the last digits depend on the order of the rows and on how they were split into parts, as
    in Spark. Null if a key has no value.

    Parameters:
        column: integers, float, double or decimal.

    Example:
        >>> from evenflow.operators import Aggregates, on_table
        >>> rows = pa.table({"page": ["a", "b", "a"], "ms": [1, None, 3]})
        >>> on_table(Aggregates(ms=Sum("ms")), rows, "page").to_pylist()
        [{'page': 'a', 'ms': 4}, {'page': 'b', 'ms': None}]
    """

    name: ClassVar[str] = "sum"
    state_columns: ClassVar[tuple[str, ...]] = ("sum",)

    def state_schema(self, rows: pa.Schema) -> pa.Schema:
        """The sum so far."""
        return pa.schema([("sum", sum_type(number_type(rows, self.column, self)))])

    def partial(self, table: pa.Table, groups: Groups) -> pa.Table:
        """The sum of the rows of each key."""
        kind = self.state_schema(table.schema).field("sum").type
        values, groups = self.values(table, groups)
        return pa.table({"sum": sums(values.cast(kind), groups, self)})

    def merge(self, states: pa.Table, groups: Groups) -> pa.Table:
        """The sum of the sums."""
        values, groups = present(one_array(states.column("sum")), groups)
        return pa.table({"sum": sums(values, groups, self)})


def sum_type(kind: pa.DataType) -> pa.DataType:
    """The type of a sum of such numbers, as in Spark."""
    if types.is_decimal(kind):
        return pa.decimal128(min(38, kind.precision + 10), kind.scale)
    return pa.int64() if types.is_integer(kind) else pa.float64()


def sums(values: pa.Array, groups: Groups, user: object) -> pa.Array:
    """The sum of each group, null if it is empty; `values` has no nulls and the type of the sum."""
    kind = values.type
    if types.is_floating(kind):
        totals = np.bincount(groups.group, weights=values.to_numpy(), minlength=groups.n)
        # Without any value, bincount returns integers.
        return pa.array(totals.astype(np.float64), mask=groups.empty)
    if types.is_integer(kind):
        totals, beyond = sum_integers(values.to_numpy(), groups)
        _refuse(bool(beyond.any()), user, "bigint", "decimal(38,0) or double")
        return pa.array(totals, mask=groups.empty)
    decimals, beyond = sum_decimals(values, groups)
    _refuse(bool(beyond.any()) or _too_precise(decimals), user, str(kind), "double")
    return pc.if_else(pa.array(~groups.empty), decimals, pa.scalar(None, kind))


def _too_precise(decimals: pa.Array) -> bool:
    try:
        decimals.validate(full=True)
    except pa.ArrowInvalid:
        return True
    return False


def _refuse(refused: bool, user: object, kind: str, wider: str) -> None:
    if refused:
        raise InputError(
            f"{user}: the sum of a key does not fit in {kind}; cast the column to {wider} first"
        )
