"""What a batch costs on an object store: requests, and time when each request takes its 20 ms.

First the requests of a batch by scheme, partitions and keys touched, counted by the engine in this
process: with warm caches, as on executors that ran the batches before, and with none. Then
micro-batches on Spark onto a large state, with the checkpoint on a local disk and on an S3 server on
loopback behind a proxy that delays each request, in turn; beside them a bare `foreachBatch` that does
nothing, because Spark writes its own two logs to the store in every batch, too.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from statistics import mean as average
from statistics import median
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import pyarrow as pa

from evenflow.engine.in_process import run_stream
from evenflow.engine.job import Job
from evenflow.engine.keyed_states import KeyedStates
from evenflow.grouping import make
from evenflow.operators import Aggregates, count, mean
from evenflow.storage import MemoryStorage
from evenflow.storage.delayed import DelayedStorage
from evenflow_lab.benchmarks.outcome import Goal, Progress, Result, Table, say_nothing
from evenflow_lab.benchmarks.spark.feeding import Feed, finished, processed, seconds_of
from evenflow_lab.benchmarks.spark.timing import in_turn

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from evenflow_lab.checking.s3_endpoint import S3Endpoint

OPERATOR = Aggregates(n=count(), average=mean("value"))
SCHEMES = ("key", "w-choices", "table")
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
    progress: Progress = say_nothing,
) -> Iterator[Result]:
    counted = requests_table(progress)
    shown = Table(counted, "Requests of a batch: of the driver, and of all its tasks together")
    yield Result({"requests": counted}, (shown,))
    if only_requests:
        return
    seconds = _on_spark(keys, rows, partitions, latency, batches, rounds, progress)
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
    title = f"{rows:,} rows onto {keys:,} keys, {partitions} partitions, {1000 * latency:g} ms each"
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


def _on_spark(
    keys: int,
    rows: int,
    partitions: int,
    latency: float,
    batches: int,
    rounds: int,
    progress: Progress,
) -> dict[str, list[float]]:
    """Contestant → seconds of its batches."""
    from evenflow.spark.session import local_session
    from evenflow_lab.checking.disk_s3 import DiskS3
    from evenflow_lab.checking.store_jars import s3a_jars
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
        jars = {"spark.jars": ",".join(map(str, s3a_jars())), "spark.driver.memory": "3g"}
        spark = local_session(preload=True, **jars, **place.spark_settings)
        try:
            return in_turn(
                _contestants(spark, folder, place, keys, rows, partitions, batches), rounds, report
            )
        finally:
            spark.stop()


def _contestants(
    spark: SparkSession,
    folder: str,
    place: S3Endpoint,
    keys: int,
    rows: int,
    partitions: int,
    batches: int,
) -> dict[str, Callable[[], list[float]]]:
    import evenflow as ef

    def contestant(name: str, checkpoint: str, balanced: bool) -> Callable[[], list[float]]:
        feed, chance = Feed(f"{folder}/{name}-in"), np.random.default_rng(keys)
        feed.add(_rows(chance.permutation(keys) if balanced else np.arange(1), chance))

        def run() -> list[float]:
            for _ in range(batches + 1):
                feed.add(_rows(chance.integers(0, keys, rows), chance))
            stream = feed.stream(spark)
            if balanced:
                keyed = ef.keyed(stream, "key").balance("key", partitions=partitions)
                query = processed(keyed.apply(OPERATOR), checkpoint).spark_query
            else:
                writer = stream.writeStream.foreachBatch(lambda df, batch: None)
                writer = writer.option("checkpointLocation", checkpoint)
                query = writer.trigger(availableNow=True).start()
            return seconds_of(finished(query))[-batches:]

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
