"""Keyed work: aggregates, and the protocol for custom operators.

`Aggregates` is the operator that consists of named aggregates; `count`, `sum`, `mean`, `min`, `max`,
`distinct`, `quantiles` and `top_k` create them. `NaiveBayes` counts classes, `IntervalJoin` pairs rows,
`Window` defines event-time windows. `Operator` is the protocol for custom work on whole tables;
`PerKey` adapts functions that are called once per key.
"""

from evenflow.operators.aggregate import Aggregate
from evenflow.operators.aggregates import Aggregates
from evenflow.operators.catalogue import known_aggregates, parse_aggregate
from evenflow.operators.counts import Count
from evenflow.operators.distinct_sketch import DistinctSketch
from evenflow.operators.distinct_values import Distinct
from evenflow.operators.extremes import Maximum, Minimum
from evenflow.operators.frequent_sketch import TopKSketch
from evenflow.operators.frequent_values import TopK
from evenflow.operators.functions import avg, count, distinct, mean, quantiles, top_k
from evenflow.operators.functions import max as max
from evenflow.operators.functions import min as min
from evenflow.operators.functions import sum as sum
from evenflow.operators.groups import Groups
from evenflow.operators.interval_join import IntervalJoin
from evenflow.operators.local import no_state, on_table, rows_by_key
from evenflow.operators.means import Mean
from evenflow.operators.naive_bayes import NaiveBayes, NaiveBayesModel
from evenflow.operators.per_key import PerKey
from evenflow.operators.protocol import Operator, Rows
from evenflow.operators.quantile_sketch import Quantiles
from evenflow.operators.sums import Sum
from evenflow.operators.windows import Window

# Without min, max and sum: `import *` must not put them in place of Python's own.
__all__ = [
    "Aggregate",
    "Aggregates",
    "Count",
    "Distinct",
    "DistinctSketch",
    "Groups",
    "IntervalJoin",
    "Maximum",
    "Mean",
    "Minimum",
    "NaiveBayes",
    "NaiveBayesModel",
    "Operator",
    "PerKey",
    "Quantiles",
    "Rows",
    "Sum",
    "TopK",
    "TopKSketch",
    "Window",
    "avg",
    "count",
    "distinct",
    "known_aggregates",
    "mean",
    "no_state",
    "on_table",
    "parse_aggregate",
    "quantiles",
    "rows_by_key",
    "top_k",
]
