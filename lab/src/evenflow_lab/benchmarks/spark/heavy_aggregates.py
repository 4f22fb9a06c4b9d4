"""Aggregates of a batch DataFrame whose states are large, beside Spark's own."""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import partial
from statistics import median
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from evenflow_lab.benchmarks.outcome import Outcome, Report
from evenflow_lab.benchmarks.spark.timing import in_turn, written

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_SHUFFLES = "spark.sql.shuffle.partitions"


@dataclass(frozen=True)
class HeavyAggregates:
    """Lists, exact distinct counts and percentiles of skewed keys: is it worth leaving `groupBy`?

    Parameters:
        rows, keys, z: of the data: Zipf keys, a whole number each.
        partitions: tasks after the shuffle, on both sides.
        rounds: how often each side is timed; the median counts.
        seed: of the data.
    """

    name: ClassVar[str] = "heavy_aggregates"
    cores: ClassVar[int | None] = None

    rows: int = 1_000_000
    keys: int = 10_000
    z: float = 1.2
    partitions: int = 8
    rounds: int = 3
    seed: int = 1

    @classmethod
    def quick(cls) -> HeavyAggregates:
        return cls(rows=200_000, keys=2_000)

    @classmethod
    def full(cls) -> HeavyAggregates:
        return cls(rows=8_000_000, keys=100_000)

    def measure(self, spark: SparkSession, folder: str, report: Report) -> Outcome:
        """Time both sides, one aggregate after the other."""
        report(f"writing {self.rows:,} rows")
        random = np.random.default_rng(self.seed)
        shares = np.arange(1, self.keys + 1) ** -self.z
        keys = random.choice(self.keys, self.rows, p=shares / shares.sum())
        values = random.integers(0, 50_000, self.rows)
        for part, at in enumerate(np.array_split(np.arange(self.rows), self.partitions)):
            pq.write_table(
                pa.table({"key": keys[at], "value": values[at]}), f"{folder}/{part}.parquet"
            )
        df = spark.read.parquet(folder)
        before = str(spark.conf.get(_SHUFFLES))
        spark.conf.set(_SHUFFLES, str(self.partitions))
        try:
            figures = self._figures(df, report)
        finally:
            spark.conf.set(_SHUFFLES, before)
        return Outcome(
            f"{self.rows:,} rows, {self.keys:,} Zipf keys (z = {self.z}) on {self.partitions} "
            'partitions, output thrown away. evenflow with balance("auto"), its look at the keys '
            f"included. Both in turn, median of {self.rounds} rounds after one that does not count.",
            tuple(figures),
        )

    def _figures(self, df: DataFrame, report: Report) -> list[dict[str, Any]]:
        import pyspark.sql.functions as F

        import evenflow as ef

        pairs: dict[str, tuple[Any, Any]] = {
            "collect_list": (F.collect_list("value"), ef.collect_list("value")),
            "count_distinct": (F.count_distinct("value"), ef.count_distinct("value")),
            "percentile_approx": (
                F.percentile_approx("value", 0.5),
                ef.percentile_approx("value", 0.5),
            ),
        }
        figures = []
        for name, (theirs, ours) in pairs.items():

            def spark_alone(theirs: Any = theirs) -> list[float]:
                return [written(df.groupBy("key").agg(theirs.alias("result")))]

            def evenflow(ours: Any = ours) -> list[float]:
                keyed = ef.keyed(df, "key").balance("auto", partitions=self.partitions)
                return _timed(partial(keyed.agg, result=ours))

            taken = in_turn(
                {f"Spark alone, {name}": spark_alone, f"evenflow, {name}": evenflow},
                self.rounds,
                report,
            )
            plain, own = (median(seconds) for seconds in taken.values())
            figures.append(
                {
                    "aggregate": name,
                    "Spark alone, s": round(plain, 2),
                    "evenflow, s": round(own, 2),
                    "speed ÷ Spark's": round(plain / own, 2),
                }
            )
        return figures


def _timed(build: Any) -> list[float]:
    """Seconds to build a result, which may look at the keys, and to compute it."""
    began = time.perf_counter()
    written(build())
    return [time.perf_counter() - began]
