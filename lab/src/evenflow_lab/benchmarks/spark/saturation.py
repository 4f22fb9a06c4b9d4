"""A saturated stream: every message waits for a worker, and a worker takes its time for each."""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Callable, Sequence
from datetime import datetime
from functools import partial
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from evenflow_lab.benchmarks.spark.feeding import Feed, finished, processed, seconds_of
from evenflow_lab.benchmarks.spark.serving import Serving

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from evenflow.spark.keyed import Keyed
    from evenflow.spark.result import BalancedDataFrame

Keys = Callable[[int, int], npt.NDArray[Any]]  #: (turn, batch) → the keys of its messages
Work = Callable[["Keyed", str], "BalancedDataFrame"]  #: (stream, directory of the log) → its result


class Sizes(NamedTuple):
    """How large a run is."""

    workers: int
    sources: int  #: tasks that route
    batches: int  #: micro-batches a turn
    warm_turns: int = 1  #: turns that do not count
    warm_batches: int = 1  #: micro-batches of a turn that do not count


def served(seconds: float, keyed: Keyed, log: str) -> BalancedDataFrame:
    """So many seconds for every message."""
    return keyed.apply(Serving(seconds, log))


class Saturated:
    """One way to balance on one stream: called once a turn.

    Parameters:
        spark: the session.
        folder: a directory of its own, which is made.
        balanced: gives a keyed stream its scheme.
        keys: of the messages; those of a turn's batch b have event times in minute b of the turn.
        sizes: how large a turn is.
        work: what is done with the messages, a millisecond for each if not given; it writes files of
            `Serving`'s kind into the log.
    """

    def __init__(
        self,
        spark: SparkSession,
        folder: str,
        balanced: Callable[[Keyed], Keyed],
        keys: Keys,
        sizes: Sizes,
        work: Work | None = None,
    ) -> None:
        self._spark, self._folder, self._sizes = spark, folder, sizes
        self._balanced, self._keys, self._work = balanced, keys, work or partial(served, 0.001)
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
            self._feed.add(pa.table({"key": keys, "at": self._moments(batch, len(keys))}))
        for file in self._log.glob("*.json"):
            file.unlink()
        keyed = self._balanced(ef.keyed(self._feed.stream(self._spark), "key"))
        query = processed(self._work(keyed, str(self._log)), f"{self._folder}/checkpoint")
        batches = finished(query.spark_query)
        seconds = seconds_of(batches)
        warm = sizes.warm_batches
        if self._turn >= sizes.warm_turns:
            self.seconds += seconds[warm:]
            self._messages += messages[warm:]
            self._latencies += _latencies(self._log, batches, warm)
            self.metrics += query.metrics()[warm - sizes.batches :]
        return seconds[warm:]

    def _moments(self, batch: int, n: int) -> pa.Array:
        """Event times, evenly spread over the batch's minute."""
        minute = 60_000_000
        begin = (self._turn * self._sizes.batches + batch) * minute
        return pa.array(begin + np.arange(n) * minute // max(n, 1)).cast(pa.timestamp("us", "UTC"))

    def throughput(self) -> float:
        """Messages a second in the median batch."""
        rates = [n / s for n, s in zip(self._messages, self.seconds, strict=True)]
        return median(rates)

    def total_throughput(self) -> float:
        """Messages a second over all batches."""
        return sum(self._messages) / sum(self.seconds)

    def figures(self) -> dict[str, Any]:
        """The other figures of the scheme."""
        return {
            **latency_figures(self._latencies),
            "batch seconds": round(median(self.seconds), 3),
            "fullest ÷ average": round(median(m["max_over_average"] for m in self.metrics), 2),
            "replication": round(median(m["replication"] for m in self.metrics), 2),
        }


def latency_figures(latencies: Sequence[npt.NDArray[np.float64]]) -> dict[str, int]:
    """The latency of the messages, in ms: each counts once, however many a worker had in a batch.

    Parameters:
        latencies: seconds, an array per worker and batch.

    Example:
        >>> few, many = np.array([1.0]), np.full(9, 2.0)
        >>> latency_figures([few, many])["latency ms, mean"]
        1900
    """
    every = np.concatenate(latencies) * 1000
    p50, p95, p99 = np.percentile(every, [50, 95, 99])
    return {
        "latency ms, mean": round(float(every.mean())),
        "p50": round(float(p50)),
        "p95": round(float(p95)),
        "p99": round(float(p99)),
    }


def _latencies(
    log: Path, batches: Sequence[dict[str, Any]], warm: int
) -> list[npt.NDArray[np.float64]]:
    """Seconds until each message was served, an array a worker and batch; not of the first `warm`."""
    starts = [datetime.fromisoformat(batch["timestamp"]).timestamp() for batch in batches]
    found = []
    for file in sorted(log.glob("*.json")):
        served = json.loads(file.read_text())
        batch = bisect_right(starts, served["began"]) - 1
        if batch >= warm:
            spent = served["ended"] - served["began"]
            done = spent * np.arange(1, served["rows"] + 1) / served["rows"]
            found.append(served["began"] - starts[batch] + done)
    return found
