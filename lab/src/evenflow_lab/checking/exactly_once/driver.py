"""A streaming query as a process of its own, which may be killed at any moment.

Runs as `python -m evenflow_lab.checking.exactly_once.driver INPUT CHECKPOINT OUTPUT [OPTIONS]`, until
all files of INPUT are worked on. Exit code 3 and a line on standard error: the query has failed.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

import evenflow as ef
from evenflow.operators import Aggregates, Rows
from evenflow_lab.checking.exactly_once.stream import SPARK_SCHEMA, aggregates
from evenflow_lab.checking.exactly_once.timed import CHECKS, timed_query

if TYPE_CHECKING:
    from evenflow.spark.keyed import Keyed

FAILED = 3


class Flaky(Aggregates):
    """Aggregates whose tasks fail once before and once after they have written their state."""

    def __init__(self, marks: str) -> None:
        super().__init__(**aggregates())
        self._marks = marks

    def update(self, rows: Rows, state: pa.Table) -> pa.Table:
        self._fail_once("update")
        return super().update(rows, state)

    def emit(self, keys: pa.Table, state: pa.Table) -> pa.Table:
        self._fail_once("emit")
        return super().emit(keys, state)

    def _fail_once(self, where: str) -> None:
        from pyspark import TaskContext

        task = TaskContext.get()
        if task is None or task.partitionId() % 2:
            return
        mark = Path(self._marks) / f"{where}-{task.stageId()}-{task.partitionId()}"
        try:
            os.close(os.open(mark, os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return
        raise OSError(f"failing on purpose: {mark}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("input", "checkpoint", "output"):
        parser.add_argument(name)
    parser.add_argument("--kind", choices=("aggregates", *CHECKS), default="aggregates")
    parser.add_argument("--scheme", default="d-choices")
    parser.add_argument("--partitions", type=int, default=3)
    parser.add_argument("--master", default="local[2]")
    parser.add_argument("--conf", action="append", default=[], metavar="NAME=VALUE")
    parser.add_argument("--flaky", metavar="DIRECTORY", help="tasks fail once; marks go here")
    parser.add_argument("--lease-seconds", type=int, default=30)
    parser.add_argument("--forever", action="store_true", help="wait for more files")
    arguments = parser.parse_args()

    from evenflow.spark.session import local_session

    conf: dict[str, Any] = {
        "spark.sql.streaming.minBatchesToRetain": 100_000,
        "spark.sql.shuffle.partitions": 3,
    }
    conf |= dict(pair.split("=", 1) for pair in arguments.conf)
    spark = local_session(arguments.master, "exactly once", preload=True, **conf)
    reader = spark.readStream.schema(SPARK_SCHEMA).option("maxFilesPerTrigger", 1)
    rows = reader.parquet(arguments.input)

    def balanced(keyed: Keyed) -> Keyed:
        keyed = keyed.balance(arguments.scheme, partitions=arguments.partitions)
        if arguments.scheme == "table":
            # Keys move after almost every batch.
            keyed = keyed.replan(theta=0.01, margin=0.0, certainty=0.0, memory=0.5)
        return keyed

    if arguments.kind == "aggregates":
        operator = Flaky(arguments.flaky) if arguments.flaky else Aggregates(**aggregates())
        result = balanced(ef.keyed(rows, "page")).apply(operator)
    else:
        result = timed_query(arguments.kind, rows, balanced)
    writer = result.writeStream.option("checkpointLocation", arguments.checkpoint)
    writer.option("leaseSeconds", arguments.lease_seconds)
    if not arguments.forever:
        writer.trigger(availableNow=True)
    try:
        writer.start(arguments.output).awaitTermination()
    except ef.EvenflowError as error:
        print(error, file=sys.stderr)
        return FAILED
    finally:
        spark.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
