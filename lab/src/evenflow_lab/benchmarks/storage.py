"""What a batch costs on an object store: requests, and time when each request takes its 20 ms.

First the requests of a batch by scheme, partitions and keys touched, counted by the engine in this
process: with warm caches, as on executors that ran the batches before, and with none. Then
micro-batches on Spark onto a large state, with the checkpoint on a local disk and on an S3 server on
loopback behind a proxy that delays each request, in turn; beside them a bare `foreachBatch` that does
nothing, because Spark writes its own logs to the store in every batch, too: with the settings that its
guide recommends, or, with `--plain-log`, as it does without them. A source of files keeps a log of its
own beside these two, a third of the requests; a source that can be asked again, as Kafka, keeps none:
`--source rate` is one that needs no server.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from statistics import mean as average
from statistics import median
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import pyarrow as pa

from evenflow.engine.in_process import run_stream
from evenflow.engine.job import Job
from evenflow.engine.keyed_states import KeyedStates
from evenflow.grouping import make
from evenflow.model import InputError
from evenflow.operators import Aggregates, count, mean
from evenflow.storage import MemoryStorage
from evenflow.storage.delayed import DelayedStorage
from evenflow_lab.benchmarks.outcome import Goal, Progress, Result, Table, say_nothing
from evenflow_lab.benchmarks.spark.feeding import Feed, finished, seconds_of
from evenflow_lab.benchmarks.spark.timing import in_turn

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from evenflow_lab.checking.s3_endpoint import S3Endpoint

OPERATOR = Aggregates(n=count(), average=mean("value"))
SCHEMES = ("key", "w-choices", "table")
SOURCES = ("files", "rate")
_STATE = 100_000  # keys, for counting requests
_BATCHES = 12
_NO_CACHE = {"EVENFLOW_CACHE_BYTES": "0"}


def run(
    keys: Annotated[int, "Keys that have a state, on Spark."] = 1_000_000,
    rows: Annotated[int, "Rows of a batch, on Spark."] = 1000,
    partitions: Annotated[int, "Partitions, on Spark."] = 4,
    latency: Annotated[float, "Seconds that each request to the store takes."] = 0.02,
    batches: Annotated[int, "Batches per round."] = 5,
    rounds: Annotated[int, "Rounds that count, after one that warms up."] = 3,
    only_requests: Annotated[bool, "Count requests, and start no Spark."] = False,
    plain_log: Annotated[bool, "Spark's own log on S3 as it is without settings."] = False,
    source: Annotated[str, "Where rows come from: files, or rate, which has no log."] = "files",
    progress: Progress = say_nothing,
) -> Iterator[Result]:
    if source not in SOURCES:
        raise InputError(f"there is no source {source!r}; choose from {', '.join(SOURCES)}")
    counted = requests_table(progress)
    shown = Table(counted, "Requests of a batch: of the driver, and of all its tasks together")
    yield Result({"requests": counted}, (shown,))
    if only_requests:
        return
    load = Load(keys, rows, partitions, batches, source)
    seconds = _on_spark(load, latency, rounds, plain_log, progress)
    timed = [
        {
            "batch": name,
            "seconds": round(median(taken), 3),
            "least": round(min(taken), 3),
            "most": round(max(taken), 3),
            "÷ local disk": round(median(taken) / median(seconds[_like(name, "local disk")]), 2),
        }
        for name, taken in seconds.items()
    ]
    ratio = median(seconds["evenflow, store"]) / median(seconds["evenflow, local disk"])
    goal = Goal(f"time of a batch, store at {1000 * latency:g} ms ÷ local disk", ratio, 3.0)
    title = (
        f"{rows:,} rows from {source} onto {keys:,} keys, {partitions} partitions, "
        f"{1000 * latency:g} ms each"
    )
    yield Result(
        {"requests": counted, "seconds": seconds, "goals": [goal.to_dict()]},
        (Table(timed, title),),
        goals=(goal,),
    )


def requests_table(progress: Progress = say_nothing) -> list[dict[str, Any]]:
    """Requests of a batch in the middle of a stream, by scheme, partitions and keys touched."""
    cells = [
        (scheme, partitions, touched, caches)
        for scheme in SCHEMES
        for partitions in (4, 16, 64)
        for touched in (100, 10_000)
        for caches in ("warm", "none")
    ]
    found = []
    for done, cell in enumerate(cells, 1):
        found.append(_requests(*cell))
        progress("requests", done, len(cells))
    return found


def _requests(scheme: str, partitions: int, touched: int, caches: str) -> dict[str, Any]:
    chance = np.random.default_rng(1)
    first = _rows(np.arange(_STATE), chance)
    stream = [_rows(chance.integers(0, _STATE, touched), chance) for _ in range(_BATCHES)]
    job = Job(("key",), first.schema, KeyedStates(OPERATOR), make(scheme), partitions)
    with tempfile.TemporaryDirectory(prefix="evenflow-bench-") as folder:
        settings = _NO_CACHE if caches == "none" else {"EVENFLOW_CACHE_DIR": folder}
        with _environment(settings):
            storage = DelayedStorage(MemoryStorage(), 0.0)
            metrics = list(run_stream(job, storage, [first, *stream]))[2:]
    row: dict[str, Any] = {
        "scheme": scheme,
        "partitions": partitions,
        "keys touched": touched,
        "caches": caches,
    }
    for who in ("driver", "tasks"):
        made = [batch["requests"][who] for batch in metrics]
        for kind in ("reads", "writes"):
            row[f"{who}: {kind}"] = round(average(m[kind] for m in made), 1)
        row[f"{who}: other"] = round(average(m["lists"] + m["deletes"] for m in made), 1)
    row["kB read"] = round(average(_read_bytes(batch) for batch in metrics) / 1000, 1)
    return row


def _read_bytes(batch: Any) -> int:
    return sum(batch["requests"][who]["read_bytes"] for who in ("driver", "tasks"))


@dataclass(frozen=True)
class Load:
    """What the queries have to do.

    Parameters:
        keys: that have a state.
        rows: of a batch.
        partitions: of the query.
        batches: of a round.
        source: files, or rate.
    """

    keys: int
    rows: int
    partitions: int
    batches: int
    source: str


def _on_spark(
    load: Load,
    latency: float,
    rounds: int,
    plain_log: bool,
    progress: Progress,
) -> dict[str, list[float]]:
    """Contestant → seconds of its batches."""
    from evenflow.spark.session import local_session
    from evenflow_lab.checking.disk_s3 import DiskS3
    from evenflow_lab.checking.store_jars import S3A_FEWER_REQUESTS, S3A_LOG, s3a_jars, s3a_log_jars
    from evenflow_lab.checking.store_proxy import Faults, StoreProxy

    steps = 4 * (rounds + 1)
    done = 0

    def report(what: str) -> None:
        nonlocal done
        progress(what, done, steps)
        done += 1

    with (
        tempfile.TemporaryDirectory(prefix="evenflow-bench-") as folder,
        _environment({"EVENFLOW_CACHE_DIR": f"{folder}/cache"}),
        DiskS3.start() as server,
        StoreProxy.start(server.endpoint.url, Faults(latency=latency)) as proxy,
    ):
        place = server.endpoint.through(proxy.url)
        jars, log, flags = s3a_jars(), {}, {}
        if not plain_log:
            jars, log, flags = [*jars, *s3a_log_jars()], S3A_LOG, S3A_FEWER_REQUESTS
        jvm = {"spark.jars": ",".join(map(str, jars)), "spark.driver.memory": "3g"}
        spark = local_session(preload=True, **jvm, **flags, **place.spark_settings)
        try:
            return in_turn(
                _contestants(spark, folder, place, log, load),
                rounds,
                report,
            )
        finally:
            spark.stop()


def _contestants(
    spark: SparkSession,
    folder: str,
    place: S3Endpoint,
    log: dict[str, str],
    load: Load,
) -> dict[str, Callable[[], list[float]]]:
    import evenflow as ef

    def contestant(name: str, checkpoint: str, balanced: bool) -> Callable[[], list[float]]:
        first = load.keys if balanced else 1
        streams = _from_files if load.source == "files" else _from_rate
        streaming = streams(spark, f"{folder}/{name}-in", load, first)

        def run() -> list[float]:
            stream, trigger = next(streaming)
            for setting, value in log.items():
                if checkpoint.startswith("s3a:"):
                    spark.conf.set(setting, value)
                else:
                    spark.conf.unset(setting)
            if balanced:
                keyed = ef.keyed(stream, "key").balance("key", partitions=load.partitions)
                writer: Any = keyed.apply(OPERATOR).writeStream.format("noop")
            else:
                writer = stream.writeStream.foreachBatch(lambda df, batch: None)
            writer = writer.option("checkpointLocation", checkpoint).trigger(**trigger)
            query = writer.start()
            if "availableNow" not in trigger:
                _wait(query, load.batches + 1)
                query.stop()
            return seconds_of(finished(query.spark_query if balanced else query))[-load.batches :]

        return run

    return {
        f"{who}, {where}": contestant(
            f"{who}-{where}".replace(" ", "-"), checkpoint, who == "evenflow"
        )
        for who in ("evenflow", "bare foreachBatch")
        for where, checkpoint in (
            ("local disk", f"{folder}/{who}".replace(" ", "-")),
            ("store", place.s3a(who.replace(" ", "-"))),
        )
    }


def _from_files(
    spark: SparkSession, folder: str, load: Load, first: int
) -> Iterator[tuple[DataFrame, dict[str, Any]]]:
    """Round for round, a stream of files that ends, and its trigger; at first one of all keys."""
    feed, chance = Feed(folder), np.random.default_rng(load.keys)
    feed.add(_rows(chance.permutation(first), chance))
    while True:
        for _ in range(load.batches + 1):
            feed.add(_rows(chance.integers(0, load.keys, load.rows), chance))
        yield feed.stream(spark), {"availableNow": True}


def _from_rate(
    spark: SparkSession, folder: str, load: Load, first: int
) -> Iterator[tuple[DataFrame, dict[str, Any]]]:
    """As `_from_files`, without files and without an end."""
    from pyspark.sql import functions as F

    rate = spark.readStream.format("rate-micro-batch").option("numPartitions", 1)
    value, keys = F.col("value"), F.pmod(F.xxhash64("value"), F.lit(load.keys))
    if first >= load.rows:  # the rows of the first batch have all keys among them
        all_keys = F.sequence(value, F.lit(first - 1), F.lit(load.rows))
        keys = F.explode(F.when(value < load.rows, all_keys).otherwise(F.array(keys)))
    rows = rate.option("rowsPerBatch", load.rows).load().select(keys.alias("key"), "value")
    stream = rows.select("key", F.col("value").cast("double"))
    while True:
        yield stream, {"processingTime": "0 seconds"}


def _wait(query: Any, batches: int) -> None:
    """Until a query has done so many batches."""
    while query.isActive and len(query.recentProgress) < batches:
        time.sleep(0.05)


def _like(name: str, where: str) -> str:
    return f"{name.partition(',')[0]}, {where}"


def _rows(keys: np.ndarray, chance: np.random.Generator) -> pa.Table:
    return pa.table({"key": keys, "value": chance.random(len(keys))})


@contextmanager
def _environment(settings: dict[str, str]) -> Iterator[None]:
    """Environment variables for this process, and for those that it starts."""
    before = {name: os.environ.get(name) for name in settings}
    os.environ.update(settings)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
