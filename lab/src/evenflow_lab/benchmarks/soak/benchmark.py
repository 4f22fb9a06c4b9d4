"""Does anything grow in a query that runs for ever?

A query with drift, moves and resizing, for thousands of micro-batches: 1,000 keys, of which others are
hot every 25 batches, 200 rows per batch, a routing table that is replanned, and 4, 3 or 5 partitions
in turn, another number every 100 batches. By default the engine alone, in this process, on a POSIX
storage; with --spark on Spark. The table has the medians of each tenth: the memory of all processes,
their open files, the checkpoint without its metrics, these alone (they are kept for 10,000 batches),
and the time of a batch. From the second tenth to the last one nothing may grow but the metrics.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

from evenflow_lab.benchmarks.outcome import Progress, Result, Table, say_nothing
from evenflow_lab.benchmarks.soak.samples import Sample, by_parts, goals
from evenflow_lab.benchmarks.soak.stream import run_engine, run_spark

_SAMPLES = 200  # of a run of the engine


def run(
    batches: Annotated[int, "How many micro-batches."] = 10_000,
    spark: Annotated[bool, "On Spark, instead of the engine alone."] = False,
    minutes: Annotated[float, "Stop after so long; 0 for never."] = 0.0,
    picture: Annotated[str, "Where to draw it, as PNG or SVG; nowhere if empty."] = "",
    samples: Annotated[str, "Where to keep all samples, as JSON lines; nowhere if empty."] = "",
    progress: Progress = say_nothing,
) -> Iterator[Result]:
    found: list[Sample] = []

    def watch(sample: Sample) -> None:
        found.append(sample)
        if samples:
            with open(samples, "a", encoding="utf-8") as file:
                file.write(json.dumps(sample._asdict()) + "\n")
        progress("batches", sample.batch + 1, batches)

    limit = minutes * 60 if minutes > 0 else float("inf")
    with tempfile.TemporaryDirectory(prefix="evenflow-soak-") as folder:
        if spark:
            run_spark(folder, batches, limit, watch)
        else:
            run_engine(folder, batches, max(1, batches // _SAMPLES), limit, watch)
    rows = by_parts(found)
    reached = goals(rows)
    if picture:
        from evenflow_lab.report.soak_picture import draw_soak

        draw_soak([sample._asdict() for sample in found], Path(picture))
    done = found[-1].batch + 1 if found else 0
    yield Result(
        {"batches": done, "parts": rows, "goals": [goal.to_dict() for goal in reached]},
        tables=(Table(rows, f"{done} batches, medians of each tenth"),),
        goals=reached,
        passed=all(goal.held for goal in reached),
    )
