"""A batch join with hot keys, beside Spark's own with adaptive execution."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from statistics import median
from typing import TYPE_CHECKING, ClassVar

import pyarrow as pa

from evenflow_lab.benchmarks.outcome import Goal, Outcome, Report
from evenflow_lab.benchmarks.spark.timing import in_turn, written

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_EVEN = "no hot key"
_HOW = {"null keys": "left"}
# Spark splits a partition only from 256 MB on; these are small.
_ADAPTIVE = {
    "spark.sql.autoBroadcastJoinThreshold": "-1",
    "spark.sql.adaptive.enabled": "true",
    "spark.sql.adaptive.skewJoin.enabled": "true",
    "spark.sql.adaptive.skewJoin.skewedPartitionFactor": "1.5",
    "spark.sql.adaptive.skewJoin.skewedPartitionThresholdInBytes": "1KB",
    "spark.sql.adaptive.advisoryPartitionSizeInBytes": "16KB",
    "spark.sql.adaptive.coalescePartitions.enabled": "false",
}


@dataclass(frozen=True)
class Join:
    """Joins whose result takes its time: one key with 30 % of one side, of both, no key at all, and
    an aggregate below the join.

    Parameters:
        rows: of the left side.
        keys: of the right side, one row each.
        partitions: of the join, and as many slots.
        service: seconds that all rows of the result take together, shared evenly.
        rounds: how often each join is timed; the median counts.
    """

    name: ClassVar[str] = "join"
    cores: ClassVar[int | None] = 8

    rows: int = 40_000
    keys: int = 4_000
    partitions: int = 8
    service: float = 64.0
    rounds: int = 3

    @classmethod
    def quick(cls) -> Join:
        return cls(rows=8_000, keys=2_000, service=8.0, rounds=1)

    @classmethod
    def full(cls) -> Join:
        return cls(rows=400_000, keys=40_000, service=128.0)

    def measure(self, spark: SparkSession, folder: str, report: Report) -> Outcome:
        """Time Spark's join and ours for each kind of skew."""
        for setting, value in _ADAPTIVE.items():
            spark.conf.set(setting, value)
        spark.conf.set("spark.sql.shuffle.partitions", str(self.partitions))
        joins = {
            (case, whose): partial(make, *sides, _HOW.get(case, "inner"))
            for case, sides in self._cases(spark, folder).items()
            for whose, make in (("Spark", _by_spark), ("evenflow", self._balanced))
        }
        shares: dict[tuple[str, str], float] = {}
        totals: dict[tuple[str, str], int] = {}
        for name, join in joins.items():
            report(f"{name[0]}, {name[1]}: rows per task")
            shares[name], totals[name] = _fullest(join(), self.partitions)
        seconds = in_turn(
            {
                f"{case}, {whose}": partial(self._times, join, totals[case, whose])
                for (case, whose), join in joins.items()
            },
            self.rounds,
            report,
        )
        taken = {name: median(seconds[", ".join(name)]) for name in joins}
        figures = [
            {
                "join": case,
                "by": whose,
                "rows of the result": totals[case, whose],
                "fullest ÷ average": round(shares[case, whose], 2),
                "seconds": round(taken[case, whose], 2),
                "÷ without a hot key": round(taken[case, whose] / taken[_EVEN, whose], 2),
            }
            for case, whose in joins
        ]
        goals = [
            Goal(f"time ÷ the same without, {case}", taken[case, us] / taken[_EVEN, us], 1.3)
            for case, us in joins
            if us == "evenflow" and case != _EVEN
        ]
        return Outcome(
            f"{self.rows:,} rows joined with {self.keys:,} keys on {self.partitions} partitions and "
            f"slots; all rows of a result take {self.service:g} s together, so {self.service / 8:g} s "
            "if they are spread evenly. Hot: one key, or none at all, has 30 % of the left side; on "
            "both sides: of the right one, too. Spark: with adaptive execution, told to split from "
            "1 KB on. Fullest ÷ average: rows of the result per task. Seconds: the survey included; "
            f"each in turn, median of {self.rounds} rounds after one that does not count.",
            tuple(figures),
            tuple(goals),
        )

    def _cases(self, spark: SparkSession, folder: str) -> dict[str, tuple[DataFrame, DataFrame]]:
        """Name → both sides, read from files."""
        hot = "CASE WHEN id % 10 < 3 THEN {} ELSE id * 7919 % {} END"
        few = self.rows // 20

        def side(name: str, rows: int, key: str, value: str) -> DataFrame:
            path = f"{folder}/{name}"
            made = spark.range(0, rows, 1, 4).selectExpr(f"{key} AS key", f"id AS {value}")
            made.write.parquet(path)
            return spark.read.parquet(path)

        names = side("names", self.keys, "id", "name")
        skewed = side("skewed", self.rows, hot.format(5, self.keys), "event")
        repeated = side("repeated", self.rows // 200, hot.format(5, self.keys), "name")
        return {
            _EVEN: (side("even", self.rows, f"id * 7919 % {self.keys}", "event"), names),
            "one side": (skewed, names),
            "both sides": (side("few", few, hot.format(5, self.keys), "event"), repeated),
            "null keys": (side("nulls", self.rows, hot.format("NULL", self.keys), "event"), names),
            "an aggregate below": (
                skewed,
                names.groupBy("key").agg({"name": "max"}).toDF("key", "name"),
            ),
        }

    def _balanced(self, left: DataFrame, right: DataFrame, how: str) -> DataFrame:
        import evenflow as ef

        return ef.keyed(left, "key").balance(partitions=self.partitions).join(right, how=how)

    def _times(self, join: Callable[[], DataFrame], rows: int) -> list[float]:
        began = time.perf_counter()
        joined = join()
        served = joined.mapInArrow(_Serve(self.service / rows), joined.schema)
        planned = time.perf_counter() - began
        return [planned + written(served)]


@dataclass(frozen=True)
class _Serve:
    """Passes rows on, and sleeps so many seconds for each."""

    seconds: float

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            time.sleep(batch.num_rows * self.seconds)
            yield batch


def _by_spark(left: DataFrame, right: DataFrame, how: str) -> DataFrame:
    return left.join(right, "key", how)


def _fullest(df: DataFrame, partitions: int) -> tuple[float, int]:
    """The rows of the fullest task, as a multiple of a partition's share, and the rows of all tasks."""
    counted = df.mapInArrow(_count, "rows long").toArrow()
    rows = counted.column("rows").to_numpy()
    return float(rows.max() * partitions / rows.sum()), int(rows.sum())


def _count(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    import pyarrow as pa

    yield pa.record_batch({"rows": pa.array([sum(batch.num_rows for batch in batches)])})
