"""The stream of a long run, in the engine alone and on Spark: drift, moves and resizing."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from evenflow_lab.benchmarks.soak.samples import (
    Sample,
    checkpoint_use,
    descendants,
    process_use,
)

if TYPE_CHECKING:
    from evenflow.engine.output import Output
    from evenflow.storage import Storage

KEYS, ROWS, DRIFT, RESIZE = (
    1_000,
    200,
    25,
    100,
)  # keys, rows per batch, batches to drift and to resize
PARTITIONS = (4, 3, 5)  # in turn
_SKEW = 3.0  # the cube of a uniform number: the hottest key has 1/13 of the rows
_GRACE = 1.0  # seconds that garbage stays, instead of ten minutes
Watch = Callable[[Sample], object]


class _Nowhere:
    """A sink that keeps nothing."""

    def staging(self, default: Storage) -> Storage:
        return default

    def deliver(self, output: Output, session: Any) -> None:
        pass


def run_engine(
    folder: str, batches: int, every: int, seconds: float, watch: Watch, seed: int = 0
) -> None:
    """So many batches in this process, on a POSIX storage, or as many as there is time for.

    Parameters:
        folder: of the checkpoint.
        batches: how many.
        every: how often a sample is taken.
        seconds: after which it ends.
        watch: called with each sample.
        seed: of the rows.
    """
    from evenflow.engine.in_process import run_stream
    from evenflow.engine.job import Job
    from evenflow.engine.keyed_states import KeyedStates
    from evenflow.grouping import make
    from evenflow.operators import Aggregates, count
    from evenflow.operators import sum as total
    from evenflow.state.checkpoint import FOLDER
    from evenflow.state.journal import request_partitions
    from evenflow.storage import PosixStorage

    storage = PosixStorage(folder)
    rows = pa.schema([("k", pa.int64()), ("v", pa.int64())])
    work = KeyedStates(Aggregates(n=count(), total=total("v")))
    job = Job(("k",), rows, work, make("table"), PARTITIONS[0])
    chance = np.random.default_rng(seed)

    def stream() -> Iterator[pa.Table]:
        end = time.monotonic() + seconds
        for number in range(batches):
            if time.monotonic() > end:
                return
            if number % RESIZE == 0:
                wanted = PARTITIONS[number // RESIZE % len(PARTITIONS)]
                request_partitions(storage.under(FOLDER), wanted, PARTITIONS[0])
            ranks = (KEYS * chance.random(ROWS) ** _SKEW).astype(np.int64)
            keys = (ranks + number // DRIFT * 37) % KEYS
            yield pa.table([keys, chance.integers(0, 9, ROWS)], schema=rows)

    began = time.perf_counter()
    # Batches follow each other in milliseconds here: garbage must not have the time of a real query.
    run = run_stream(job, storage, stream(), _Nowhere(), grace=_GRACE)
    for number, _ in enumerate(run):
        took = time.perf_counter() - began
        if (number + 1) % every == 0 or number + 1 == batches:
            memory, files = process_use([os.getpid()])
            watch(Sample(number, memory, files, *checkpoint_use(Path(folder)), took))
        began = time.perf_counter()


def run_spark(folder: str, batches: int, seconds: float, watch: Watch) -> None:
    """The same on Spark, driver, JVM and workers on this machine, until it is done or time is up."""
    import pyspark.sql.functions as F

    import evenflow as ef
    from evenflow.spark.session import local_session

    conf: dict[str, Any] = {"spark.driver.memory": "1g"}
    spark = local_session("local[2]", "evenflow soak", **conf)
    try:
        source = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", ROWS).load()
        share = F.pmod(F.xxhash64("value"), F.lit(1 << 20)) / float(1 << 20)
        drift = F.floor(F.col("value") / (ROWS * DRIFT)) * 37
        key = F.pmod(F.floor(KEYS * F.pow(share, F.lit(_SKEW))) + drift, F.lit(KEYS))
        rows = source.select(key.cast("long").alias("k"), F.pmod("value", F.lit(9)).alias("v"))
        query = (
            ef.keyed(rows, "k")
            .balance("table", partitions=PARTITIONS[0])
            .agg(n=ef.count(), total=ef.sum("v"))
            .writeStream.format("noop")
            .option("checkpointLocation", f"{folder}/checkpoint")
            .start()
        )
        deadline, seen, resized = time.monotonic() + seconds, -1, 0
        try:
            while seen + 1 < batches and time.monotonic() < deadline and query.isActive:
                time.sleep(0.5)
                progress = query.lastProgress
                if progress is None or progress["batchId"] == seen:
                    continue
                seen = progress["batchId"]
                if seen // RESIZE != resized:
                    resized = seen // RESIZE
                    query.scale(PARTITIONS[resized % len(PARTITIONS)])
                memory, files = process_use(descendants(os.getpid()))
                use = checkpoint_use(Path(folder))
                took = progress["durationMs"].get("triggerExecution", 0) / 1000
                watch(Sample(seen, memory, files, *use, took))
            if not query.isActive:
                query.awaitTermination()
        finally:
            query.stop()
    finally:
        spark.stop()
