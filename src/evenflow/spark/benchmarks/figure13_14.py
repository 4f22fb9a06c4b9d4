"""Throughput and latency of six schemes on 80 workers: Figures 13 and 14 of "When two choices are
not enough", on Spark."""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from evenflow.spark.benchmarks.feeding import Discard, Feed, finished, seconds_of
from evenflow.spark.benchmarks.outcome import Goal, Outcome, Report
from evenflow.spark.benchmarks.serving import Serving
from evenflow.spark.benchmarks.timing import in_turn

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SCHEMES = ("key", "partial-key", "shuffle", "d-choices", "w-choices", "random-choices")
_CHOICES = ("d-choices", "w-choices")
_GOALS = {"shuffle": 0.9, "key": 2.3, "partial-key": 1.5}
_KEYS = 10_000
_SECONDS = 0.001


@dataclass(frozen=True)
class Figure13And14:
    """A saturated stream of Zipf keys, one millisecond of service a message.

    Parameters:
        zipf: the exponents.
        workers: tasks, all of which sleep at once.
        messages: of one micro-batch, for each worker on average.
        sources: tasks that route.
        batches: micro-batches a round that count; one more comes first.
        rounds: how often each scheme is run after a warm-up.
    """

    name: ClassVar[str] = "figure13_14"
    cores: ClassVar[int | None] = 80

    zipf: tuple[float, ...] = (1.4, 1.7, 2.0)
    workers: int = 80
    messages: int = 150
    sources: int = 8
    batches: int = 2
    rounds: int = 2

    @classmethod
    def quick(cls) -> Figure13And14:
        return cls(messages=50, batches=1, rounds=1)

    @classmethod
    def full(cls) -> Figure13And14:
        return cls(messages=250)

    def measure(self, spark: SparkSession, folder: str, report: Report) -> Outcome:
        """All schemes, in turn, for every exponent."""
        figures: list[dict[str, Any]] = []
        goals: list[Goal] = []
        for z in self.zipf:
            runs = {
                scheme: _Run(self, spark, f"{folder}/{z}-{scheme}", scheme, z) for scheme in SCHEMES
            }
            turns: dict[str, Callable[[], list[float]]] = {**runs}
            in_turn(turns, self.rounds, partial(_tell, report, z))
            rates = {scheme: run.throughput() for scheme, run in runs.items()}
            figures += [
                {"z": z, "scheme": scheme, "messages a second": round(rates[scheme]), **run.told()}
                for scheme, run in runs.items()
            ]
            goals += [
                Goal(
                    f"z = {z}: throughput of {one} ÷ {other}",
                    rates[one] / rates[other],
                    least,
                    True,
                )
                for one in _CHOICES
                for other, least in _GOALS.items()
            ]
        per_batch = self.messages * self.workers
        counted = per_batch * self.batches * self.rounds
        return Outcome(
            f"Zipf keys, {_KEYS:,} of them, on {self.workers} workers from {self.sources} sources; a "
            f"worker sleeps 1 ms for every message. Micro-batches of {per_batch:,} messages, by the "
            "streaming engine with state; the hot keys that a batch has shown are known to the routers "
            f"of the next. {counted:,} messages count for each scheme, not the paper's 2,000,000. "
            "Throughput: messages of a batch over its time by Spark's clock, Spark's own costs "
            "included, median of the batches. Latency: from the beginning of the batch, when all its "
            "messages are there, until a message was served; average: that of the worker whose "
            "average is the largest, as in the paper; percentiles: of all messages. Schemes in turn, "
            f"{self.rounds} rounds after a warm-up.",
            tuple(figures),
            tuple(goals),
        )


def _tell(report: Report, z: float, what: str) -> None:
    report(f"z = {z}, {what}")


class _Run:
    """One scheme on one stream: called once a round."""

    def __init__(
        self, sizes: Figure13And14, spark: SparkSession, folder: str, scheme: str, z: float
    ) -> None:
        self._sizes, self._spark, self._folder = sizes, spark, folder
        self._scheme, self._z = scheme, z
        self._feed = Feed(f"{folder}/in", sizes.sources)
        self._log = Path(folder) / "log"
        self._log.mkdir()
        self._turn = -1
        self._seconds: list[float] = []
        self._latencies: list[npt.NDArray[np.float64]] = []  # of a worker in a batch
        self._metrics: list[dict[str, Any]] = []

    def __call__(self) -> list[float]:
        import evenflow as ef

        self._turn += 1
        sizes = self._sizes
        for batch in range(sizes.batches + 1):
            rng = np.random.default_rng([self._turn, batch])  # the same for every scheme
            keys = zipf_keys(self._z, sizes.messages * sizes.workers, rng)
            self._feed.add(pa.table({"key": keys}))
        for file in self._log.glob("*.json"):
            file.unlink()
        query = (
            ef.keyed(self._feed.stream(self._spark), key="key")
            .balance(self._scheme, workers=sizes.workers)
            .apply(Serving(_SECONDS, str(self._log)))
            .start(f"{self._folder}/checkpoint", Discard(), available_now=True)
        )
        query.wait()
        batches = finished(query.spark_query)
        seconds = seconds_of(batches)
        if self._turn:
            self._seconds += seconds[1:]
            self._latencies += _latencies(self._log, batches)
            self._metrics += query.metrics()[-sizes.batches :]
        return seconds[1:]

    def throughput(self) -> float:
        """Messages a second."""
        return self._sizes.messages * self._sizes.workers / median(self._seconds)

    def told(self) -> dict[str, Any]:
        """The other figures of the scheme."""
        every = np.concatenate(self._latencies) * 1000
        p50, p95, p99 = np.percentile(every, [50, 95, 99])
        return {
            "latency ms, average": round(max(float(one.mean()) for one in self._latencies) * 1000),
            "p50": round(float(p50)),
            "p95": round(float(p95)),
            "p99": round(float(p99)),
            "batch seconds": round(median(self._seconds), 3),
            "fullest ÷ average": round(median(m["max_over_average"] for m in self._metrics), 2),
            "replication": round(median(m["replication"] for m in self._metrics), 2),
        }


def zipf_keys(z: float, n: int, rng: np.random.Generator) -> npt.NDArray[np.int64]:
    """n keys, 0 … 9999, the k-th of which has a share in proportion to (k + 1)⁻ᶻ."""
    shares = np.cumsum(np.arange(1, _KEYS + 1, dtype=np.float64) ** -z)
    return np.searchsorted(shares / shares[-1], rng.random(n), "right")


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
