"""Keys that do not wander: `python -m evenflow_lab.benchmarks.stationary --json`.

A stream on Spark whose keys have the same frequencies all the time (Zipf, z = 0.85, 10,000 keys), under
a routing table that is planned anew whenever a worker has too much. Once it has settled, nothing should
move.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa

import evenflow as ef
from evenflow_lab.benchmarks.spark.feeding import Discard, Feed


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--batches", type=int, default=220)
    parser.add_argument("--rows", type=int, default=20_000, help="of a batch")
    parser.add_argument("--workers", type=int, default=15)
    parser.add_argument(
        "--settled", type=int, default=20, help="batches until it should be settled"
    )
    parser.add_argument("--theta", type=float, default=0.08)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    from evenflow.spark.session import local_session

    spark = local_session(f"local[{os.cpu_count()}]", preload=True)
    random = np.random.default_rng(options.seed)
    shares = np.arange(1, 10_001) ** -0.85
    keys = random.permutation(10_000)
    with tempfile.TemporaryDirectory(prefix="evenflow-stationary-") as folder:
        feed = Feed(f"{folder}/in")
        for _ in range(options.batches):
            drawn = random.choice(keys, options.rows, p=shares / shares.sum())
            feed.add(pa.table({"key": drawn}))
        query = (
            ef.keyed(feed.stream(spark), key="key")
            .balance("table", workers=options.workers)
            .replan("mixed", options.theta)
            .aggregate(n=ef.count())
            .start(Path(folder) / "checkpoint", Discard(), available_now=True)
        )
        query.wait()
        metrics = query.metrics()
    spark.stop()
    changed = [m["batch"] for m in metrics if (m["planning"] or {}).get("changed")]
    found = {
        "parameters": vars(options),
        "batches": len(metrics),
        "changed after batch": changed,
        "changes after it had settled": sum(batch >= options.settled for batch in changed),
        "keys moved after that": sum(
            m["migrated_keys"] for m in metrics if m["batch"] > options.settled
        ),
        "fullest ÷ average, last 50 batches": round(
            float(np.median([m["max_over_average"] for m in metrics[-50:]])), 3
        ),
    }
    if options.json:
        print(json.dumps(found, indent=2))
    else:
        for name, value in found.items():
            print(f"{name}: {value}")


if __name__ == "__main__":
    main()
