"""Variance and standard deviation of a column."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from evenflow.operators.aggregate import ColumnAggregate
from evenflow.operators.exact_sums import sum_integers
from evenflow.operators.groups import I64, Groups
from evenflow.operators.input_columns import doubles_of, number_type, one_array

F64 = npt.NDArray[np.float64]


class _Spread(ColumnAggregate):
    """What the four share: count, mean and the sum of squared distances from the mean (m2)."""

    sample: ClassVar[bool]  # divide by n − 1 instead of n
    root: ClassVar[bool]

    def state_schema(self, rows: pa.Schema) -> pa.Schema:
        """Count, mean and m2 so far."""
        number_type(rows, self.column, self)
        return pa.schema([("count", pa.int64()), ("mean", pa.float64()), ("m2", pa.float64())])

    def output_schema(self, rows: pa.Schema) -> pa.Schema:
        """A double."""
        number_type(rows, self.column, self)
        return pa.schema([(self.name, pa.float64())])

    def partial(self, table: pa.Table, groups: Groups) -> pa.Table:
        """Count, mean and m2 of the rows of each key."""
        self.state_schema(table.schema)
        values, groups = self.values(table, groups)
        return _moments(np.ones(len(values), np.int64), doubles_of(values), None, groups)

    def merge(self, states: pa.Table, groups: Groups) -> pa.Table:
        """Merge the moments of the parts."""
        counts = one_array(states.column("count")).fill_null(0).to_numpy()
        there = np.flatnonzero(counts)
        mean = one_array(states.column("mean")).fill_null(0.0).to_numpy()[there]
        m2 = one_array(states.column("m2")).fill_null(0.0).to_numpy()[there]
        return _moments(counts[there], mean, m2, groups.where(there))

    def emit(self, state: pa.Table) -> pa.Array:
        """m2 over n or n − 1; null where that is zero."""
        count = one_array(state.column("count")).fill_null(0).to_numpy()
        m2 = one_array(state.column("m2")).fill_null(0.0).to_numpy()
        divisor = count - 1 if self.sample else count
        none = divisor < 1
        spread = m2 / np.where(none, 1, divisor)
        return pa.array(np.sqrt(spread) if self.root else spread, mask=none)


def _moments(counts: I64, means: F64, m2: F64 | None, groups: Groups) -> pa.Table:
    """The moments of each group, from those of its parts; a row is a part of one value.

    Means are measured from the first one of the group, and squares from the mean of the group, so
    that nothing cancels where the values are large and close to each other.
    """
    n, _ = sum_integers(counts, groups)
    occupied = np.flatnonzero(groups.counts)
    origin = np.zeros(groups.n)
    origin[occupied] = means[groups.order[groups.starts[occupied]]]
    with np.errstate(over="ignore", invalid="ignore"):
        shifted = means - origin[groups.group]
        some = np.where(n == 0, 1, n)
        offset = _sums(counts * shifted, groups) / some
        from_mean = shifted - offset[groups.group]
        total = _sums(counts * from_mean * from_mean, groups)
        # What rounding of the mean has added: zero in exact arithmetic.
        total = total - _sums(counts * from_mean, groups) ** 2 / some
        if m2 is not None:
            total = total + _sums(m2, groups)
        mean = origin + offset
        # An infinite value has no distance from the mean, not even from its own.
        total = np.where(np.isfinite(mean), np.maximum(total, 0.0), np.nan)
    empty = groups.empty
    return pa.table(
        {
            "count": pa.array(n),
            "mean": pa.array(mean, mask=empty),
            "m2": pa.array(total, mask=empty),
        }
    )


def _sums(values: F64, groups: Groups) -> F64:
    # Without any value, bincount returns integers.
    return np.bincount(groups.group, values, minlength=groups.n).astype(np.float64)


@dataclass(frozen=True)
class Variance(_Spread):
    """The sample variance of a column: the sum of squared distances from the mean over n − 1.

    Guarantee: a double, as in Spark; integers and decimals become doubles first. Numerically stable:
    the squares are taken from the mean of the values, and parts are merged by their counts, means and
    sums of squares. The last digits depend on the order of the rows and on how they were split into
    parts. NaN if a value is NaN or infinite, null if a key has fewer than two values.

    Parameters:
        column: integers, float, double or decimal.

    Example:
        >>> from evenflow.operators import Aggregates, on_table
        >>> rows = pa.table({"page": ["a", "b", "a", "a"], "ms": [1e9, 5.0, 1e9 + 1, 1e9 + 2]})
        >>> on_table(Aggregates(ms=Variance("ms")), rows, "page").to_pylist()
        [{'page': 'a', 'ms': 1.0}, {'page': 'b', 'ms': None}]

    Paper: Chan, Golub, LeVeque, "Updating formulae and a pairwise algorithm for computing sample
    variances", 1979.
    """

    name: ClassVar[str] = "variance"
    state_columns: ClassVar[tuple[str, ...]] = ("count", "mean", "m2")
    sample: ClassVar[bool] = True
    root: ClassVar[bool] = False


@dataclass(frozen=True)
class VariancePop(Variance):
    """The population variance of a column, over n: zero for one value, null for none. Otherwise as
    `Variance`."""

    name: ClassVar[str] = "var_pop"
    sample: ClassVar[bool] = False


@dataclass(frozen=True)
class Stddev(Variance):
    """The sample standard deviation of a column, the root of `Variance`.

    Example:
        >>> from evenflow.operators import Aggregates, on_table
        >>> rows = pa.table({"page": ["a", "b", "a"], "ms": [1, 5, 3]})
        >>> on_table(Aggregates(ms=Stddev("ms"), all=StddevPop("ms")), rows, "page").to_pylist()
        [{'page': 'a', 'ms': 1.4142135623730951, 'all': 1.0}, {'page': 'b', 'ms': None, 'all': 0.0}]
    """

    name: ClassVar[str] = "stddev"
    root: ClassVar[bool] = True


@dataclass(frozen=True)
class StddevPop(VariancePop):
    """The population standard deviation of a column, the root of `VariancePop`."""

    name: ClassVar[str] = "stddev_pop"
    root: ClassVar[bool] = True
