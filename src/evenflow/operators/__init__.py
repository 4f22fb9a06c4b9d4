"""Keyed work: aggregates, and the protocol for custom operators.

`Aggregates` is the operator that consists of named aggregates; the functions of `functions.py`, `count`
and `mean` among them, create them. `NaiveBayes` counts classes, `IntervalJoin` pairs rows,
`Window` defines event-time windows. `Operator` is the protocol for custom work on whole tables;
`PerKey` adapts functions that are called once per key.
"""

from evenflow.operators.aggregate import Aggregate
from evenflow.operators.aggregates import Aggregates
from evenflow.operators.catalogue import known_aggregates, parse_aggregate
from evenflow.operators.central_moments import Stddev, StddevPop, Variance, VariancePop
from evenflow.operators.collected_values import CollectList, CollectSet
from evenflow.operators.conditions import BoolAnd, BoolOr, CountIf
from evenflow.operators.counts import Count
from evenflow.operators.distinct_sketch import DistinctSketch
from evenflow.operators.distinct_values import Distinct
from evenflow.operators.extreme_rows import MaxBy, MinBy
from evenflow.operators.extremes import Maximum, Minimum
from evenflow.operators.first_values import First, Last
from evenflow.operators.frequent_sketch import TopKSketch
from evenflow.operators.frequent_values import TopK
from evenflow.operators.functions import (
    approx_count_distinct,
    approx_percentile,
    avg,
    bool_and,
    bool_or,
    collect_list,
    collect_set,
    count,
    count_distinct,
    count_if,
    countDistinct,
    distinct,
    every,
    first,
    last,
    max_by,
    mean,
    min_by,
    mode,
    percentile_approx,
    quantiles,
    some,
    std,
    stddev,
    stddev_pop,
    stddev_samp,
    top_k,
    var_pop,
    var_samp,
    variance,
)
from evenflow.operators.functions import max as max
from evenflow.operators.functions import min as min
from evenflow.operators.functions import sum as sum
from evenflow.operators.groups import Groups
from evenflow.operators.hyperloglog import ApproxCountDistinct
from evenflow.operators.interval_join import IntervalJoin
from evenflow.operators.local import no_state, on_table, rows_by_key
from evenflow.operators.means import Mean
from evenflow.operators.modes import Mode
from evenflow.operators.naive_bayes import NaiveBayes, NaiveBayesModel
from evenflow.operators.per_key import PerKey
from evenflow.operators.percentiles import PercentileApprox
from evenflow.operators.protocol import Operator, Rows
from evenflow.operators.quantile_sketch import Quantiles
from evenflow.operators.sums import Sum
from evenflow.operators.windows import Window

# Without min, max and sum: `import *` must not put them in place of Python's own.
__all__ = [
    "Aggregate",
    "Aggregates",
    "ApproxCountDistinct",
    "BoolAnd",
    "BoolOr",
    "CollectList",
    "CollectSet",
    "Count",
    "CountIf",
    "Distinct",
    "DistinctSketch",
    "First",
    "Groups",
    "IntervalJoin",
    "Last",
    "MaxBy",
    "Maximum",
    "Mean",
    "MinBy",
    "Minimum",
    "Mode",
    "NaiveBayes",
    "NaiveBayesModel",
    "Operator",
    "PerKey",
    "PercentileApprox",
    "Quantiles",
    "Rows",
    "Stddev",
    "StddevPop",
    "Sum",
    "TopK",
    "TopKSketch",
    "Variance",
    "VariancePop",
    "Window",
    "approx_count_distinct",
    "approx_percentile",
    "avg",
    "bool_and",
    "bool_or",
    "collect_list",
    "collect_set",
    "count",
    "countDistinct",
    "count_distinct",
    "count_if",
    "distinct",
    "every",
    "first",
    "known_aggregates",
    "last",
    "max_by",
    "mean",
    "min_by",
    "mode",
    "no_state",
    "on_table",
    "parse_aggregate",
    "percentile_approx",
    "quantiles",
    "rows_by_key",
    "some",
    "std",
    "stddev",
    "stddev_pop",
    "stddev_samp",
    "top_k",
    "var_pop",
    "var_samp",
    "variance",
]
