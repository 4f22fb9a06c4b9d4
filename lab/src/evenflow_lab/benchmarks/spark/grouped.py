"""A function per group: how long it takes, beside Spark's own ways to call one."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from statistics import median
from time import perf_counter
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from evenflow_lab.benchmarks.outcome import Goal, Outcome, Report
from evenflow_lab.benchmarks.soak.samples import cpu_use, descendants
from evenflow_lab.benchmarks.spark.per_key import ROCKSDB, settings
from evenflow_lab.benchmarks.spark.timing import in_turn

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

OUTPUT = "key bigint, n bigint, total double"
OURS = ("evenflow applyInPandas", "evenflow applyInArrow")
SPARKS = ("applyInPandas", "applyInArrow")
STATEFUL = ("transformWithStateInPandas", "transformWithState")
LEAST = "the function alone, on sorted rows"


def in_pandas(key: tuple[Any, ...], rows: Any) -> Any:
    """Rows and total of a group, in pandas."""
    import pandas as pd

    return pd.DataFrame({"key": [key[0]], "n": [len(rows)], "total": [rows["value"].sum()]})


def in_arrow(key: tuple[Any, ...], rows: pa.Table) -> pa.Table:
    """The same in Arrow."""
    total = pc.sum(rows.column("value")).as_py()
    return pa.table({"key": [key[0].as_py()], "n": [rows.num_rows], "total": [total]})


def on_sorted_rows(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """`in_arrow` of each group, with nothing around it: the least that a function per group can take.
    It looks for no nulls, checks no result, and knows that the key is a whole number.
    """
    held = list(batches)
    if not held:
        return
    rows = pa.Table.from_batches(held).combine_chunks()
    keys = rows.column("key").to_numpy()
    starts = np.flatnonzero(np.diff(keys, prepend=keys[:1] - 1)).tolist()
    ends = [*starts[1:], len(keys)]
    results = [
        in_arrow((pa.scalar(keys[start]),), rows.slice(start, end - start))
        for start, end in zip(starts, ends, strict=True)
    ]
    yield from pa.concat_tables(results).combine_chunks().to_batches()


def processor(pandas: bool) -> Any:
    """The same as a stateful processor, which is given an iterator."""
    from pyspark.sql import Row
    from pyspark.sql.streaming.stateful_processor import StatefulProcessor

    class Totals(StatefulProcessor):  # type: ignore[misc]
        def init(self, handle: Any) -> None:
            pass

        def handleInputRows(self, key: Any, rows: Iterator[Any], timers: Any) -> Iterator[Any]:
            n, total = 0, 0.0
            for part in rows:
                n += len(part) if pandas else 1
                total += part["value"].sum() if pandas else part.value
            if not pandas:
                yield Row(key=key[0], n=n, total=total)
                return
            import pandas as pd

            yield pd.DataFrame({"key": [key[0]], "n": [n], "total": [total]})

        def close(self) -> None:
            pass

    return Totals()


@dataclass(frozen=True)
class Grouped:
    """Rows and total per group, under `applyInPandas` and `applyInArrow` of both, Spark's two stateful
    operators on the same batch DataFrame, and the bare function on rows that Spark has sorted: what
    shuffle, sort and function take, nobody can do without.

    Parameters:
        shapes: numbers of keys and of rows per key, on average.
        share: the part of the rows that the stateful operators get; their time is counted per row.
        workers: tasks of each contestant.
        rounds: how often each is run after a warm-up.
    """

    name: ClassVar[str] = "grouped"
    cores: ClassVar[int | None] = None

    shapes: tuple[tuple[int, int], ...] = ((50_000, 10), (500, 1000))
    share: float = 0.2
    workers: int = 4
    rounds: int = 3

    @classmethod
    def quick(cls) -> Grouped:
        return cls(shapes=((5_000, 10), (50, 1000)), rounds=1)

    @classmethod
    def full(cls) -> Grouped:
        return cls(share=1.0, rounds=5)

    def measure(self, spark: SparkSession, folder: str, report: Report) -> Outcome:
        """Time all seven on every shape, uniform and skewed, in turn."""
        figures: list[dict[str, Any]] = []
        goals: list[Goal] = []
        extra = {**ROCKSDB, "spark.sql.shuffle.partitions": str(self.workers)}
        with settings(spark, extra):
            for keys, rows in self.shapes:
                for kind in ("uniform", "skewed"):
                    what = f"{keys} × {rows}, {kind}"
                    place = f"{folder}/{keys}-{kind}"
                    taken, cpu = self._timed(spark, place, keys, rows, kind, report)
                    fastest = min(taken[name] for name in SPARKS)
                    for name, seconds in taken.items():
                        figures.append(
                            {
                                "groups": what,
                                "contestant": name,
                                "seconds": round(seconds, 3),
                                "CPU seconds": round(cpu[name], 2),
                                "microseconds per group": round(seconds / keys * 1e6, 1),
                                "times as fast as Spark's faster": round(fastest / seconds, 2),
                            }
                        )
                    ratio = fastest / min(taken[name] for name in OURS)
                    least = 5.0 if rows < 100 else 1.0
                    goals.append(Goal(f"{what}: times as fast", ratio, least, at_least=True))
        return Outcome(
            f"Number of rows and a sum per group, {self.workers} tasks, from Parquet files, with the "
            "look at the keys that evenflow takes first. All contestants return the same rows, which "
            f"is checked. {LEAST[0].upper()}{LEAST[1:]}: in Arrow, without any checks or conversions. "
            "Skewed: the size of a group is inverse to its rank. The stateful operators "
            f"get {self.share:.0%} of the keys; their seconds are scaled up. CPU seconds: of all "
            f"processes together. In turn, medians of {self.rounds} rounds.",
            tuple(figures),
            tuple(goals),
        )

    def _timed(
        self, spark: SparkSession, folder: str, keys: int, rows: int, kind: str, report: Report
    ) -> tuple[dict[str, float], dict[str, float]]:
        """The seconds of each contestant, and its CPU seconds."""
        import evenflow as ef

        key = group_of_rows(keys, rows, kind)
        value = np.random.default_rng(1).random(len(key))
        made = spark.createDataFrame(pa.table({"key": key, "value": value}))
        made.repartition(self.workers).write.parquet(folder)
        df = spark.read.parquet(folder)
        some = df.where(f"key < {max(1, int(keys * self.share))}")
        ours = ef.keyed(df, "key").balance(partitions=self.workers)
        theirs = df.groupBy("key")
        few = some.groupBy("key")
        update = ("Update", "None")
        runs: dict[str, Callable[[], DataFrame]] = {
            OURS[0]: lambda: ours.applyInPandas(in_pandas, OUTPUT),
            OURS[1]: lambda: ours.applyInArrow(in_arrow, OUTPUT),
            SPARKS[0]: lambda: theirs.applyInPandas(in_pandas, OUTPUT),
            SPARKS[1]: lambda: theirs.applyInArrow(in_arrow, OUTPUT),
            LEAST: lambda: (
                df.repartition(self.workers, "key")
                .sortWithinPartitions("key")
                .mapInArrow(on_sorted_rows, OUTPUT)
            ),
            STATEFUL[0]: lambda: few.transformWithStateInPandas(processor(True), OUTPUT, *update),
            STATEFUL[1]: lambda: few.transformWithState(processor(False), OUTPUT, *update),
        }
        answers: dict[str, pa.Table] = {}
        cpu: dict[str, list[float]] = {name: [] for name in runs}

        def run(name: str) -> list[float]:
            before, began = cpu_use(descendants(os.getpid())), perf_counter()
            answers[name] = runs[name]().toArrow()
            seconds = perf_counter() - began
            cpu[name].append(cpu_use(descendants(os.getpid())) - before)
            return [seconds]

        timed = in_turn({name: partial(run, name) for name in runs}, self.rounds, report)
        check_same(answers, key, value)
        scale = len(key) / max(1, some.count())
        scales = {name: scale if name in STATEFUL else 1.0 for name in runs}
        return (
            {name: median(taken) * scales[name] for name, taken in timed.items()},
            {name: median(taken[-self.rounds :]) * scales[name] for name, taken in cpu.items()},
        )


def group_of_rows(keys: int, rows: int, kind: str) -> npt.NDArray[np.int64]:
    """The key of every row, shuffled: `rows` per key, or as many on average.

    Example:
        >>> np.bincount(group_of_rows(3, 2, "uniform")).tolist()
        [2, 2, 2]
    """
    sizes = np.full(keys, rows)
    if kind == "skewed":
        weights = 1 / (np.arange(keys) + 1.0)
        sizes = np.maximum(1, (keys * rows * weights / weights.sum()).astype(np.int64))
        # In any order of size, so that a part of the keys is a part of all sizes.
        sizes = np.random.default_rng(2).permutation(sizes)
    return np.random.default_rng(0).permutation(np.repeat(np.arange(keys), sizes))


def check_same(
    answers: dict[str, pa.Table], key: npt.NDArray[np.int64], value: npt.NDArray[np.float64]
) -> None:
    """Fail unless every contestant has returned rows and total of each key that it was given."""
    n, total = np.bincount(key), np.bincount(key, value)
    for name, answer in answers.items():
        found = answer.column("key").to_numpy()
        complete = len(found) == (len(n) if name not in STATEFUL else len(np.unique(found)))
        right = np.array_equal(answer.column("n").to_numpy(), n[found])
        close = np.allclose(answer.column("total").to_numpy(), total[found])
        if not (complete and right and close):
            raise AssertionError(f"{name} has returned something else than the others")
