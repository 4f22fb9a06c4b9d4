"""Whether a batch takes longer because much is remembered already."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import pyarrow as pa

from evenflow.operators import Aggregates, count, mean
from evenflow_lab.benchmarks.outcome import Goal, Outcome, Report
from evenflow_lab.benchmarks.spark.feeding import Feed, finished, processed, seconds_of
from evenflow_lab.benchmarks.spark.timing import in_turn

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

OPERATOR = Aggregates(n=count(), average=mean("value"))


@dataclass(frozen=True)
class StateSize:
    """Small batches onto states of growing size.

    Parameters:
        keys: the sizes.
        rows: of a batch, for keys that have a state.
        workers: owners of the state.
        batches: a round that count; one more comes first.
        rounds: how often each size is run.
    """

    name: ClassVar[str] = "state_size"
    cores: ClassVar[int | None] = None

    keys: tuple[int, ...] = (10_000, 100_000, 1_000_000)
    rows: int = 1000
    workers: int = 4
    batches: int = 4
    rounds: int = 4

    @classmethod
    def quick(cls) -> StateSize:
        return cls(keys=(10_000, 100_000), rounds=1)

    @classmethod
    def full(cls) -> StateSize:
        return cls(keys=(10_000, 100_000, 1_000_000, 10_000_000))

    def measure(self, spark: SparkSession, folder: str, report: Report) -> Outcome:
        """All sizes, in turn."""
        runs = {f"{keys:,} keys": self._run(spark, f"{folder}/{keys}", keys) for keys in self.keys}
        seconds = in_turn(runs, self.rounds, report)
        medians = {name: median(taken) for name, taken in seconds.items()}
        first, *_, last = medians.values()
        figures = [
            {
                "state": name,
                "seconds a batch": round(taken, 3),
                "least": round(min(seconds[name]), 3),
                "most": round(max(seconds[name]), 3),
                "batches": len(seconds[name]),
                "÷ smallest state": round(taken / first, 2),
            }
            for name, taken in medians.items()
        ]
        return Outcome(
            f"Micro-batches of {self.rows:,} rows, of keys that have a state already, count and mean, "
            f"{self.workers} owners. The state was made by one large batch. Seconds from trigger to "
            "end by Spark's clock, median of the batches; sizes in turn.",
            tuple(figures),
            (Goal("time a batch, largest state ÷ smallest", last / first, 1.3),),
        )

    def _run(self, spark: SparkSession, folder: str, keys: int) -> Callable[[], list[float]]:
        import evenflow as ef

        feed, rng = Feed(f"{folder}-in"), np.random.default_rng(keys)
        turn = 0

        def run() -> list[float]:
            nonlocal turn
            if not turn:
                feed.add(_rows(rng.permutation(keys), rng))
            turn += 1
            for _ in range(self.batches + 1):
                feed.add(_rows(rng.integers(0, keys, self.rows), rng))
            keyed = ef.keyed(feed.stream(spark), "key").balance("key", partitions=self.workers)
            query = processed(keyed.apply(OPERATOR), f"{folder}-checkpoint")
            return seconds_of(finished(query.spark_query))[1:]

        return run


def _rows(keys: np.ndarray, rng: np.random.Generator) -> pa.Table:
    return pa.table({"key": keys, "value": rng.random(len(keys))})
