"""The aggregates under the names that users type: `ef.count()`, `ef.mean("ms")`.

Functions that Spark also has bear Spark's names. A column is given by name or, on Spark, as a `Column`:
`ef.mean(F.col("ms") / 1000)`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from evenflow.model import InputError
from evenflow.operators.counts import Count
from evenflow.operators.distinct_sketch import DistinctSketch
from evenflow.operators.distinct_values import Distinct
from evenflow.operators.extremes import Maximum, Minimum
from evenflow.operators.frequent_sketch import TopKSketch
from evenflow.operators.frequent_values import TopK
from evenflow.operators.means import Mean
from evenflow.operators.quantile_sketch import Quantiles
from evenflow.operators.sums import Sum


class SparkColumn(Protocol):
    """The part of pyspark's `Column` that this package uses without importing pyspark."""

    def alias(self, *alias: str, **kwargs: Any) -> Any: ...

    def cast(self, dataType: Any) -> Any: ...


ColumnOrName = str | SparkColumn


class ComputedColumn(str):
    """The name of a column that is computed from others before the rows are routed.

    Guarantee: pickled, it is a plain name; the expression stays on the driver.

    Parameters:
        expression: the `Column` that computes it.
    """

    expression: SparkColumn

    def __new__(cls, expression: SparkColumn) -> ComputedColumn:
        text = str(expression)  # "Column<'(ms / 1000)'>"
        text = text.removeprefix("Column<'").removesuffix("'>")
        # Spark would read a dot in a name as access to a struct field.
        name = super().__new__(cls, text.replace(".", "·").replace("`", "'"))
        name.expression = expression
        return name

    def __reduce__(self) -> tuple[type[str], tuple[str]]:
        return str, (str(self),)


def count(column: ColumnOrName | None = None) -> Count:
    """The number of rows of a key, or of non-null values of a column.

    Parameters:
        column: None or "*" counts rows.

    Example:
        >>> count(), count("ms")
        (Count(column=None), Count(column='ms'))
    """
    return Count(None if column is None or _is_star(column) else _named(column, "count"))


def sum(column: ColumnOrName) -> Sum:
    """The sum of a column's values.

    Example:
        >>> sum("ms")
        Sum(column='ms')
    """
    return Sum(_named(column, "sum"))


def mean(column: ColumnOrName) -> Mean:
    """The mean of a column's values. `avg` is the same function.

    Example:
        >>> mean("ms") == avg("ms")
        True
    """
    return Mean(_named(column, "mean"))


avg = mean


def min(column: ColumnOrName) -> Minimum:
    """The smallest value of a column.

    Example:
        >>> min("ms")
        Minimum(column='ms')
    """
    return Minimum(_named(column, "min"))


def max(column: ColumnOrName) -> Maximum:
    """The largest value of a column.

    Example:
        >>> max("ms")
        Maximum(column='ms')
    """
    return Maximum(_named(column, "max"))


def distinct(column: ColumnOrName, *, approximate: bool = False) -> Distinct | DistinctSketch:
    """The number of distinct values of a column: exact, or by a sketch of bounded size.

    Example:
        >>> distinct("user")
        Distinct(column='user')
        >>> distinct("user", approximate=True)
        DistinctSketch(column='user', lg_k=12)
    """
    name = _named(column, "distinct")
    return DistinctSketch(name) if approximate else Distinct(name)


def quantiles(
    column: ColumnOrName, probabilities: float | Sequence[float], k: int = 200
) -> Quantiles:
    """Quantiles of a column's values, by a sketch of bounded size.

    Parameters:
        probabilities: one number from 0 to 1 or several; 0.5 is the median.
        k: the size of the sketch; its rank error is about 1.3 % at 200, and smaller for larger k.

    Example:
        >>> quantiles("ms", [0.5, 0.99])
        Quantiles(column='ms', probabilities=(0.5, 0.99), k=200)
    """
    return Quantiles(_named(column, "quantiles"), probabilities, k)


def top_k(column: ColumnOrName, k: int, *, approximate: bool = False) -> TopK | TopKSketch:
    """The k most frequent values of a column: exact, or by a sketch of bounded size.

    Example:
        >>> top_k("user", 3)
        TopK(column='user', k=3)
        >>> top_k("user", 3, approximate=True)
        TopKSketch(column='user', k=3, lg_size=10)
    """
    name = _named(column, "top_k")
    return TopKSketch(name, k) if approximate else TopK(name, k)


def _is_star(column: ColumnOrName) -> bool:
    return isinstance(column, str) and column == "*"


def _named(column: ColumnOrName, function: str) -> str:
    if isinstance(column, str):
        return column
    if hasattr(column, "alias") and hasattr(column, "cast"):
        return ComputedColumn(column)
    raise InputError(
        f'{function} takes the name of a column or a Column, got {column!r}; write {function}("ms")'
    )
