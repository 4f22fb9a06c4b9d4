"""Evenflow keeps skewed, drifting, keyed streams balanced on Spark.

Importing this package is cheap: neither numba nor pyspark is loaded until a part that needs it is
first used (`evenflow.grouping`, `evenflow.sketches`, …).
"""

from importlib import import_module
from typing import Any

__version__ = "0.1.0"

_LAZY = ("checks", "grouping", "kernels", "metrics", "model", "report", "simulator", "sketches")

__all__ = ["__version__", *_LAZY]


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        return import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
