"""`partitions="auto"` on a load that doubles and halves: does it keep up, and does it keep still?

A streaming query on Spark reads files that arrive four times a second, with rows whose work takes 10 ms
each; workers sleep for that time, so that a few cores can stand in for many. The load is that of the
first phase, twice it, four times it, twice it and once it again. Lag is how long the oldest row of a
batch had waited when the batch was committed. With --picture, load, partitions and lag are drawn over
time.
"""

from __future__ import annotations

import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pyarrow as pa

import evenflow as ef
from evenflow.operators import Aggregates
from evenflow.operators.service_time import ServiceTime
from evenflow_lab.benchmarks.outcome import Goal, Progress, Result, Table, say_nothing
from evenflow_lab.benchmarks.spark.feeding import Feed

TIMES = (1, 2, 4, 2, 1)  #: the load of each phase, in that of the first
_SERVICE, _EVERY = 0.01, 0.25  # seconds of a row, and between files
_LONGEST_LAG = 30.0  # seconds


def run(
    seconds: Annotated[float, "Of each of the five phases."] = 40.0,
    rate: Annotated[int, "Rows per second in the first phase."] = 200,
    most: Annotated[int, "The largest number of partitions, and of Spark's threads."] = 16,
    seed: Annotated[int, "Of the keys."] = 1,
    picture: Annotated[str, "Where to draw it, as PNG or SVG; nowhere if empty."] = "",
    progress: Progress = say_nothing,
) -> Result:
    progress("starting Spark", 0, None)
    from evenflow.spark.session import local_session

    spark = local_session(f"local[{most}]", "evenflow bench scaling", preload=True)
    try:
        with tempfile.TemporaryDirectory(prefix="evenflow-scaling-") as folder:
            feed = Feed(f"{folder}/in")
            feed.add(pa.table({"key": np.arange(rate)}))
            keyed = ef.keyed(spark.readStream.schema("key bigint").parquet(f"{folder}/in"), "key")
            keyed = keyed.balance(
                "d-choices", partitions=f"auto:most={most},patience=10", seed=seed
            )
            result = keyed.apply(ServiceTime(Aggregates(n=ef.count()), _SERVICE))
            writer = result.writeStream.format("noop").queryName("scaling")
            query = writer.option("checkpointLocation", f"{folder}/checkpoint").start()
            query.processAllAvailable()  # Python is started, and Java's classes are loaded
            feeding = _Feeding(feed, rate, seconds, seed)
            feeding.start()
            while feeding.is_alive():
                feeding.join(1.0)
                done = query.metrics()
                if done:
                    progress(f"{done[-1]['planned_partitions']} partitions", feeding.files, None)
            query.processAllAvailable()
            query.stop()
            points = points_of(query.metrics(), feeding.began)
    finally:
        spark.stop()
    if picture:
        from evenflow_lab.report.scaling_picture import draw_scaling

        offered = [(i * seconds, rate * times) for i, times in enumerate(TIMES)]
        draw_scaling(points, [*offered, (len(TIMES) * seconds, rate * TIMES[-1])], Path(picture))
    return _result(points, feeding.rows, seconds)


class _Feeding(threading.Thread):
    """Adds the files of all phases, each when it is due."""

    def __init__(self, feed: Feed, rate: int, seconds: float, seed: int) -> None:
        super().__init__(daemon=True)
        self.rows, self.files, self.began = 0, 0, time.time()
        self._feed, self._rate, self._seconds = feed, rate, seconds
        self._random = np.random.default_rng(seed)

    def run(self) -> None:
        self.began = began = time.time()
        while (at := self.files * _EVERY) < len(TIMES) * self._seconds:
            time.sleep(max(0.0, began + at - time.time()))
            rows = round(self._rate * TIMES[int(at / self._seconds)] * _EVERY)
            self._feed.add(pa.table({"key": self._random.zipf(1.5, rows) % 1000}))
            self.rows, self.files = self.rows + rows, self.files + 1


def points_of(metrics: Sequence[Mapping[str, Any]], began: float) -> list[dict[str, Any]]:
    """What the picture needs of each batch since the feeding began, and its times since then."""
    return [
        {
            "seconds": now["began"] - began,
            "partitions": now["planned_partitions"],
            "arriving": (now["scaling"]["arriving"] or 0.0),
            "load": now["scaling"]["load"],
            "lag": now["began"] + sum(now["durations"].values()) - before["began"],
            "rows": now["rows"],
            "reason": now["scaling"]["reason"],
        }
        for before, now in pairwise(metrics)
        if before["began"] >= began
    ]


def _result(points: Sequence[Mapping[str, Any]], rows: int, seconds: float) -> Result:
    sizes = [point["partitions"] for point in points]
    steps = [b > a for a, b in pairwise(sizes) if a != b]
    turns = sum(a != b for a, b in pairwise(steps))
    table = []
    for phase, times in enumerate(TIMES):
        here = [p for p in points if phase * seconds <= p["seconds"] < (phase + 1) * seconds]
        ending = [p["partitions"] for p in here if p["seconds"] >= (phase + 0.75) * seconds]
        table.append(
            {
                "phase": phase + 1,
                "load": f"{times} ×",
                "batches": len(here),
                "partitions at the end": ending[-1] if ending else None,
                "median lag, s": round(float(np.median([p["lag"] for p in here])), 1),
                "longest lag, s": round(max(p["lag"] for p in here), 1),
            }
        )
    longest = max(point["lag"] for point in points)
    goals = (
        Goal("longest lag, seconds", longest, _LONGEST_LAG),
        # Up while the load grows, then down: what is more is oscillation. The beginning may add one.
        Goal("turns of direction", float(turns), 2.0),
    )
    answer = {
        "rows": rows,
        "phases": table,
        "changes": len(steps),
        "points": list(points),
        "goals": [goal.to_dict() for goal in goals],
    }
    return Result(answer, (Table(table),), (), goals)
