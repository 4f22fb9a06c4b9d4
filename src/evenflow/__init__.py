"""Evenflow keeps keyed work balanced on Spark: `ef.keyed(df, "k")` is `df.groupBy("k")`, balanced.

    import evenflow as ef

    query = (
        ef.keyed(clicks, "page")
        .balance("auto", partitions=24)
        .agg(hits=ef.count(), ms=ef.mean("ms"), users=ef.distinct("user"))
        .writeStream.format("parquet")
        .option("checkpointLocation", "ckpt")
        .start("hits")
    )

Importing this package is cheap: numba, pyarrow and pyspark are loaded when a name that needs them is
first used.
"""

import logging
from importlib import import_module
from typing import TYPE_CHECKING, Any

from evenflow.version import VERSION

if TYPE_CHECKING:
    from evenflow import checks, grouping
    from evenflow.diagnosis import diagnose
    from evenflow.model.errors import EvenflowError, InputError
    from evenflow.operators import (
        Operator,
        PerKey,
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
        max,
        max_by,
        mean,
        min,
        min_by,
        mode,
        percentile_approx,
        quantiles,
        some,
        std,
        stddev,
        stddev_pop,
        stddev_samp,
        sum,
        top_k,
        var_pop,
        var_samp,
        variance,
    )
    from evenflow.spark.batch_metrics import read_metrics
    from evenflow.spark.keyed import Keyed, keyed
    from evenflow.spark.query import QueryFailed, StreamingQuery
    from evenflow.spark.result import BalancedDataFrame
    from evenflow.spark.sinks.parquet import read_latest, read_output
    from evenflow.spark.state_frame import read_state
    from evenflow.spark.stream_writer import StreamWriter

__version__ = VERSION

__all__ = [
    "BalancedDataFrame",
    "EvenflowError",
    "InputError",
    "Keyed",
    "Operator",
    "PerKey",
    "QueryFailed",
    "StreamWriter",
    "StreamingQuery",
    "__version__",
    "approx_count_distinct",
    "approx_percentile",
    "avg",
    "bool_and",
    "bool_or",
    "checks",
    "collect_list",
    "collect_set",
    "count",
    "countDistinct",
    "count_distinct",
    "count_if",
    "diagnose",
    "distinct",
    "every",
    "first",
    "grouping",
    "keyed",
    "last",
    "max",
    "max_by",
    "mean",
    "min",
    "min_by",
    "mode",
    "percentile_approx",
    "quantiles",
    "read_latest",
    "read_metrics",
    "read_output",
    "read_state",
    "some",
    "std",
    "stddev",
    "stddev_pop",
    "stddev_samp",
    "sum",
    "top_k",
    "var_pop",
    "var_samp",
    "variance",
]

# Whoever uses the library decides where its log goes; without a handler, Python would print warnings.
logging.getLogger(__name__).addHandler(logging.NullHandler())

# Name → the module that has it.
_MODULES = {"checks": "evenflow.checks", "grouping": "evenflow.grouping"}
_NAMES = {
    "BalancedDataFrame": "evenflow.spark.result",
    "EvenflowError": "evenflow.model.errors",
    "InputError": "evenflow.model.errors",
    "diagnose": "evenflow.diagnosis",
    "Keyed": "evenflow.spark.keyed",
    "keyed": "evenflow.spark.keyed",
    "QueryFailed": "evenflow.spark.query",
    "StreamingQuery": "evenflow.spark.query",
    "StreamWriter": "evenflow.spark.stream_writer",
    "read_metrics": "evenflow.spark.batch_metrics",
    "read_latest": "evenflow.spark.sinks.parquet",
    "read_output": "evenflow.spark.sinks.parquet",
    "read_state": "evenflow.spark.state_frame",
    **dict.fromkeys(
        (
            "Operator",
            "PerKey",
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
            "last",
            "max",
            "max_by",
            "mean",
            "min",
            "min_by",
            "mode",
            "percentile_approx",
            "quantiles",
            "some",
            "std",
            "stddev",
            "stddev_pop",
            "stddev_samp",
            "sum",
            "top_k",
            "var_pop",
            "var_samp",
            "variance",
        ),
        "evenflow.operators",
    ),
}

if not TYPE_CHECKING:  # a type checker knows the names above, and that there are no others

    def __getattr__(name: str) -> Any:
        if name in _MODULES:
            return import_module(_MODULES[name])
        if name in _NAMES:
            return getattr(import_module(_NAMES[name]), name)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

    def __dir__() -> list[str]:
        return sorted(__all__)
