"""Quantiles of a column, by a sketch of bounded size."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
import pyarrow as pa

from evenflow.model import InputError
from evenflow.operators.aggregate import ColumnAggregate
from evenflow.operators.exact_sums import sum_integers
from evenflow.operators.groups import I64, Groups
from evenflow.operators.input_columns import (
    doubles_of,
    integers_type,
    is_time,
    number_type,
    one_array,
    present,
)
from evenflow.operators.kll_sketch import kll_of, merge_kll
from evenflow.operators.sketch_library import (
    datasketches,
    join_each,
    read_sketch,
    sketch_each,
)


@dataclass(frozen=True)
class Quantiles(ColumnAggregate):
    """Estimates quantiles of a key's values with a KLL sketch.

    Guarantee: Apache DataSketches KLL for doubles. The result for p is a value of the column whose rank
    is within ±1.33 % of p with 99 % confidence for k = 200, whatever the distribution (2.61 % for
    k = 100, 0.68 % for 400). Exact, that is the ⌈p·n⌉-th smallest as in Spark's `percentile_approx`, up
    to k values of a key in one part. Numbers become doubles. NaN is the largest number. Null if a key
    has no value. A state takes 2 to 5 kilobytes for k = 200.

    A sketch depends on its values alone, not on their order, and on how they were parted: the same
    rows in the same batches give the same result, as long as a task has at most a million rows.

    Parameters:
        column: integers, float, double or decimal.
        probabilities: one number from 0 to 1, for a double, or several, for a list.
        k: the accuracy of the sketch, 8 … 65535.

    Example:
        >>> from evenflow.operators import Aggregates, on_table
        >>> rows = pa.table({"page": ["a"] * 4, "ms": [4, 1, 3, 2]})
        >>> on_table(Aggregates(ms=Quantiles("ms", [0.5, 1])), rows, "page").to_pylist()
        [{'page': 'a', 'ms': [2.0, 4.0]}]
        >>> on_table(Aggregates(ms=Quantiles("ms", 0.5)), rows, "page").to_pylist()
        [{'page': 'a', 'ms': 2.0}]

    Paper: Karnin, Lang, Liberty, "Optimal quantile approximation in streams", FOCS 2016.
    """

    name: ClassVar[str] = "quantiles"
    state_columns: ClassVar[tuple[str, ...]] = ("sketch", "nans")

    probabilities: float | Sequence[float]
    k: int = 200

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.probabilities, (int, float)):
            object.__setattr__(self, "probabilities", tuple(self.probabilities))
        if not self._wanted or not all(0 <= p <= 1 for p in self._wanted):
            raise InputError(
                f"{self}: probabilities must be numbers of 0 … 1, got {self.probabilities!r}; "
                "for the median write 0.5"
            )
        if not (isinstance(self.k, int) and 8 <= self.k <= 65535):
            raise InputError(f"{self}: k must be a whole number of 8 … 65535, got {self.k!r}")

    @property
    def _wanted(self) -> tuple[float, ...]:
        one = isinstance(self.probabilities, (int, float))
        return (self.probabilities,) if one else tuple(self.probabilities)  # type: ignore

    def state_schema(self, rows: pa.Schema) -> pa.Schema:
        """The sketch, null without numbers, and the number of NaN, which it cannot hold."""
        number_type(rows, self.column, self)
        return pa.schema([("sketch", pa.binary()), ("nans", pa.int64())])

    def output_schema(self, rows: pa.Schema) -> pa.Schema:
        """A double, or a list of doubles."""
        self.state_schema(rows)
        return pa.schema([("quantiles", self.result_type(pa.float64()))])

    def result_type(self, kind: pa.DataType) -> pa.DataType:
        """The type of one result, or of several, of such values."""
        one = isinstance(self.probabilities, (int, float))
        return kind if one else pa.list_(kind)

    def partial(self, table: pa.Table, groups: Groups) -> pa.Table:
        """A sketch of the rows of each key."""
        self.state_schema(table.schema)
        datasketches()  # without it, nothing could be put out
        values, groups = self.values(table, groups)
        if is_time(values.type):
            values = values.view(integers_type(values.type))
        numbers = doubles_of(values) + 0.0  # −0.0 + 0.0 is 0.0
        nan = np.isnan(numbers)
        nans = np.bincount(groups.group[nan], minlength=groups.n)
        if nan.any():
            numbers, groups = numbers[~nan], groups.where(~nan)
        numbers = numbers[groups.order]

        def sketch_of(start: int, end: int) -> bytes:
            return kll_of(numbers[start:end], self.k)

        return _state(sketch_each(groups, sketch_of), nans)

    def merge(self, states: pa.Table, groups: Groups) -> pa.Table:
        """Merge the sketches and add up the NaN."""
        sketches = join_each(states.column("sketch"), groups, merge_kll)
        nans, groups = present(one_array(states.column("nans")), groups)
        return _state(sketches, sum_integers(nans.to_numpy(), groups)[0])

    def emit(self, state: pa.Table) -> pa.Array:
        """The quantiles."""
        read = functools.partial(read_sketch, datasketches().kll_doubles_sketch)
        nans = one_array(state.column("nans")).fill_null(0).to_pylist()
        sketches = one_array(state.column("sketch")).to_pylist()
        results = [
            None if s is None and n == 0 else self._quantiles(s and read(s), n)
            for s, n in zip(sketches, nans, strict=True)
        ]
        if isinstance(self.probabilities, (int, float)):
            return pa.array([r and r[0] for r in results], pa.float64())
        return pa.array(results, self.result_type(pa.float64()))

    def _quantiles(self, sketch: Any, nans: int) -> list[float]:
        numbers = 0 if sketch is None else sketch.n
        found = []
        for p in self._wanted:
            # The rank among the numbers alone, half a step below so that rounding of the division
            # cannot reach the next value.
            rank = max(1, math.ceil(p * (numbers + nans)))
            beyond = rank > numbers
            found.append(math.nan if beyond else sketch.get_quantile((rank - 0.5) / numbers, True))
        return found

    @classmethod
    def parse(cls, text: str) -> Self:
        """From `COLUMN:0.5,0.99`."""
        column, colon, numbers = text.rpartition(":")
        try:
            wanted = [float(number) for number in numbers.split(",")]
        except ValueError:
            colon = ""
        if not colon or not column:
            raise InputError(
                f"'{cls.name}:{text}': expected a column and numbers of 0 … 1, as in "
                f"'{cls.name}:ms:0.5,0.99'"
            )
        return cls(column, wanted)


def _state(sketches: pa.Array, nans: I64) -> pa.Table:
    return pa.table({"sketch": sketches, "nans": pa.array(nans, pa.int64())})
