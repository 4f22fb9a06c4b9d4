"""Percentiles of a column in the column's own type, by a sketch of bounded size."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.types as types

from evenflow.model import InputError
from evenflow.operators.groups import Groups
from evenflow.operators.input_columns import (
    NUMBERS,
    column_type,
    integers_type,
    is_number,
    is_time,
)
from evenflow.operators.quantile_sketch import Quantiles
from evenflow.operators.value_lists import list_type

_LARGEST_K = 65535


@dataclass(frozen=True)
class PercentileApprox(Quantiles):
    """Estimates percentiles of a key's values with the sketch of `Quantiles`; the results have the
    type of the column.

    Guarantee: a value of the column whose rank is within 2.296/k^0.9021 of p with 99 % confidence:
    0.01 % by default. Exact, that is the ⌈p·n⌉-th smallest as in Spark, up to k values of a key in one
    part. Numbers become doubles on the way, as in Spark: whole numbers beyond 2⁵³ are rounded. NaN is
    the largest number, where Spark's answer depends on the order of the rows. Null if a key has no
    value. A state takes at most 2 megabytes by default, and 8
    bytes per value while they are fewer.

    Parameters:
        column: integers, float, double, decimal, dates, timestamps or intervals.
        probabilities: one number from 0 to 1, or several, for a list.
        k: the accuracy of the sketch, 8 … 65535.

    Example:
        >>> from evenflow.operators import Aggregates, on_table
        >>> rows = pa.table({"page": ["a"] * 4, "ms": [4, 1, 3, 2]})
        >>> on_table(Aggregates(ms=PercentileApprox("ms", [0.5, 1])), rows, "page").to_pylist()
        [{'page': 'a', 'ms': [2, 4]}]

    Paper: Karnin, Lang, Liberty, "Optimal quantile approximation in streams", FOCS 2016.
    """

    name: ClassVar[str] = "percentile_approx"
    state_columns: ClassVar[tuple[str, ...]] = ("sketch", "nans", "like")

    k: int = _LARGEST_K

    def state_schema(self, rows: pa.Schema) -> pa.Schema:
        """The sketch, the number of NaN, and a column of nulls that has the type of the results."""
        kind = column_type(rows, self.column, self)
        if not (is_number(kind) or is_time(kind)):
            raise InputError(
                f"{self}: column {self.column!r} is {kind}, allowed are {NUMBERS}, dates, timestamps "
                "and intervals; cast it"
            )
        return pa.schema([("sketch", pa.binary()), ("nans", pa.int64()), ("like", kind)])

    def output_schema(self, rows: pa.Schema) -> pa.Schema:
        """The type of the column, or a list of it."""
        return pa.schema(
            [(self.name, self.result_type(self.state_schema(rows).field("like").type))]
        )

    def result_type(self, kind: pa.DataType) -> pa.DataType:
        """The type of one result, or a list of them without nulls, as in Spark."""
        return kind if isinstance(self.probabilities, int | float) else list_type(kind)

    def partial(self, table: pa.Table, groups: Groups) -> pa.Table:
        """A sketch of the rows of each key."""
        kind = self.state_schema(table.schema).field("like").type
        return super().partial(table, groups).append_column("like", pa.nulls(groups.n, kind))

    def merge(self, states: pa.Table, groups: Groups) -> pa.Table:
        """Merge the sketches."""
        like = pa.nulls(groups.n, states.schema.field("like").type)
        return super().merge(states, groups).append_column("like", like)

    def emit(self, state: pa.Table) -> pa.Array:
        """The percentiles."""
        kind = state.schema.field("like").type
        found = super().emit(state)
        if not types.is_list(found.type):
            return _as(found, kind)
        inner = self.result_type(kind)
        values = _as(found.flatten(), kind)
        return pa.ListArray.from_arrays(found.offsets, values, inner, mask=found.is_null())


def sketch_size(accuracy: int) -> int:
    """The k whose rank error is 1/accuracy, or the largest k.

    Example:
        >>> sketch_size(100), sketch_size(10_000)
        (415, 65535)
    """
    wanted = math.ceil(math.pow(2.296 * accuracy, 1 / 0.9021))
    return min(_LARGEST_K, max(8, wanted))


def _as(doubles: pa.Array, kind: pa.DataType) -> pa.Array:
    """Doubles that came from values of this type, as such values."""
    if types.is_decimal(kind):
        # The shortest digits that give the double are those of the decimal it came from.
        return doubles.cast(pa.string()).cast(kind)
    if types.is_floating(kind):
        return doubles.cast(kind)
    whole = integers_type(kind) if is_time(kind) else kind
    info = np.iinfo(whole.to_pandas_dtype())
    none = doubles.is_null().to_numpy(zero_copy_only=False)
    numbers = doubles.fill_null(0.0).to_numpy()
    # 2⁶³ − 1 becomes 2⁶³ as a double, which no integer holds; Spark ends at the largest, too.
    high = numbers >= float(info.max)
    plain = np.where(high, 0.0, numbers).astype(info.dtype)
    result = pa.array(np.where(high, info.max, plain), whole, mask=none)
    return result.view(kind) if is_time(kind) else result
