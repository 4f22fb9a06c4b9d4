"""Throughput of the continuous TPC-H Q5 by θmax: `python -m evenflow_lab.benchmarks.tpch_q5 --json`.

Figure 16 of "Parallel stream processing against workload skewness and variance", on Spark. What is
timed is its window join, orders with their line items, in which every pair keeps its worker
busy for a while; the sum by nation that follows has five keys and no such work. The line items of an
order are Zipf-distributed (z = 0.8), and in each interval the orders are others.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path
from statistics import median
from typing import Any

from examples import tpch_q5

from evenflow_lab.benchmarks.spark.feeding import Discard, finished, seconds_of
from evenflow_lab.benchmarks.spark.fluctuation import balanced_by
from evenflow_lab.benchmarks.spark.serving import ServingPairs

RIVALS = ("mixed", "min-table", "readj")


def measure(options: argparse.Namespace) -> list[dict[str, Any]]:
    """One row a way to balance."""
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
            print(f"{planner}" + ("" if theta is None else f", θmax = {theta:g}"), file=sys.stderr)
            log = directory / f"log-{planner}-{theta}"
            log.mkdir()
            pairs = tpch_q5.orders_with_items(
                spark, streams, ServingPairs(options.service, str(log))
            )
            keyed = balanced_by(
                "key" if theta is None else "table",
                None if theta is None else planner,
                options.workers,
                theta or 0.0,
                pairs,
            )
            query = keyed.start(directory / f"at-{planner}-{theta}", Discard(), available_now=True)
            query.wait()
            seconds = seconds_of(finished(query.spark_query))[options.warm :]
            metrics = query.metrics()[options.warm :]
            rate = sum(m["rows"] for m in metrics) / sum(seconds)
            found.append(
                {
                    "scheme": planner,
                    "theta": theta,
                    "messages a second": round(rate),
                    "÷ key": round(rate / found[0]["messages a second"], 2) if found else 1.0,
                    "batch seconds": round(median(seconds), 2),
                    "fullest ÷ average": round(median(m["max_over_average"] for m in metrics), 2),
                    "plans": sum(bool((m["planning"] or {}).get("changed")) for m in metrics),
                    "keys moved": sum(m["migrated_keys"] for m in metrics),
                }
            )
    spark.stop()
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--scale", type=float, default=0.02, help="TPC-H's scale factor")
    parser.add_argument("--intervals", type=int, default=3, help="of ten minutes each")
    parser.add_argument("--batches", type=int, default=6, help="micro-batches an interval")
    parser.add_argument("--warm", type=int, default=3, help="micro-batches that do not count")
    parser.add_argument("--workers", type=int, default=10)
    parser.add_argument("--service", type=float, default=0.0015, help="seconds a pair")
    parser.add_argument("--theta", type=float, nargs="+", default=[0.02, 0.15, 0.3])
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    found = measure(options)
    if options.json:
        print(json.dumps({"parameters": {**vars(options)}, "figures": found}, indent=2))
        return
    for row in found:
        print(*(f"{name} {value}" for name, value in row.items()), sep=", ")


if __name__ == "__main__":
    main()
