"""Throughput of the continuous TPC-H Q5 by θmax.

Figure 16 of "Parallel stream processing against workload skewness and variance", on Spark. The whole
query is timed: the interval join of orders with their line items, in which every pair keeps its worker
busy for a while, and the joins with the fixed tables and the sum by nation that follow. The line items
of an order are Zipf-distributed (z = 0.8), and in each interval the orders are others.
"""

from __future__ import annotations

import tempfile
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from statistics import median
from typing import Annotated, Any

from evenflow_lab.benchmarks.outcome import Progress, Result, Table, say_nothing
from evenflow_lab.benchmarks.spark.feeding import finished, processed, seconds_of
from evenflow_lab.benchmarks.spark.fluctuation import balanced_by
from evenflow_lab.benchmarks.spark.serving import ServingPairs
from evenflow_lab.checking.checkout import example
from evenflow_lab.experiments.modules import load_module

RIVALS = ("mixed", "min-table", "readj")


@dataclass(frozen=True)
class Settings:
    """The options of `run`."""

    scale: float
    intervals: int
    batches: int
    warm: int
    workers: int
    service: float
    theta: tuple[float, ...]


def measure(options: Settings, progress: Progress) -> list[dict[str, Any]]:
    """One row per way to balance."""
    tpch_q5 = load_module(example("tpch_q5.py"))
    from evenflow.spark.session import local_session

    spark = local_session(
        f"local[{options.workers}]", preload=True, **{"spark.sql.session.timeZone": "UTC"}
    )
    ways: list[tuple[str, float | None]] = [("key", None)]
    ways += [(planner, theta) for theta in options.theta for planner in RIVALS]
    found: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory(prefix="evenflow-q5-") as folder:
        directory = Path(folder)
        streams = tpch_q5.make_streams(
            directory, options.scale, options.intervals, files=options.batches
        )
        for planner, theta in ways:
            what = planner if theta is None else f"{planner}, θmax = {theta:g}"
            progress(what, len(found), len(ways))
            log = directory / f"log-{planner}-{theta}"
            log.mkdir()
            balanced = partial(
                balanced_by,
                "key" if theta is None else "table",
                None if theta is None else planner,
                options.workers,
                theta or 0.0,
            )
            pairs = tpch_q5.orders_with_items(
                spark, streams, balanced, ServingPairs(options.service, str(log))
            )
            at = directory / f"at-{planner}-{theta}"
            query = (
                pairs.writeStream.option("checkpointLocation", f"{at}-join")
                .trigger(availableNow=True)
                .start(f"{at}-pairs")
            )
            query.awaitTermination()
            every = seconds_of(finished(query.spark_query))
            seconds, metrics = every[options.warm :], query.metrics()[options.warm :]
            rows = sum(m["rows"] for m in query.metrics())
            summed = tpch_q5.revenue_by_nation(
                spark, Path(f"{at}-pairs"), streams.fixed, options.workers
            )
            revenue = processed(summed, f"{at}-revenue")
            revenue_seconds = sum(seconds_of(finished(revenue.spark_query)))
            # The sum takes its share of what the join has measured: its own batches are others.
            counted = sum(m["rows"] for m in metrics)
            rate = counted / (sum(seconds) + revenue_seconds * counted / rows)
            found.append(
                {
                    "scheme": planner,
                    "theta": theta,
                    "messages a second": round(rate),
                    "÷ key": round(rate / found[0]["messages a second"], 2) if found else 1.0,
                    "batch seconds": round(median(seconds), 2),
                    "revenue seconds": round(revenue_seconds, 2),
                    "fullest ÷ average": round(median(m["max_over_average"] for m in metrics), 2),
                    "plans": sum(bool((m["planning"] or {}).get("changed")) for m in metrics),
                    "keys moved": sum(m["migrated_keys"] for m in metrics),
                }
            )
    spark.stop()
    return found


def run(
    scale: Annotated[float, "TPC-H's scale factor."] = 0.02,
    intervals: Annotated[int, "Intervals, of ten minutes each."] = 3,
    batches: Annotated[int, "Micro-batches per interval."] = 6,
    warm: Annotated[int, "Micro-batches that do not count."] = 3,
    workers: Annotated[int, "Tasks that join."] = 10,
    service: Annotated[float, "Seconds per pair."] = 0.0015,
    theta: Annotated[
        list[float] | None, "θmax; repeatable. 0.02, 0.15 and 0.3 if not given."
    ] = None,
    progress: Progress = say_nothing,
) -> Result:
    settings = Settings(
        scale, intervals, batches, warm, workers, service, tuple(theta or (0.02, 0.15, 0.3))
    )
    found = measure(settings, progress)
    return Result({"parameters": asdict(settings), "figures": found}, (Table(found),))
