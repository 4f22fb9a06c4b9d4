"""What balancing costs where there is nothing to balance."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from statistics import median
from typing import TYPE_CHECKING, ClassVar

import pyarrow as pa

from evenflow.operators import Aggregates, count, on_table, sum
from evenflow_lab.benchmarks.outcome import Goal, Outcome, Report
from evenflow_lab.benchmarks.spark.timing import in_turn, written

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

OPERATOR = Aggregates(n=count(), total=sum("value"))
_WARM_UP = 3
_KINDS = {"whole numbers": "bigint", "text": "string"}


@dataclass(frozen=True)
class Overhead:
    """Uniform keys and trivial work: our pipeline beside Spark's own shuffle with the same worker.

    Parameters:
        rows, keys: of the data: uniform keys, a double each.
        workers: tasks after the shuffle.
        rounds: how often each side is timed; the median counts.
    """

    name: ClassVar[str] = "overhead"
    cores: ClassVar[int | None] = None

    rows: int = 4_000_000
    keys: int = 200_000
    workers: int = 8
    rounds: int = 5

    @classmethod
    def quick(cls) -> Overhead:
        return cls(rows=400_000, keys=20_000, rounds=3)

    @classmethod
    def full(cls) -> Overhead:
        return cls(rows=10_000_000, keys=500_000)

    def measure(self, spark: SparkSession, folder: str, report: Report) -> Outcome:
        """Time both sides for keys of each kind."""
        import evenflow as ef

        figures, goals = [], []
        for kind, type_name in _KINDS.items():
            report(f"writing {self.rows:,} rows with keys that are {kind}")
            path = f"{folder}/{type_name}"
            # Multiplied by a prime, so that neighbours have keys far apart.
            number = f"id * 7919 % {self.keys}"
            key = number if type_name == "bigint" else f"concat('customer-', {number})"
            made = spark.range(0, self.rows, 1, self.workers)
            made.selectExpr(f"{key} AS key", "rand(1) AS value").write.parquet(path)
            df = spark.read.parquet(path)
            answer = ef.keyed(df, "key").balance("key", partitions=self.workers).apply(OPERATOR)
            plain = df.repartition(self.workers, "key").mapInArrow(same_work, answer.schema)
            seconds = in_turn(
                {
                    f"Spark alone, {kind}": partial(_times, plain),
                    f"evenflow, {kind}": partial(_times, answer),
                },
                self.rounds,
                report,
                _WARM_UP,
            )
            theirs, own = (median(taken) for taken in seconds.values())
            figures += [
                {
                    "keys": kind,
                    "pipeline": pipeline,
                    "seconds": round(taken, 3),
                    "million rows a second": round(self.rows / taken / 1e6, 2),
                }
                for pipeline, taken in (("repartition(n, key)", theirs), ("evenflow", own))
            ]
            goals.append(Goal(f"time ÷ Spark alone, keys that are {kind}", own / theirs, 1.15))
        return Outcome(
            f"{self.rows:,} rows from Parquet files, {self.keys:,} uniform keys, count and sum on "
            f"{self.workers} tasks, output thrown away. Spark alone: repartition({self.workers}, "
            "key) and one mapInArrow with the very same operator, called in the same way. Both in "
            f"turn, median of {self.rounds} rounds after {_WARM_UP} that do not count: Java compiles "
            "what it has run for some seconds.",
            tuple(figures),
            tuple(goals),
        )


def _times(df: DataFrame) -> list[float]:
    return [written(df)]


def same_work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """What one of our workers does, without routing, statistics and state."""
    held = list(batches)
    if held:
        answer = on_table(OPERATOR, pa.Table.from_batches(held), "key")
        yield from answer.combine_chunks().to_batches(max_chunksize=1 << 16)
