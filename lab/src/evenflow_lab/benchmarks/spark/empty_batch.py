"""What a micro-batch costs before it has done anything, and whose cost it is."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, Any, ClassVar

import pyarrow as pa

from evenflow_lab.benchmarks.outcome import Goal, Outcome, Report
from evenflow_lab.benchmarks.spark.feeding import Feed, finished, processed, seconds_of
from evenflow_lab.benchmarks.spark.timing import in_turn, written

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

#: scheme → the batch of Spark alone that has the same shuffles and the same Python tasks: after each
#: shuffle, and before the first one where routing needs Python.
_LIKE = {
    "key": "+ Python after the shuffle",
    "d-choices": "+ Python before the first shuffle",
}
_MOST = 1.15  # times the batch of Spark alone
_STEPS = ("plan", "tasks", "sink", "commit")


@dataclass(frozen=True)
class EmptyBatch:
    """Micro-batches of one row: through Spark alone, with ever more in them, and through evenflow.

    Parameters:
        workers: tasks after a shuffle.
        batches: a round that count; one more comes first.
        rounds: how often each contestant is run after a warm-up.
    """

    name: ClassVar[str] = "empty_batch"
    cores: ClassVar[int | None] = None

    workers: int = 4
    batches: int = 5
    rounds: int = 3

    @classmethod
    def quick(cls) -> EmptyBatch:
        return cls(batches=3, rounds=1)

    @classmethod
    def full(cls) -> EmptyBatch:
        return cls(rounds=6)

    def measure(self, spark: SparkSession, folder: str, report: Report) -> Outcome:
        """All contestants, in turn."""
        of_spark: dict[str, Callable[[DataFrame], object]] = {
            "foreachBatch that does nothing": lambda df: None,
            "+ one job": written,
            "+ one shuffle": lambda df: written(df.repartition(self.workers, "key")),
            "+ Python after the shuffle": lambda df: written(self._through_python(df, 1)),
            "+ a second shuffle and Python": lambda df: written(self._through_python(df, 2)),
            "+ Python before the first shuffle": lambda df: written(
                self._through_python(df.mapInArrow(_same, df.schema), 2)
            ),
        }
        runs: dict[str, Callable[[], list[float]]] = {
            name: self._spark_alone(spark, f"{folder}/{i}", body)
            for i, (name, body) in enumerate(of_spark.items())
        }
        steps: dict[str, list[dict[str, float]]] = {scheme: [] for scheme in _LIKE}
        for scheme in _LIKE:
            runs[f"evenflow, {scheme}"] = self._ours(
                spark, f"{folder}/{scheme}", scheme, steps[scheme]
            )
        seconds = in_turn(runs, self.rounds, report)
        counted = self.batches * self.rounds
        figures: list[dict[str, Any]] = []
        before = 0.0
        for name, taken in seconds.items():
            middle = median(taken)
            is_ours = name.startswith("evenflow")
            figure: dict[str, Any] = {
                "batch": name,
                "seconds": round(middle, 3),
                "more than the line above": None if is_ours else round(middle - before, 3),
            }
            own = steps[name.removeprefix("evenflow, ")][-counted:] if is_ours else []
            for step in _STEPS:
                figure[step] = round(median(s[step] for s in own), 3) if own else None
            spent = sum(figure[step] for step in _STEPS) if own else None
            figure["Spark around it"] = None if spent is None else round(middle - spent, 3)
            figures.append(figure)
            before = middle
        goals = tuple(
            Goal(
                f"`{scheme}` ÷ a foreachBatch with the same shuffles and Python tasks",
                median(seconds[f"evenflow, {scheme}"]) / median(seconds[alone]),
                _MOST,
            )
            for scheme, alone in _LIKE.items()
        )
        return Outcome(
            f"Micro-batches of one row from a file, {self.workers} tasks after a shuffle, seconds "
            f"from trigger to end by Spark's clock, median of {counted}; contestants in turn. The "
            "first lines are Spark alone, each with more in it than the one before: their "
            "differences are what a job, a shuffle and Python cost. Of ours: reading the manifest "
            "and planning; the Spark job with all the work on state; the sink; the commit; and what "
            "Spark does around foreachBatch.",
            tuple(figures),
            goals,
        )

    def _through_python(self, df: DataFrame, times: int) -> DataFrame:
        for _ in range(times):
            df = df.repartition(self.workers, "key").mapInArrow(_same, df.schema)
        return df

    def _add(self, feed: Feed) -> None:
        for _ in range(self.batches + 1):
            feed.add(pa.table({"key": pa.array([1], pa.int64())}))

    def _spark_alone(
        self, spark: SparkSession, folder: str, body: Callable[[DataFrame], object]
    ) -> Callable[[], list[float]]:
        feed = Feed(f"{folder}-in")

        def each(df: DataFrame, batch: int) -> None:
            body(df)

        def run() -> list[float]:
            self._add(feed)
            writer = feed.stream(spark).writeStream.foreachBatch(each)
            writer = writer.option("checkpointLocation", f"{folder}-checkpoint")
            return seconds_of(finished(writer.trigger(availableNow=True).start()))[1:]

        return run

    def _ours(
        self, spark: SparkSession, folder: str, scheme: str, steps: list[dict[str, float]]
    ) -> Callable[[], list[float]]:
        import evenflow as ef

        feed = Feed(f"{folder}-in")

        def run() -> list[float]:
            self._add(feed)
            keyed = ef.keyed(feed.stream(spark), "key").balance(scheme, partitions=self.workers)
            query = processed(keyed.agg(n=ef.count()), f"{folder}-checkpoint")
            steps.extend(m["durations"] for m in query.metrics()[-self.batches :])
            return seconds_of(finished(query.spark_query))[1:]

        return run


def _same(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Rows as they are."""
    yield from batches
