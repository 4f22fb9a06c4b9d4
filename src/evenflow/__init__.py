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

if TYPE_CHECKING:
    from evenflow import checks, grouping
    from evenflow.model.errors import EvenflowError, InputError
    from evenflow.operators import (
        Operator,
        PerKey,
        avg,
        count,
        distinct,
        max,
        mean,
        min,
        quantiles,
        sum,
        top_k,
    )
    from evenflow.spark.batch_metrics import read_metrics
    from evenflow.spark.keyed import Keyed, keyed
    from evenflow.spark.query import QueryFailed, StreamingQuery
    from evenflow.spark.result import BalancedDataFrame
    from evenflow.spark.sinks.parquet import read_output
    from evenflow.spark.stream_writer import StreamWriter

__version__ = "0.2.0"

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
    "avg",
    "checks",
    "count",
    "distinct",
    "grouping",
    "keyed",
    "max",
    "mean",
    "min",
    "quantiles",
    "read_metrics",
    "read_output",
    "sum",
    "top_k",
]

# Whoever uses the library decides where its log goes; without a handler, Python would print warnings.
logging.getLogger(__name__).addHandler(logging.NullHandler())

# Name → the module that has it.
_MODULES = {"checks": "evenflow.checks", "grouping": "evenflow.grouping"}
_NAMES = {
    "BalancedDataFrame": "evenflow.spark.result",
    "EvenflowError": "evenflow.model.errors",
    "InputError": "evenflow.model.errors",
    "Keyed": "evenflow.spark.keyed",
    "keyed": "evenflow.spark.keyed",
    "QueryFailed": "evenflow.spark.query",
    "StreamingQuery": "evenflow.spark.query",
    "StreamWriter": "evenflow.spark.stream_writer",
    "read_metrics": "evenflow.spark.batch_metrics",
    "read_output": "evenflow.spark.sinks.parquet",
    **dict.fromkeys(
        (
            "Operator",
            "PerKey",
            "avg",
            "count",
            "distinct",
            "max",
            "mean",
            "min",
            "quantiles",
            "sum",
            "top_k",
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
