"""The aggregates under the names that users type: `ef.count()`, `ef.mean("ms")`.

Functions that Spark also has bear Spark's names and take its parameters. A column is given by name or,
on Spark, as a `Column`: `ef.mean(F.col("ms") / 1000)`.
"""

from __future__ import annotations

from collections.abc import Sequence

from evenflow.model import InputError
from evenflow.operators.central_moments import Stddev, StddevPop, Variance, VariancePop
from evenflow.operators.collected_values import CollectList, CollectSet
from evenflow.operators.computed_columns import ColumnOrName, is_star, name_of
from evenflow.operators.conditions import BoolAnd, BoolOr, CountIf
from evenflow.operators.counts import Count
from evenflow.operators.distinct_sketch import DistinctSketch
from evenflow.operators.distinct_values import Distinct
from evenflow.operators.extreme_rows import MaxBy, MinBy
from evenflow.operators.extremes import Maximum, Minimum
from evenflow.operators.first_values import First, Last
from evenflow.operators.frequent_sketch import TopKSketch
from evenflow.operators.frequent_values import TopK
from evenflow.operators.hyperloglog import ApproxCountDistinct
from evenflow.operators.means import Mean
from evenflow.operators.modes import Mode
from evenflow.operators.percentiles import PercentileApprox, sketch_size
from evenflow.operators.quantile_sketch import Quantiles
from evenflow.operators.sums import Sum


def count(col: ColumnOrName | None = None) -> Count:
    """The number of rows of a key, or of non-null values of a column.

    Parameters:
        col: None or "*" counts rows.

    Example:
        >>> count(), count("ms")
        (Count(column=None), Count(column='ms'))
    """
    return Count(None if col is None or is_star(col) else name_of(col, "count"))


def sum(col: ColumnOrName) -> Sum:
    """The sum of a column's values.

    Example:
        >>> sum("ms")
        Sum(column='ms')
    """
    return Sum(name_of(col, "sum"))


def mean(col: ColumnOrName) -> Mean:
    """The mean of a column's values. `avg` is the same function.

    Example:
        >>> mean("ms") == avg("ms")
        True
    """
    return Mean(name_of(col, "mean"))


avg = mean


def min(col: ColumnOrName) -> Minimum:
    """The smallest value of a column.

    Example:
        >>> min("ms")
        Minimum(column='ms')
    """
    return Minimum(name_of(col, "min"))


def max(col: ColumnOrName) -> Maximum:
    """The largest value of a column.

    Example:
        >>> max("ms")
        Maximum(column='ms')
    """
    return Maximum(name_of(col, "max"))


def distinct(column: ColumnOrName, *, approximate: bool = False) -> Distinct | DistinctSketch:
    """The number of distinct values of a column: exact, or by a sketch of bounded size.

    Example:
        >>> distinct("user")
        Distinct(column='user')
        >>> distinct("user", approximate=True)
        DistinctSketch(column='user', lg_k=12)
    """
    name = name_of(column, "distinct")
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
    return Quantiles(name_of(column, "quantiles"), probabilities, k)


def top_k(column: ColumnOrName, k: int, *, approximate: bool = False) -> TopK | TopKSketch:
    """The k most frequent values of a column: exact, or by a sketch of bounded size.

    Example:
        >>> top_k("user", 3)
        TopK(column='user', k=3)
        >>> top_k("user", 3, approximate=True)
        TopKSketch(column='user', k=3, lg_size=10)
    """
    name = name_of(column, "top_k")
    return TopKSketch(name, k) if approximate else TopK(name, k)


def count_if(col: ColumnOrName) -> CountIf:
    """The number of rows in which a condition is true.

    Example:
        >>> count_if("slow")
        CountIf(column='slow')
    """
    return CountIf(name_of(col, "count_if"))


def bool_and(col: ColumnOrName) -> BoolAnd:
    """Whether a condition is true in all rows; null is skipped. `every` is the same function.

    Example:
        >>> bool_and("ok") == every("ok")
        True
    """
    return BoolAnd(name_of(col, "bool_and"))


every = bool_and


def bool_or(col: ColumnOrName) -> BoolOr:
    """Whether a condition is true in any row; null is skipped. `some` is the same function.

    Example:
        >>> bool_or("ok") == some("ok")
        True
    """
    return BoolOr(name_of(col, "bool_or"))


some = bool_or


def min_by(col: ColumnOrName, ord: ColumnOrName) -> MinBy:
    """The value of `col` in the row in which `ord` is smallest.

    Example:
        >>> min_by("user", "time")
        MinBy(column='user', ord='time')
    """
    return MinBy(name_of(col, "min_by"), name_of(ord, "min_by"))


def max_by(col: ColumnOrName, ord: ColumnOrName) -> MaxBy:
    """The value of `col` in the row in which `ord` is largest; with `F.struct(…)` as `col`, several
    columns of that row.

    Example:
        >>> max_by("user", "time")
        MaxBy(column='user', ord='time')
    """
    return MaxBy(name_of(col, "max_by"), name_of(ord, "max_by"))


