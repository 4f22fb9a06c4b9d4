"""The smallest and the largest value of a column."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.types as types

from evenflow.operators.aggregate import ColumnAggregate
from evenflow.operators.groups import Groups
from evenflow.operators.input_columns import (
    integers_type,
    is_time,
    one_array,
    plain_type,
    present,
)
from evenflow.operators.value_order import codes, ranks


class _Extreme(ColumnAggregate):
    """What minimum and maximum share: the state is the value itself."""

    integers: ClassVar[np.ufunc]
    floats: ClassVar[np.ufunc]

    def state_schema(self, rows: pa.Schema) -> pa.Schema:
        """The value so far."""
        return pa.schema([(self.name, plain_type(rows, self.column, self))])

    def partial(self, table: pa.Table, groups: Groups) -> pa.Table:
        """The extreme of the rows of each key."""
        self.state_schema(table.schema)
        values, groups = self.values(table, groups)
        return pa.table({self.name: self._reduced(values, groups)})

    def merge(self, states: pa.Table, groups: Groups) -> pa.Table:
        """The extreme of the extremes."""
        values, groups = present(one_array(states.column(self.name)), groups)
        return pa.table({self.name: self._reduced(values, groups)})

    def _reduced(self, values: pa.Array, groups: Groups) -> pa.Array:
        kind = values.type
        if types.is_floating(kind):
            numbers = values.to_numpy(zero_copy_only=False) + 0  # one zero: −0.0 + 0 is 0.0
            return pa.array(groups.reduce(self.floats, numbers), kind, mask=groups.empty)
        if types.is_integer(kind):
            return self._integers(values.to_numpy(), groups)
        if types.is_boolean(kind):
            return self._integers(values.cast(pa.int8()).to_numpy(), groups).cast(kind)
        if is_time(kind):
            whole = values.view(integers_type(kind)).to_numpy()
            return self._integers(whole, groups).view(kind)
        numbers, distinct = codes(values)
        rank = ranks(distinct)
        best = groups.reduce(self.integers, rank[numbers])
        if len(distinct) == 0:
            return pa.nulls(groups.n, kind)
        return distinct.take(pa.array(np.argsort(rank)[best], mask=groups.empty))

    def _integers(self, values: npt.NDArray[Any], groups: Groups) -> pa.Array:
        return pa.array(groups.reduce(self.integers, values), mask=groups.empty)


@dataclass(frozen=True)
class Minimum(_Extreme):
    """The smallest value of a column.

    Guarantee: Spark's order: NaN is larger than every number, strings and binary compare by bytes,
    false is below true. −0.0 is returned as 0.0. Null if a key has no value.

    Parameters:
        column: numbers, booleans, strings, binary, dates, timestamps or intervals.

    Example:
        >>> from evenflow.operators import Aggregates, on_table
        >>> rows = pa.table({"page": ["a", "b", "a"], "ms": [2.5, None, float("nan")]})
        >>> on_table(Aggregates(least=Minimum("ms")), rows, "page").to_pylist()
        [{'page': 'a', 'least': 2.5}, {'page': 'b', 'least': None}]
    """

    name: ClassVar[str] = "min"
    state_columns: ClassVar[tuple[str, ...]] = ("min",)
    integers: ClassVar[np.ufunc] = np.minimum
    floats: ClassVar[np.ufunc] = np.fmin  # a number wins over NaN


@dataclass(frozen=True)
class Maximum(_Extreme):
    """The largest value of a column; guarantee and column types as for `Minimum`.

    Example:
        >>> from evenflow.operators import Aggregates, on_table
        >>> rows = pa.table({"page": ["a", "b", "a"], "who": ["Zoë", None, "Émile"]})
        >>> on_table(Aggregates(last=Maximum("who")), rows, "page").to_pylist()
        [{'page': 'a', 'last': 'Émile'}, {'page': 'b', 'last': None}]
    """

    name: ClassVar[str] = "max"
    state_columns: ClassVar[tuple[str, ...]] = ("max",)
    integers: ClassVar[np.ufunc] = np.maximum
    floats: ClassVar[np.ufunc] = np.maximum  # NaN wins over every number
