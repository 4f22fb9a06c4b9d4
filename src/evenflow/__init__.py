"""Evenflow keeps skewed, drifting, keyed streams balanced on Spark.

    import evenflow as ef

    query = (
        ef.keyed(clicks, key="page")
        .balance("auto", workers=24)
        .aggregate(hits=ef.count(), ms=ef.mean("ms"), users=ef.distinct("user"))
        .start(checkpoint="ckpt/", sink=ef.sinks.parquet("out/"))
    )

Importing this package is cheap: neither numba nor pyspark is loaded until a part that needs it is
first used (`evenflow.grouping`, `evenflow.keyed`, …).
"""

from importlib import import_module
from typing import Any

__version__ = "0.1.0"

_MODULES = (
    "checks",
    "grouping",
    "kernels",
    "metrics",
    "model",
    "operators",
    "planning",
    "report",
    "simulator",
    "sketches",
    "spark",
)

# Names that people type, and where they live.
_NAMES = {
    "keyed": "evenflow.spark.keyed",
    "read_metrics": "evenflow.state.journal",
    "InputError": "evenflow.model",
    **dict.fromkeys(
        (
            "Operator",
            "PerKey",
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

__all__ = ["__version__", "sinks", *_MODULES, *_NAMES]


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(f"{__name__}.{name}")
    if name == "sinks":
        return import_module("evenflow.spark.sinks")
    if name in _NAMES:
        return getattr(import_module(_NAMES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
