"""Do keys stay where they are while the load is steady?

A stream on Spark whose keys have the same frequencies all the time (Zipf, z = 0.85, 10,000 keys), under
a routing table that is replanned whenever a worker has too much. Once it has settled, nothing should
move.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Annotated

import numpy as np
import pyarrow as pa

import evenflow as ef
from evenflow_lab.benchmarks.outcome import Progress, Result, Table, say_nothing
from evenflow_lab.benchmarks.spark.feeding import Feed, processed


def run(
    batches: Annotated[int, "Micro-batches."] = 220,
    rows: Annotated[int, "Rows of a batch."] = 20_000,
    workers: Annotated[int, "Tasks."] = 15,
    settled: Annotated[int, "Batches until it should have settled."] = 20,
    theta: Annotated[float, "θmax."] = 0.08,
    seed: Annotated[int, "Of the keys."] = 1,
    progress: Progress = say_nothing,
) -> Result:
    parameters = {
        "batches": batches,
        "rows": rows,
        "workers": workers,
        "settled": settled,
        "theta": theta,
        "seed": seed,
    }
    progress(f"{batches} batches", 0, None)
    from evenflow.spark.session import local_session

    spark = local_session(f"local[{os.cpu_count()}]", preload=True)
    random = np.random.default_rng(seed)
    shares = np.arange(1, 10_001) ** -0.85
    keys = random.permutation(10_000)
    with tempfile.TemporaryDirectory(prefix="evenflow-stationary-") as folder:
        feed = Feed(f"{folder}/in")
        for _ in range(batches):
            drawn = random.choice(keys, rows, p=shares / shares.sum())
            feed.add(pa.table({"key": drawn}))
        keyed = ef.keyed(feed.stream(spark), "key").balance("table", partitions=workers)
        result = keyed.replan("mixed", theta).agg(n=ef.count())
        metrics = processed(result, Path(folder) / "checkpoint").metrics()
    spark.stop()
    changed = [m["batch"] for m in metrics if (m["planning"] or {}).get("changed")]
    found = {
        "parameters": parameters,
        "batches": len(metrics),
        "changed after batch": changed,
        "changes after it had settled": sum(batch >= settled for batch in changed),
        "keys moved after that": sum(m["migrated_keys"] for m in metrics if m["batch"] > settled),
        "fullest ÷ average, last 50 batches": round(
            float(np.median([m["max_over_average"] for m in metrics[-50:]])), 3
        ),
    }
    return Result(found, (Table([{"": name, "value": value} for name, value in found.items()]),))
