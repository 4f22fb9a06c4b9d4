"""What was measured on Spark for Figures 13 to 16, and whether it can decide a claim."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from evenflow_lab.benchmarks.spark.fluctuation import rows_that_bind
from evenflow_lab.experiments import FigureRows

_MEASURED = Path(__file__).with_name("measured")
FEW_F = 3  #: values of f from which on something can depend on it
MANY_KEYS = 100_000  #: from which on planning takes time that can be told from a batch's


def figures(name: str, part: str) -> FigureRows | None:
    """The rows of a measurement; None while it has not been made."""
    found = _results(name, part)
    return None if found is None else found["figures"]


def parameters(name: str, part: str) -> Mapping[str, Any]:
    """The settings of a measurement."""
    found = _results(name, part)
    return {} if found is None else found["parameters"]


def _results(name: str, part: str) -> Any:
    path = _MEASURED / f"{name}.json"
    if not path.exists():
        return None
    results = json.loads(path.read_text(encoding="utf-8"))
    return results["measurements"].get(part) if part else results


def _fluctuation_unfit(found: FigureRows, parameters: Mapping[str, Any]) -> str:
    if len({row["f"] for row in found}) < FEW_F:
        return "Measured on Spark with f = 1 alone; the claim is about all f."
    return ""


def _tolerance_unfit(found: FigureRows, parameters: Mapping[str, Any]) -> str:
    needed = rows_that_bind(min(parameters["thetas"]))
    if parameters["words"] < needed:
        return (
            f"Measured on Spark with micro-batches of {parameters['words']:,} rows per worker: the "
            f"controller takes no overload of {min(parameters['thetas']):g} in a batch for certain "
            f"below {needed:,}, and no θmax differed from another."
        )
    return ""


def _scale_out_unfit(found: FigureRows, parameters: Mapping[str, Any]) -> str:
    if parameters.get("keys", 0) < MANY_KEYS or "seconds" not in found[0]:
        return "Measured on Spark with 10,000 keys, for which every planner is done at once."
    return ""


def _q5_unfit(found: FigureRows, parameters: Mapping[str, Any]) -> str:
    if "revenue seconds" not in found[0]:
        return "Measured on Spark for the interval join of Q5 alone, not for the whole query."
    return ""


#: measurement → why what was measured cannot decide its claims, if it cannot
UNFIT: Mapping[str, Callable[[FigureRows, Mapping[str, Any]], str]] = {
    "fluctuation": _fluctuation_unfit,
    "tolerance": _tolerance_unfit,
    "scale_out": _scale_out_unfit,
    "": _q5_unfit,
}
