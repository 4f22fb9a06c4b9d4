"""The most frequent value of a column."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyarrow as pa

from evenflow.operators.frequent_values import CountedValues, most_frequent


@dataclass(frozen=True)
class Mode(CountedValues):
    """The most frequent value of a column.

    Guarantee: exact; of several values that are equally frequent the smallest one, as Spark's `mode`
    with `deterministic=True`. Null is not a value, NaN is one, −0.0 is 0.0. Null if a key has no value.
    The state of a key, and the time to update it, grow with its distinct values.

    Parameters:
        column: numbers, booleans, strings, binary, dates, timestamps or intervals.

    Example:
        >>> from evenflow.operators import Aggregates, on_table
        >>> rows = pa.table({"page": ["a"] * 5 + ["b"], "user": ["y", "x", "z", "z", "x", None]})
        >>> on_table(Aggregates(user=Mode("user")), rows, "page").to_pylist()
        [{'page': 'a', 'user': 'x'}, {'page': 'b', 'user': None}]
    """

    name: ClassVar[str] = "mode"

    def output_schema(self, rows: pa.Schema) -> pa.Schema:
        """The type of the column."""
        return pa.schema([("mode", self.state_schema(rows).field("values").type.value_type)])

    def emit(self, state: pa.Table) -> pa.Array:
        """The first by count and value."""
        values, counts, groups = self.counted(state)
        best = most_frequent(values, counts, groups, 1)
        place = np.full(groups.n, -1, np.int64)
        place[groups.group[best]] = best
        return values.take(pa.array(place, mask=place < 0))
