"""Small Spark applications, each with one fault that is known: run as a process of its own.

    python -m evenflow_lab.benchmarks.diagnosis.planted FAULT FOLDER

writes the application's event log to FOLDER/log. Tasks sleep for the time that the work of a row would
take, so that a few cores can stand in for many.
"""

from __future__ import annotations

import gzip
import os
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evenflow.kernels.jit import cache_directory
from evenflow.spark.session import local_session
from evenflow.spark.standalone_cluster import StandaloneCluster

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ROWS, KEYS, PARTITIONS, SLOTS = 24_000, 1_000, 16, 4
_PER_ROW = 0.0012  #: seconds
_SLOW_WORKER = "worker-2"

_AS_IF_LARGE = {
    # Otherwise Spark would put these few megabytes into one partition, and broadcast them in joins.
    "spark.sql.adaptive.coalescePartitions.enabled": "false",
    "spark.sql.autoBroadcastJoinThreshold": "-1",
    "spark.sql.shuffle.partitions": str(PARTITIONS),
}


@dataclass(frozen=True)
class Fault:
    """An application and what is wrong with it.

    Parameters:
        cause: what a diagnosis should name.
        run: the job.
        settings: Spark's, beside those of all faults.
        clustered: whether it needs executors of its own.
    """

    cause: str
    run: Callable[[SparkSession, Path], None]
    settings: dict[str, str]
    clustered: bool = False


def clicks(spark: SparkSession, hot: float = 0.0) -> DataFrame:
    """Rows with a key `page`; a share `hot` of them has the page home."""
    page = f"concat('page-', id * 7919 % {KEYS})"
    even = f"CASE WHEN id % 1000 < {int(1000 * hot)} THEN 'home' ELSE {page} END"
    return spark.range(0, ROWS, 1, SLOTS).selectExpr(f"{even} AS page", "id AS user")


def score(rows: Any) -> Any:
    time.sleep(len(rows) * _PER_ROW)
    return rows.head(1)


def scored(batches: Iterator[Any]) -> Iterator[Any]:
    for batch in batches:
        time.sleep(len(batch) * _PER_ROW)
        yield batch


def costly_score(rows: Any) -> Any:
    """As `score`, but the rows of one page take long."""
    times = 1500 if rows["page"].iloc[0] == "page-7" else 1
    time.sleep(len(rows) * _PER_ROW * times)
    return rows.head(1)


def on_uneven_machines(batches: Iterator[Any]) -> Iterator[Any]:
    times = 10 if _SLOW_WORKER in os.environ.get("TMPDIR", "") else 1
    for batch in batches:
        time.sleep(len(batch) * _PER_ROW * times)
        yield batch


def _thrown_away(df: DataFrame) -> None:
    df.write.format("noop").mode("overwrite").save()


def _grouped(spark: SparkSession, folder: Path) -> None:
    _thrown_away(clicks(spark, 0.4).groupBy("page").applyInPandas(score, "page string, user long"))


def _join(spark: SparkSession, folder: Path) -> None:
    pages = clicks(spark).select("page").distinct().selectExpr("page", "length(page) AS size")
    home = spark.createDataFrame([("home", 4)], "page string, size int")
    joined = clicks(spark, 0.4).join(pages.union(home), "page")
    _thrown_away(joined.mapInPandas(scored, joined.schema))


def _null_keys(spark: SparkSession, folder: Path) -> None:
    left = clicks(spark, 0.4).selectExpr("nullif(page, 'home') AS page", "user")
    pages = clicks(spark).select("page").distinct().selectExpr("page", "length(page) AS size")
    joined = left.join(pages, "page", "left")
    _thrown_away(joined.mapInPandas(scored, joined.schema))


def _slow_machine(spark: SparkSession, folder: Path) -> None:
    even = clicks(spark).repartition(PARTITIONS, "page")
    _thrown_away(even.mapInPandas(on_uneven_machines, even.schema))


