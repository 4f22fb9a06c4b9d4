"""The mean of a column."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Context, Decimal
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.types as types

from evenflow.model import InputError
from evenflow.operators.aggregate import ColumnAggregate
from evenflow.operators.exact_sums import sum_integers
from evenflow.operators.groups import Groups
from evenflow.operators.input_columns import number_type, one_array, present
from evenflow.operators.sums import sum_type, sums


@dataclass(frozen=True)
class Mean(ColumnAggregate):
    """The mean of the values of a column.

    Guarantee: a double for integers and floats, from a sum of doubles, as in Spark: the last digits
    depend on the order of the rows and on how they were split into parts. For decimal(p, s) the exact
    mean, rounded half up to decimal(min(38, p + 4), min(38, s + 4)) as in Spark; if p is 28 or more,
    the precision is 38 (the same value in a wider type). Null if a key has no value.

    Parameters:
        column: integers, float, double or decimal.

    Example:
        >>> from evenflow.operators import Aggregates, on_table
        >>> rows = pa.table({"page": ["a", "b", "a"], "ms": [1, None, 4]})
        >>> on_table(Aggregates(ms=Mean("ms")), rows, "page").to_pylist()
        [{'page': 'a', 'ms': 2.5}, {'page': 'b', 'ms': None}]
    """

    name: ClassVar[str] = "mean"
    state_columns: ClassVar[tuple[str, ...]] = ("sum", "count")

    def state_schema(self, rows: pa.Schema) -> pa.Schema:
        """The sum and the count so far."""
        kind = number_type(rows, self.column, self)
        total = sum_type(kind) if types.is_decimal(kind) else pa.float64()
        return pa.schema([("sum", total), ("count", pa.int64())])

    def output_schema(self, rows: pa.Schema) -> pa.Schema:
        """A double, or a decimal."""
        return pa.schema([("mean", _mean_type(self.state_schema(rows).field("sum").type))])

    def partial(self, table: pa.Table, groups: Groups) -> pa.Table:
        """The sum and the count of the rows of each key."""
        kind = self.state_schema(table.schema).field("sum").type
        values, groups = self.values(table, groups)
        # Like Spark, turn 64-bit integers into doubles, with rounding beyond 2⁵³.
        total = sums(values.cast(kind, safe=False), groups, self)
        return pa.table({"sum": total, "count": pa.array(groups.counts, pa.int64())})

    def merge(self, states: pa.Table, groups: Groups) -> pa.Table:
        """The sum of the sums and of the counts."""
        totals, with_total = present(one_array(states.column("sum")), groups)
        counts, with_count = present(one_array(states.column("count")), groups)
        count, _ = sum_integers(counts.to_numpy(), with_count)
        return pa.table({"sum": sums(totals, with_total, self), "count": pa.array(count)})

    def emit(self, state: pa.Table) -> pa.Array:
        """Sum divided by count."""
        total = one_array(state.column("sum"))
        count = one_array(state.column("count")).fill_null(0).to_numpy()
        if types.is_decimal(total.type):
            return self._decimals(total, count)
        none = count == 0
        means = total.fill_null(0.0).to_numpy() / np.where(none, 1, count)
        return pa.array(means, mask=none)

    def _decimals(self, total: pa.Array, count: np.ndarray) -> pa.Array:
        kind = _mean_type(total.type)
        up = 10 ** (kind.scale - total.type.scale)
        exact = Context(prec=80)
        means: list[Decimal | None] = []
        for value, n in zip(total.to_pylist(), count.tolist(), strict=True):
            if value is None:
                means.append(None)
                continue
            # Integers throughout: round half up (away from zero) is a floor division of magnitudes.
            unscaled = int(value.scaleb(total.type.scale, exact))
            rounded = (2 * abs(unscaled) * up + n) // (2 * n)
            signed = rounded if unscaled >= 0 else -rounded
            means.append(Decimal(signed).scaleb(-kind.scale, exact))
        try:
            return pa.array(means, kind)
        except pa.ArrowInvalid:
            raise InputError(
                f"{self}: the mean of a key does not fit in {kind}; cast the column to double first"
            ) from None


def _mean_type(total: pa.DataType) -> pa.DataType:
    if not types.is_decimal(total):
        return pa.float64()
    precision = total.precision - 10 + 4 if total.precision < 38 else 38
    return pa.decimal128(precision, min(38, total.scale + 4))
