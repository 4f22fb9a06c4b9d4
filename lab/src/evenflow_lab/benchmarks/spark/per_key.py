"""Python work for each key: how many rows a second, beside Spark's own ways to do it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pyarrow as pa

from evenflow_lab.benchmarks.outcome import Goal, Outcome, Report
from evenflow_lab.benchmarks.spark.feeding import Feed, finished, processed, seconds_of
from evenflow_lab.benchmarks.spark.smoothing import OUTPUT, STATE, in_pandas, per_key, processor
from evenflow_lab.benchmarks.spark.timing import in_turn, written

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

ROCKSDB = {
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
}


@dataclass(frozen=True)
class PerKeyWork:
    """An average that is updated value by value in Python, one call per key.

    Parameters:
        keys: how many there are, each in every batch.
        rows_a_key: in every batch.
        share: the part of the keys that Spark's own contestants get. They are timed a key, too, and
            have no more to remember: it only spares time.
        workers: tasks of each contestant.
        batches: micro-batches a round that count; one more comes first.
        rounds: how often each is run after a warm-up.
    """

    name: ClassVar[str] = "per_key"
    cores: ClassVar[int | None] = None

    keys: int = 50_000
    rows_a_key: int = 10
    share: float = 0.2
    workers: int = 4
    batches: int = 2
    rounds: int = 3

    @classmethod
    def quick(cls) -> PerKeyWork:
        return cls(keys=20_000, share=0.1, rounds=1)

    @classmethod
    def full(cls) -> PerKeyWork:
        return cls(share=0.4)

    def measure(self, spark: SparkSession, folder: str, report: Report) -> Outcome:
        """Time all four, in turn."""
        import evenflow as ef

        operator = ef.PerKey(per_key, STATE, columns=["value"])

        def ours(df: DataFrame) -> ef.BalancedDataFrame:
            return ef.keyed(df, "key").balance("key", partitions=self.workers).apply(operator)

        def start_ours(df: DataFrame, checkpoint: str) -> StreamingQuery:
            return processed(ours(df), checkpoint).spark_query

        def start_theirs(df: DataFrame, checkpoint: str) -> StreamingQuery:
            worked = df.groupBy("key").transformWithStateInPandas(
                processor(), OUTPUT, "Update", "None"
            )
            writer = worked.writeStream.format("noop").outputMode("update")
            writer = writer.option("checkpointLocation", checkpoint).trigger(availableNow=True)
            return writer.start()

        few = max(int(self.keys * self.share), 1)
        report("writing the data")
        tables = {}
        for keys in {few, self.keys}:
            spark.createDataFrame(self._rows(keys, 0)).repartition(self.workers).write.parquet(
                f"{folder}/{keys}"
            )
            tables[keys] = spark.read.parquet(f"{folder}/{keys}")
        grouped = tables[few].groupBy("key").applyInPandas(in_pandas, OUTPUT)
        answer = ours(tables[self.keys])
        contestants: dict[str, tuple[int, Callable[[], list[float]]]] = {
            "evenflow, batch": (self.keys, lambda: [written(answer)]),
            "applyInPandas": (few, lambda: [written(grouped)]),
            "evenflow, stream with state": (
                self.keys,
                self._streamed(spark, f"{folder}/ours", self.keys, start_ours),
            ),
            "transformWithStateInPandas": (
                few,
                self._streamed(spark, f"{folder}/theirs", few, start_theirs),
            ),
        }
        extra = {**ROCKSDB, "spark.sql.shuffle.partitions": str(self.workers)}
        with settings(spark, extra):
            runs = {name: run for name, (_, run) in contestants.items()}
            seconds = in_turn(runs, self.rounds, report)
        figures: list[dict[str, Any]] = []
        for name, (keys, _) in contestants.items():
            taken = median(seconds[name])
            figures.append(
                {
                    "contestant": name,
                    "keys": keys,
                    "rows": keys * self.rows_a_key,
                    "seconds": round(taken, 3),
                    "rows a second": round(keys * self.rows_a_key / taken),
                    "microseconds a key": round(taken / keys * 1e6, 1),
                }
            )
        rates = [figure["rows a second"] for figure in figures]
        return Outcome(
            f"{self.rows_a_key} rows a key and batch, {self.workers} tasks, an exponentially weighted "
            "average in plain Python, called once a key. Batch: from Parquet files, no state, output "
            "thrown away. Stream: file by file, every key with state from the batches before; a "
            "batch takes as long as Spark says, after one for the warm-up. Spark's own contestants "
            f"get {self.share:.0%} of the keys, with as many rows each, because they are slow; so "
            f"the rows a second can be compared. In turn, median of {self.rounds} rounds.",
            tuple(figures),
            (
                Goal("rows a second ÷ applyInPandas", rates[0] / rates[1], 10, at_least=True),
                Goal(
                    "rows a second ÷ transformWithStateInPandas",
                    rates[2] / rates[3],
                    10,
                    at_least=True,
                ),
            ),
        )

    def _streamed(
        self,
        spark: SparkSession,
        folder: str,
        keys: int,
        start: Callable[[DataFrame, str], StreamingQuery],
    ) -> Callable[[], list[float]]:
        feed = Feed(f"{folder}-in", sources=self.workers)
        turn = 0

        def run() -> list[float]:
            nonlocal turn
            turn += 1
            for batch in range(self.batches + 1):
                feed.add(self._rows(keys, 1 + turn * 100 + batch))
            batches = finished(start(feed.stream(spark), f"{folder}-checkpoint"))
            # The last may be one without data, of which Spark says so.
            taken = seconds_of([b for b in batches if b["sources"][0]["numInputRows"]])
            return taken[1:]  # the first has to open what the query before has closed

        return run

    def _rows(self, keys: int, seed: int) -> pa.Table:
        rng = np.random.default_rng(seed)
        key = rng.permutation(np.repeat(np.arange(keys), self.rows_a_key))
        return pa.table({"key": key, "value": rng.random(len(key))})


@contextmanager
def settings(spark: SparkSession, wanted: dict[str, str]) -> Iterator[None]:
    """These settings of a session, for a while."""
    before = {name: spark.conf.get(name, None) for name in wanted}
    for name, value in wanted.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name, old in before.items():
            if old is None:
                spark.conf.unset(name)
            else:
                spark.conf.set(name, old)
