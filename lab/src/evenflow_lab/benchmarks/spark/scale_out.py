"""One more worker for a running query: Figure 15 of "Parallel stream processing against workload
skewness and variance", on Spark."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from evenflow.model import InputError
from evenflow.state.checkpoint import Checkpoint
from evenflow.state.journal import request_partitions
from evenflow_lab.benchmarks.outcome import Outcome, Report
from evenflow_lab.benchmarks.spark.feeding import Feed, finished, processed, seconds_of
from evenflow_lab.benchmarks.spark.fluctuation import Stream
from evenflow_lab.benchmarks.spark.serving import Serving

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CONTESTANTS = {
    "mixed": ("table", "mixed"),
    "readj": ("table", "readj"),
    "partial-key": ("partial-key", None),
}


@dataclass(frozen=True)
class ScaleOut:
    """A saturated stream whose keys do not change; half-way a worker more.

    Parameters:
        theta: θmax.
        keys: so many that planning takes time; the paper's words are 180,000.
        workers: before.
        messages: of one micro-batch, for each worker on average.
        service: seconds that a worker sleeps for every message.
        before, after: micro-batches with the old and with the new number of workers.
        stream: (f, workers, n) → the keys by rank in n intervals, and the ranks' probabilities.
    """

    name: ClassVar[str] = "scale_out"
    cores: ClassVar[int | None] = 16

    theta: float = 0.1
    keys: int = 180_000
    workers: int = 15
    messages: int = 4000
    service: float = 0.0005
    sources: int = 4
    before: int = 5
    after: int = 7
    stream: Stream | None = None

    @classmethod
    def quick(cls) -> ScaleOut:
        return cls(messages=100, before=2, after=2)

    @classmethod
    def full(cls) -> ScaleOut:
        return cls(before=10, after=15)

    def measure(self, spark: SparkSession, folder: str, report: Report) -> Outcome:
        """Each contestant, batch by batch."""
        figures = []
        for name, (scheme, planner) in CONTESTANTS.items():
            report(f"{name}: {self.before + self.after + 1} micro-batches")
            figures += self._run(spark, f"{folder}/{name}", name, scheme, planner)
        return Outcome(
            f"Zipf keys (z = 0.85, {self.keys:,} of them), {self.service * 1000:g} ms of service a "
            f"message, micro-batches of {self.messages * self.workers:,} messages. After batch "
            f"{self.before} the running query is given {self.workers + 1} workers instead of "
            f"{self.workers}; θmax = {self.theta:g}. One row per batch; the first batch of the query "
            "does not count. Seconds: of the batch, with the planning after it. Moved: keys and bytes "
            "of state that came to a new owner in that batch.",
            tuple(figures),
        )

    def _run(
        self, spark: SparkSession, folder: str, name: str, scheme: str, planner: str | None
    ) -> list[dict[str, Any]]:
        import evenflow as ef

        feed, log = Feed(f"{folder}/in", self.sources), Path(folder) / "log"
        log.mkdir()
        for batch in range(self.before + self.after + 1):
            feed.add(pa.table({"key": self._keys(batch)}))
        checkpoint = Path(folder) / "checkpoint"

        def scaled(metrics: Mapping[str, Any]) -> None:
            if metrics["batch"] == self.before:
                storage = Checkpoint.open(checkpoint).storage
                request_partitions(storage, self.workers + 1, self.workers)

        keyed = ef.keyed(feed.stream(spark), "key").balance(scheme, partitions=self.workers)
        keyed = keyed if planner is None else keyed.replan(planner, self.theta)
        query = processed(keyed.apply(Serving(self.service, str(log))), checkpoint, on_batch=scaled)
        seconds = seconds_of(finished(query.spark_query))
        batches = zip(seconds[1:], query.metrics()[1:], strict=True)
        return [
            {
                "scheme": name,
                "batch": metrics["batch"],
                "workers": len(metrics["partitions"]),
                "seconds": round(taken, 3),
                "messages a second": round(metrics["rows"] / taken),
                "fullest ÷ average": round(metrics["max_over_average"], 2),
                "keys moved": metrics["migrated_keys"],
                "bytes moved": metrics["migrated_bytes"],
            }
            for taken, metrics in batches
        ]

    def _keys(self, batch: int) -> npt.NDArray[np.int64]:
        if self.stream is None:
            raise InputError("the measurement scale_out needs a stream; use `evenflow bench spark`")
        (keys,), probabilities = self.stream(0.0, self.workers, 1, keys=self.keys)
        shares = np.cumsum(probabilities)
        random = np.random.default_rng(batch).random(self.messages * self.workers)
        return keys[np.searchsorted(shares / shares[-1], random, "right")]