def first(col: ColumnOrName, ignorenulls: bool = False) -> First:
    """The value of a column in the row that arrived first. As in Spark, that may be any row after a
    shuffle; `min_by` chooses by a column.

    Example:
        >>> first("user", ignorenulls=True)
        First(column='user', ignorenulls=True)
    """
    return First(name_of(col, "first"), ignorenulls)


def last(col: ColumnOrName, ignorenulls: bool = False) -> Last:
    """The value of a column in the row that arrived last. As in Spark, that may be any row after a
    shuffle; `max_by` chooses by a column.

    Example:
        >>> last("user")
        Last(column='user', ignorenulls=False)
    """
    return Last(name_of(col, "last"), ignorenulls)


def collect_list(col: ColumnOrName) -> CollectList:
    """All values of a column that are not null, in the order in which they arrived.

    Example:
        >>> collect_list("user")
        CollectList(column='user')
    """
    return CollectList(name_of(col, "collect_list"))


def collect_set(col: ColumnOrName) -> CollectSet:
    """The distinct values of a column, smallest first.

    Example:
        >>> collect_set("user")
        CollectSet(column='user')
    """
    return CollectSet(name_of(col, "collect_set"))


def count_distinct(col: ColumnOrName, *cols: ColumnOrName) -> Distinct:
    """The number of distinct values of a column; exact. `countDistinct` is the same function.

    Example:
        >>> count_distinct("user") == countDistinct("user") == distinct("user")
        True
    """
    if cols:
        raise InputError(
            f"count_distinct takes one column, got {1 + len(cols)}; give a string of them, such as "
            'F.to_json(F.struct("a", "b")), and null where a row should not count'
        )
    return Distinct(name_of(col, "count_distinct"))


countDistinct = count_distinct


def approx_count_distinct(col: ColumnOrName, rsd: float | None = None) -> ApproxCountDistinct:
    """The number of distinct values of a column, by a sketch of bounded size.

    Parameters:
        rsd: the relative standard deviation allowed; 0.05 by default.

    Example:
        >>> approx_count_distinct("user", 0.01)
        ApproxCountDistinct(column='user', rsd=0.01)
    """
    return ApproxCountDistinct(name_of(col, "approx_count_distinct"), 0.05 if rsd is None else rsd)


def percentile_approx(
    col: ColumnOrName, percentage: float | Sequence[float], accuracy: int = 10000
) -> PercentileApprox:
    """Percentiles of a column in its own type, by a sketch of bounded size. `approx_percentile` is the
    same function.

    Parameters:
        percentage: one number from 0 to 1, or several for a list.
        accuracy: the rank error is 1/accuracy with 99 % confidence; no accuracy gives an error below
            0.0104 %, which is that of the default.

    Example:
        >>> percentile_approx("ms", [0.5, 0.99], 100)
        PercentileApprox(column='ms', probabilities=(0.5, 0.99), k=415)
    """
    name = name_of(col, "percentile_approx")
    if isinstance(accuracy, bool) or not isinstance(accuracy, int) or accuracy < 1:
        raise InputError(
            f"percentile_approx: accuracy must be a whole number of 1 or more, got {accuracy!r}; "
            "leave it out for 10000"
        )
    return PercentileApprox(name, percentage, sketch_size(accuracy))


approx_percentile = percentile_approx


def mode(col: ColumnOrName, deterministic: bool = False) -> Mode:
    """The most frequent value of a column; of several, the smallest.

    Parameters:
        deterministic: as Spark has it. The result is deterministic in any case, which is one of those
            that Spark may give without it.

    Example:
        >>> mode("user")
        Mode(column='user')
    """
    return Mode(name_of(col, "mode"))


def variance(col: ColumnOrName) -> Variance:
    """The sample variance of a column. `var_samp` is the same function.

    Example:
        >>> variance("ms") == var_samp("ms")
        True
    """
    return Variance(name_of(col, "variance"))


var_samp = variance


def var_pop(col: ColumnOrName) -> VariancePop:
    """The population variance of a column.

    Example:
        >>> var_pop("ms")
        VariancePop(column='ms')
    """
    return VariancePop(name_of(col, "var_pop"))


def stddev(col: ColumnOrName) -> Stddev:
    """The sample standard deviation of a column. `stddev_samp` and `std` are the same function.

    Example:
        >>> stddev("ms") == stddev_samp("ms") == std("ms")
        True
    """
    return Stddev(name_of(col, "stddev"))


stddev_samp = stddev
std = stddev


def stddev_pop(col: ColumnOrName) -> StddevPop:
    """The population standard deviation of a column.

    Example:
        >>> stddev_pop("ms")
        StddevPop(column='ms')
    """
    return StddevPop(name_of(col, "stddev_pop"))