def _input_files(spark: SparkSession, folder: Path) -> None:
    source = folder / "clicks"
    source.mkdir(parents=True)
    for number in range(8):
        rows = 12_000 if number == 5 else 1_200
        with gzip.open(source / f"part-{number}.csv.gz", "wt") as file:
            file.writelines(f"page-{i * 7919 % KEYS},{i}\n" for i in range(rows))
    read = spark.read.schema("page string, user long").csv(str(source))
    _thrown_away(read.mapInPandas(scored, read.schema))


def _spill(spark: SparkSession, folder: Path) -> None:
    rows = spark.range(0, 10_000_000, 1, SLOTS).selectExpr(
        "hash(id) AS n", "repeat('x', 60) AS pad"
    )
    _thrown_away(rows.repartition(8, "n").sortWithinPartitions("n"))


def _garbage(spark: SparkSession, folder: Path) -> None:
    rows = spark.range(0, 1_600_000, 1, SLOTS).selectExpr("id % 400000 AS k", "string(id) AS s")
    lists = rows.repartition(8, "k").groupBy("k").agg({"s": "collect_list"})
    _thrown_away(lists)


def _even(spark: SparkSession, folder: Path) -> None:
    _thrown_away(clicks(spark).groupBy("page").applyInPandas(score, "page string, user long"))


def _costly(spark: SparkSession, folder: Path) -> None:
    grouped = clicks(spark).groupBy("page")
    _thrown_away(grouped.applyInPandas(costly_score, "page string, user long"))


FAULTS = {
    "hot-key-in-a-grouped-function": Fault("hot key", _grouped, _AS_IF_LARGE),
    "hot-key-in-a-join": Fault("hot key", _join, _AS_IF_LARGE),
    "null-keys": Fault("null keys", _null_keys, _AS_IF_LARGE),
    "slow-machine": Fault("slow machine", _slow_machine, _AS_IF_LARGE, clustered=True),
    "uneven-input-files": Fault(
        "input files", _input_files, {**_AS_IF_LARGE, "spark.sql.files.maxPartitionBytes": "4m"}
    ),
    "spill": Fault(
        "spill",
        _spill,
        {**_AS_IF_LARGE, "spark.driver.memory": "3g", "spark.memory.fraction": "0.02"},
    ),
    "garbage-collection": Fault(
        "garbage collection",
        _garbage,
        {
            **_AS_IF_LARGE,
            "spark.driver.memory": "480m",
            "spark.sql.objectHashAggregate.sortBased.fallbackThreshold": "10000000",
        },
    ),
    "costly-rows": Fault("costly rows", _costly, _AS_IF_LARGE),
    "nothing-wrong": Fault("nothing", _even, _AS_IF_LARGE),
}


def record(name: str, folder: Path) -> None:
    """Run one of the applications and leave its event log in `folder`/log."""
    fault, log = FAULTS[name], folder / "log"
    log.mkdir(parents=True)
    settings = {
        **fault.settings,
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": log.as_uri(),
    }
    if not fault.clustered:
        _run(fault, f"local[{SLOTS}]", name, settings, folder)
        return
    kernels = cache_directory()
    environment = {} if kernels is None else {"EVENFLOW_CACHE_DIR": str(kernels.parents[1])}
    with StandaloneCluster.start(3, cores=1, environment=environment) as cluster:
        _run(fault, cluster.url, name, settings, folder)


def _run(fault: Fault, master: str, name: str, settings: dict[str, Any], folder: Path) -> None:
    spark = local_session(master, name, preload=not fault.clustered, **settings)
    try:
        # Python workers are started and Java's classes loaded before anything is measured.
        warm = spark.range(0, 64, 1, 2 * SLOTS).selectExpr("string(id) AS page", "id AS user")
        _thrown_away(warm.mapInPandas(scored, warm.schema))
        fault.run(spark, folder)
    finally:
        spark.stop()


if __name__ == "__main__":
    record(sys.argv[1], Path(sys.argv[2]))
