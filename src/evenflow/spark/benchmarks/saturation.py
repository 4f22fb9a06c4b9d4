"""A saturated stream: every message waits for a worker, and a worker takes its time for each."""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from evenflow.spark.benchmarks.feeding import Discard, Feed, finished, seconds_of
from evenflow.spark.benchmarks.serving import Serving

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from evenflow.spark.keyed import Keyed

Keys = Callable[[int, int], npt.NDArray[Any]]  #: (turn, batch) → the keys of its messages


class Sizes(NamedTuple):
    """How large a run is."""

    workers: int
    sources: int  #: tasks that route
    batches: int  #: micro-batches a turn, the first of which does not count
    seconds: float = 0.001  #: of service, a message


class Saturated:
    """One way to balance on one stream: called once a turn; the first turn does not count.

    Parameters:
        spark: the session.
        folder: a directory of its own, which is made.
        balanced: gives a keyed stream its scheme.
        keys: the messages.
        sizes: how large a turn is.
    """

    def __init__(
        self,
        spark: SparkSession,
        folder: str,
        balanced: Callable[[Keyed], Keyed],
        keys: Keys,
        sizes: Sizes,
    ) -> None:
        self._spark, self._folder, self._sizes = spark, folder, sizes
        self._balanced, self._keys = balanced, keys
        self._feed = Feed(f"{folder}/in", sizes.sources)
        self._log = Path(folder) / "log"
        self._log.mkdir()
        self._turn = -1
        self._messages: list[int] = []
        self.seconds: list[float] = []  #: of each batch that counts
        self._latencies: list[npt.NDArray[np.float64]] = []  # of a worker in a batch
        self.metrics: list[dict[str, Any]] = []  #: of each batch that counts

    def __call__(self) -> list[float]:
        import evenflow as ef

        self._turn += 1
        sizes, messages = self._sizes, []
        for batch in range(sizes.batches):
            keys = self._keys(self._turn, batch)
            messages.append(len(keys))
            self._feed.add(pa.table({"key": keys}))
        for file in self._log.glob("*.json"):
            file.unlink()
        keyed = ef.keyed(self._feed.stream(self._spark), key="key")
        query = (
            self._balanced(keyed)
            .apply(Serving(sizes.seconds, str(self._log)))
            .start(f"{self._folder}/checkpoint", Discard(), available_now=True)
        )
        query.wait()
        batches = finished(query.spark_query)
        seconds = seconds_of(batches)
        if self._turn:
            self.seconds += seconds[1:]
            self._messages += messages[1:]
            self._latencies += _latencies(self._log, batches)
            self.metrics += query.metrics()[1 - sizes.batches :]
        return seconds[1:]

    def throughput(self) -> float:
        """Messages a second in the median batch."""
        rates = [n / s for n, s in zip(self._messages, self.seconds, strict=True)]
        return median(rates)

    def total_throughput(self) -> float:
        """Messages a second over all batches."""
        return sum(self._messages) / sum(self.seconds)

    def told(self) -> dict[str, Any]:
        """The other figures of the scheme."""
        every = np.concatenate(self._latencies) * 1000
        p50, p95, p99 = np.percentile(every, [50, 95, 99])
        return {
            "latency ms, average": round(max(float(one.mean()) for one in self._latencies) * 1000),
            "p50": round(float(p50)),
            "p95": round(float(p95)),
            "p99": round(float(p99)),
            "batch seconds": round(median(self.seconds), 3),
            "fullest ÷ average": round(median(m["max_over_average"] for m in self.metrics), 2),
            "replication": round(median(m["replication"] for m in self.metrics), 2),
        }


def _latencies(log: Path, batches: Sequence[dict[str, Any]]) -> list[npt.NDArray[np.float64]]:
    """Seconds until each message was served, an array a worker and batch; not of the first batch."""
    starts = [datetime.fromisoformat(batch["timestamp"]).timestamp() for batch in batches]
    found = []
    for file in sorted(log.glob("*.json")):
        served = json.loads(file.read_text())
        batch = bisect_right(starts, served["began"]) - 1
        if batch > 0:
            spent = served["ended"] - served["began"]
            done = spent * np.arange(1, served["rows"] + 1) / served["rows"]
            found.append(served["began"] - starts[batch] + done)
    return found
