"""All measurements, and how they are run."""

from __future__ import annotations

import difflib
import os
import platform
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from evenflow.model import InputError
from evenflow_lab.benchmarks.outcome import Measurement, Outcome
from evenflow_lab.benchmarks.spark.empty_batch import EmptyBatch
from evenflow_lab.benchmarks.spark.figure13_14 import Figure13And14
from evenflow_lab.benchmarks.spark.fluctuation import Fluctuation, Stream
from evenflow_lab.benchmarks.spark.grouped import Grouped
from evenflow_lab.benchmarks.spark.heavy_aggregates import HeavyAggregates
from evenflow_lab.benchmarks.spark.join import Join
from evenflow_lab.benchmarks.spark.overhead import Overhead
from evenflow_lab.benchmarks.spark.per_key import PerKeyWork
from evenflow_lab.benchmarks.spark.scale_out import ScaleOut
from evenflow_lab.benchmarks.spark.state_size import StateSize
from evenflow_lab.benchmarks.spark.tolerance import Text, Tolerance

MEASUREMENTS: dict[str, type[Measurement]] = {
    one.name: one
    for one in (
        Overhead,
        PerKeyWork,
        Grouped,
        Figure13And14,
        StateSize,
        EmptyBatch,
        Fluctuation,
        ScaleOut,
        Tolerance,
        Join,
        HeavyAggregates,
    )
}
SIZES = ("usual", "quick", "full")


def chosen(names: Sequence[str]) -> list[str]:
    """These measurements, or all; with dashes or underscores. An unknown name is refused."""
    names = [name.replace("-", "_") for name in names]
    for name in names:
        if name not in MEASUREMENTS:
            near = difflib.get_close_matches(name, MEASUREMENTS, 1)
            hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(MEASUREMENTS)}"
            raise InputError(f"no measurement is called {name!r}; {hint}")
    return [name for name in MEASUREMENTS if name in names or not names]


def measured(
    names: Sequence[str],
    size: str = "usual",
    report: Callable[[str, str], object] = lambda name, what: None,
    stream: Stream | None = None,
    text: Text | None = None,
) -> Iterator[tuple[str, Measurement, Outcome]]:
    """Take some measurements, each with a Spark session of its own.

    Parameters:
        names: which, from `MEASUREMENTS`.
        size: one of `SIZES`.
        report: called with which measurement is under way and what it is doing.
        stream: where `fluctuation`, `scale_out` and `tolerance` take their keys from.
        text: where `tolerance` takes its words from.
    """
    from evenflow.spark.session import local_session

    for name in chosen(names):
        kind = MEASUREMENTS[name]
        measurement = kind() if size == "usual" else getattr(kind, size)()
        if isinstance(measurement, Fluctuation | ScaleOut | Tolerance):
            measurement = replace(measurement, stream=stream)
        if isinstance(measurement, Tolerance):
            measurement = replace(measurement, text=text)
        cores = kind.cores or os.cpu_count() or 1
        report(name, f"starting Spark with {cores} threads")
        spark = local_session(f"local[{cores}]", preload=True, **{"spark.driver.memory": "2g"})
        try:
            with tempfile.TemporaryDirectory(prefix="evenflow-bench-") as folder:
                yield (
                    name,
                    measurement,
                    measurement.measure(spark, folder, partial(report, name)),
                )
        finally:
            spark.stop()


def machine() -> dict[str, Any]:
    """What the figures depend on besides the program."""
    from importlib.metadata import version

    return {
        "cores": os.cpu_count(),
        "processor": platform.machine(),
        "python": platform.python_version(),
        "pyspark": version("pyspark"),
        "load_average_before": os.getloadavg()[0],
    }
