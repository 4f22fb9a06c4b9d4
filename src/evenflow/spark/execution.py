"""The engine's tasks on Spark: route, shuffle, work, merge.

Spark supplies rows, shuffles and processes; everything that computes is in `evenflow.engine`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from evenflow.engine.layout import FINGERPRINT, PARTITION, REPORT
from evenflow.engine.program import Stages
from evenflow.engine.routing import Route
from evenflow.spark.columns import quoted, spark_schema
from evenflow.spark.native_routing import can_route, routed_by_owner, shuffled_by_owner

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, Observation, SparkSession
    from pyspark.sql.types import StructType

TRIES = 4  #: of a batch that Spark wants to be run again; as many as it gives a stage

_GAVE_UP = re.compile(r"cannot rollback|rollback failed|rolling back", re.IGNORECASE)

Task = Callable[[int, Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


@dataclass(frozen=True)
class InPartition:
    """A `mapInArrow` function that runs a task of the engine under its partition's number."""

    task: Task

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        context = TaskContext.get()
        return self.task(0 if context is None else int(context.partitionId()), batches)


@dataclass(frozen=True)
class OnSpark:
    """Runs the tasks of a batch as one Spark job."""

    def run(self, rows: DataFrame, stages: Stages) -> list[str]:
        """Run a batch; the reports that its tasks returned.

        If shuffled rows are lost with their machine and come out differently when they are made again,
        Spark goes back; but if tasks of the last stage have ended by then, it gives up and says that
        the query should be run again. Parts of states may come out differently: sums of floating-point
        numbers that arrived in another order. A batch that is run again gives the same answer, so do
        what it says.
        """
        for left in reversed(range(TRIES)):
            try:
                reports = frame_of(rows, stages).toArrow().column(REPORT).to_pylist()
                return [str(report) for report in reports]
            except Exception as error:
                if not left or not _GAVE_UP.search(str(error)):
                    raise
        raise AssertionError("unreachable")

    def session(self, rows: DataFrame) -> SparkSession:
        return rows.sparkSession


def frame_of(df: DataFrame, stages: Stages, loads: Observation | None = None) -> DataFrame:
    """The rows after route, shuffle, work and merge: reports in a streaming query, else output.

    Parameters:
        df: the rows.
        stages: of the batch.
        loads: is filled with the number of rows that each partition was sent.
    """
    job = stages.job
    rows = df.select(*(df[quoted(name)] for name in job.rows.names))
    # Only those need fingerprints who hand states on or store them.
    fingerprints = stages.batch is not None or stages.split is not None
    shuffled = _shuffled(rows, stages.route, fingerprints, loads)
    if stages.split is not None:
        parts = spark_schema(job.parts_schema())
        shuffled = shuffled.mapInArrow(InPartition(stages.split), parts)
        shuffled = shuffled.repartitionById(stages.plan.partitions, PARTITION)
    schema: Any = f"{REPORT} string"
    if stages.batch is None:
        schema = spark_schema(job.output_schema())
    return shuffled.mapInArrow(InPartition(stages.own), schema)


def _shuffled(
    rows: DataFrame, route: Route, fingerprints: bool, loads: Observation | None
) -> DataFrame:
    """The rows, each in its partition.

    Where a key has one owner, by its hash, Spark's own expressions know it, and no row visits Python.
    """
    native = route.by_hash and can_route([rows.schema[name].dataType for name in route.key])
    if native and loads is None:
        return shuffled_by_owner(rows, route.key, route.partitions, route.seed, fingerprints)
    if native:
        routed = routed_by_owner(rows, route.key, route.partitions, route.seed)
    else:
        routed = rows.mapInArrow(InPartition(route), _routed_schema(rows))
    if loads is not None:
        routed = routed.observe(loads, *_row_counts(route.partitions))
    if not fingerprints:
        routed = routed.drop(FINGERPRINT)
    # The partition's number has done its duty; Python need not be handed it for every row.
    return routed.repartitionById(route.partitions, PARTITION).drop(PARTITION)


def _routed_schema(rows: DataFrame) -> StructType:
    from pyspark.sql.types import IntegerType, LongType, StructField, StructType

    return StructType(
        [
            StructField(PARTITION, IntegerType()),
            StructField(FINGERPRINT, LongType()),
            *rows.schema.fields,
        ]
    )


def _row_counts(partitions: int) -> list[Column]:
    from pyspark.sql import functions as F

    return [F.count_if(F.col(PARTITION) == i).alias(f"partition {i}") for i in range(partitions)]
