"""The engine on this machine's Spark: ratios to Spark's own ways, in one run.

Takes half an hour on two cores. Run it while nothing else runs.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any

from evenflow.model import InputError
from evenflow_lab.benchmarks.outcome import Progress, Result, Table, as_json, say_nothing
from evenflow_lab.benchmarks.spark.catalogue import MEASUREMENTS, chosen, machine, measured
from evenflow_lab.workloads.fluctuating import snapshots
from evenflow_lab.workloads.words import jumps

_BUSY = 0.5  #: a load average above which times are too long


def run(
    only: Annotated[
        list[str] | None,
        f"One measurement: {', '.join(name.replace('_', '-') for name in MEASUREMENTS)}; repeatable.",
    ] = None,
    quick: Annotated[bool, "Small sizes, to try it out."] = False,
    full: Annotated[bool, "Large sizes: 10 M keys of state."] = False,
    progress: Progress = say_nothing,
) -> Iterator[Result]:
    if quick and full:
        raise InputError("give --quick or --full, not both")
    size = "quick" if quick else "full" if full else "usual"
    names = chosen(only or [])
    host = machine()
    if host["load_average_before"] > _BUSY:
        load = host["load_average_before"]
        progress(f"the load average is {load:.1f}: times will be too long", 0, len(names))
    answers: dict[str, Any] = {}

    def report(name: str, what: str) -> None:
        progress(f"{name}: {what}", len(answers), len(names))

    for name, measurement, found in measured(names, size, report, snapshots, jumps):
        answers[name] = as_json(measurement, found)
        yield Result(
            {"machine": host, "size": size, "measurements": answers},
            (Table((), name), Table(found.figures, found.what)),
            goals=found.goals,
        )
