"""The demonstration: a skewed stream whose hot keys change half-way, processed by slow tasks."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from evenflow.engine.routing import Route, Router
from evenflow.metrics.measured_run import MeasuredRun
from evenflow.model import InputError, KeyCounts
from evenflow.model.validation import check_whole
from evenflow.operators import Aggregates, Operator, count, mean
from evenflow.operators.service_time import ServiceTime
from evenflow.spark.columns import spark_schema
from evenflow.spark.keyed import keyed
from evenflow.spark.sinks import MemorySink

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

KEY = "page"
SOURCES = 2  #: files per batch, each read by a task of its own, which routes its rows
_SCHEMA = pa.schema([(KEY, pa.string()), ("ms", pa.int64())])
_EPOCH = 1_600_000_000  # of the files' times; any will do, as long as they increase


@dataclass(frozen=True)
class DemoStream:
    """Clicks on pages: Zipf-distributed keys, with other hot keys from half-way on, as Parquet files.

    Guarantee: the same parameters give the same rows in the same batches.

    Parameters:
        messages: how many rows.
        batches: in how many micro-batches they come.
        exponent: the skew; 0 is uniform.
        keys: how many pages there are.
        seed: another seed is another stream.
    """

    messages: int = 100_000
    batches: int = 10
    exponent: float = 1.4
    keys: int = 10_000
    seed: int = 1

    def __post_init__(self) -> None:
        check_whole("batches", self.batches, least=1)
        check_whole("messages", self.messages, least=self.batches * SOURCES)
        check_whole("keys", self.keys, least=1)
        if not (math.isfinite(self.exponent) and self.exponent >= 0):
            raise InputError(
                f"the Zipf exponent must be a finite number of at least 0, got {self.exponent}"
            )

    @property
    def changes_at(self) -> int:
        """The first batch with other hot keys."""
        return (self.batches + 1) // 2

    def table(self) -> pa.Table:
        """All rows, in order."""
        rng = np.random.default_rng(self.seed)
        weights = np.arange(1, self.keys + 1, dtype=np.float64) ** -self.exponent
        ranks = rng.choice(self.keys, self.messages, p=weights / weights.sum())
        page_of_rank = np.stack([rng.permutation(self.keys), rng.permutation(self.keys)])
        changed = np.arange(self.messages) >= self._cuts()[self.changes_at * SOURCES]
        pages = page_of_rank[changed.astype(np.int64), ranks]
        return pa.table(
            [
                pa.array([f"page {page}" for page in pages.tolist()]),
                pa.array(rng.integers(1, 1000, self.messages)),
            ],
            schema=_SCHEMA,
        )

    def write(self, directory: Path) -> None:
        """Write the files, `SOURCES` per batch, in the order of their times."""
        directory.mkdir(parents=True)
        table, cuts = self.table(), self._cuts()
        for i in range(self.batches * SOURCES):
            file = directory / f"{i:05d}.parquet"
            pq.write_table(table.slice(cuts[i], cuts[i + 1] - cuts[i]), file)
            os.utime(file, (_EPOCH + i, _EPOCH + i))  # Spark takes the oldest first

    def _cuts(self) -> list[int]:
        pieces = self.batches * SOURCES
        return [self.messages * i // pieces for i in range(pieces + 1)]


def demo_operator(seconds: float) -> Operator:
    """Hits and mean duration of each page, with a service time per message."""
    return ServiceTime(Aggregates(hits=count(), ms=mean("ms")), seconds)


def run_stream(
    spark: SparkSession,
    files: Path,
    checkpoint: Path,
    grouping: str,
    partitions: int,
    seconds: float,
    on_batch: Callable[[Mapping[str, Any]], object] | None = None,
) -> tuple[MeasuredRun, pa.Table]:
    """Process all files once; the run as numbers, and the last row of each key.

    Parameters:
        spark: with a core for each partition, for the service time to mean anything.
        files: what `DemoStream.write` has written.
        checkpoint: a new directory.
        grouping: which partition gets which message.
        partitions: how many tasks share the work.
        seconds: the service time of a message.
        on_batch: called with the metrics of each batch.
    """
    metrics: list[Mapping[str, Any]] = []

    def note(batch: Mapping[str, Any]) -> None:
        metrics.append(batch)
        if on_batch is not None:
            on_batch(batch)

    reader = spark.readStream.schema(spark_schema(_SCHEMA))
    rows = reader.option("maxFilesPerTrigger", SOURCES).parquet(f"file://{files}")
    sink = MemorySink()
    query = (
        keyed(rows, KEY)
        .balance(grouping, partitions=partitions)
        .apply(demo_operator(seconds))
        .writeStream.format(sink)
        .option("checkpointLocation", checkpoint)
        .trigger(availableNow=True)
        .onBatch(note)
        .start()
    )
    with query:
        query.awaitTermination()
    return MeasuredRun(grouping, tuple(metrics)), sink.latest(KEY)


def compile_kernels(grouping: str, partitions: int) -> None:
    """Have the routers' kernels compiled and cached on disk, where the tasks will find them."""
    from evenflow.grouping import make

    batch = pa.record_batch([["page 1", "page 2"], [1, 2]], schema=_SCHEMA)
    for name in dict.fromkeys(["key", "partial-key", "d-choices", grouping]):
        if name != "auto":
            route = Route(make(name), partitions, 0, (KEY,), KeyCounts({1: 1}, 2))
            Router(route, 0).routed(batch)


def same_answer(stream: DemoStream, answer: pa.Table) -> bool:
    """Whether a run has the counts and means that Arrow computes from all rows in one table."""
    grouped = stream.table().group_by(KEY).aggregate([("ms", "count"), ("ms", "mean")])
    expected = grouped.sort_by(KEY)
    found = answer.sort_by(KEY)
    return bool(
        expected.column(KEY).equals(found.column(KEY))
        and expected.column("ms_count").equals(found.column("hits"))
        and pc.all(pc.less(pc.abs(pc.subtract(expected["ms_mean"], found["ms"])), 1e-9)).as_py()
    )
