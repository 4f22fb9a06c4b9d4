"""The times that the dry run predicts, beside those that Spark takes.

Zipf streams of three skews are written to Parquet. The work sleeps for its cost per row, so that two
cores stand in for sixteen. For each skew, cost and scheme, `dry_run` predicts the time from the file,
the cost per row and what a job without costs takes (measured once per scheme, the median of three), and
the job is timed once. Key grouping and schemes that split keys are among the cells.
"""

from __future__ import annotations

import tempfile
import time
from statistics import median
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from evenflow.diagnosis.dry_run import dry_run
from evenflow.operators import Aggregates, count
from evenflow.operators.service_time import ServiceTime
from evenflow.simulator.workloads import KeyFile
from evenflow.spark.session import running_session
from evenflow_lab.benchmarks.outcome import Goal, Progress, Result, Table, say_nothing

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

SKEWS, COSTS, SCHEMES = (1.0, 1.4, 1.8), (0.002, 0.004), ("key", "d-choices", "partial-key")
PARTITIONS, KEYS, CALIBRATIONS = 16, 10_000, 3


def zipf_rows(exponent: float, rows: int, seed: int = 1) -> pa.Table:
    """Rows with a key `page`, drawn from a Zipf distribution."""
    weights = np.arange(1, KEYS + 1) ** -exponent
    drawn = np.random.default_rng(seed).choice(KEYS, rows, p=weights / weights.sum())
    return pa.table({"page": drawn})


def seconds_of(df: DataFrame, scheme: str, cost: float) -> float:
    """How long the job takes."""
    import evenflow as ef

    work = ServiceTime(Aggregates(n=count()), cost)
    began = time.perf_counter()
    answer = ef.keyed(df, "page").balance(scheme, partitions=PARTITIONS).apply(work)
    answer.write.format("noop").mode("overwrite").save()  # type: ignore[attr-defined]
    return time.perf_counter() - began


def run(
    work: Annotated[float, "Seconds of work per partition, if it were even."] = 3.0,
    progress: Progress = say_nothing,
) -> Result:
    cells: list[dict[str, Any]] = []
    steps, done = len(SKEWS) * len(COSTS) * len(SCHEMES), 0
    with (
        tempfile.TemporaryDirectory() as folder,
        running_session(f"local[{PARTITIONS}]", "predicted", preload=True) as spark,
    ):
        for cost in COSTS:
            rows = int(work * PARTITIONS / cost)
            fixed: dict[str, float] = {}
            for skew in SKEWS:
                path = f"{folder}/{skew}-{cost}.parquet"
                pq.write_table(zipf_rows(skew, rows), path)
                df = spark.read.parquet(path)
                workload = KeyFile(path, ("page",))  # type: ignore[arg-type]
                for scheme in SCHEMES:
                    progress(f"{scheme}, z = {skew}, {1000 * cost:g} ms", done, steps)
                    if scheme not in fixed:
                        seconds_of(df, scheme, 0.0)
                        empty = [seconds_of(df, scheme, 0.0) for _ in range(CALIBRATIONS)]
                        fixed[scheme] = median(empty)
                    trials = dry_run(
                        workload, rows, PARTITIONS, cost, fixed_seconds=fixed[scheme], sources=1
                    )
                    [trial] = [one for one in trials if one.name == scheme]
                    assert trial.seconds is not None
                    measured = seconds_of(df, scheme, cost)
                    cells.append(
                        {
                            "scheme": scheme,
                            "z": skew,
                            "ms per row": 1000 * cost,
                            "rows": rows,
                            "fullest ÷ average": round(trial.fullest, 2),
                            "fixed s": round(fixed[scheme], 2),
                            "predicted s": round(trial.seconds, 2),
                            "measured s": round(measured, 2),
                            "error": round(abs(trial.seconds - measured) / measured, 3),
                        }
                    )
                    done += 1
    errors = [cell["error"] for cell in cells]
    return Result(
        cells,
        (Table(cells, f"{len(cells)} cells, {PARTITIONS} partitions"),),
        (),
        (Goal("median error", median(errors), 0.15), Goal("largest error", max(errors), 0.40)),
    )
