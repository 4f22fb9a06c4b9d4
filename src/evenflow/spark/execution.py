"""The engine's tasks on Spark: route, shuffle, work, merge.

Spark supplies rows, shuffles and processes; everything that computes is in `evenflow.engine`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from evenflow.engine.layout import FINGERPRINT, PARTITION, REPORT
from evenflow.engine.program import Stages
from evenflow.engine.routing import Route, SourceTask, code_for, code_for_values
from evenflow.kernels.compiled_code import CompiledCode, install
from evenflow.model import EvenflowError, InputError
from evenflow.spark.columns import arrow_types, quoted, spark_schema
from evenflow.spark.displays import described
from evenflow.spark.names import neutral, with_neutral_names
from evenflow.spark.native_routing import can_route, routed_by_owner, shuffled_by_owner

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, Observation, SparkSession
    from pyspark.sql.types import StructType

    from evenflow.engine.auto import KeySurvey
    from evenflow.engine.job import Job

_OWN_OF_PARTS = 2  # columns of parts of states before the keys: partition and fingerprint
_FEW_ENTRIES = 256  # of a routing table that is Spark's own expression in each batch of a stream
TRIES = 4  #: of a batch that Spark wants to be run again; as many as it gives a stage

_GAVE_UP = re.compile(r"cannot rollback|rollback failed|rolling back", re.IGNORECASE)


@dataclass(frozen=True)
class InPartition:
    """A `mapInArrow` function that runs a task of the engine under its partition's number.

    Parameters:
        task: of the engine.
        names: what the last columns are called, which Spark knows under neutral names.
        code: compiled, of what the task runs: an executor need not compile it.
    """

    task: SourceTask
    names: tuple[str, ...] = ()
    code: CompiledCode = field(default_factory=CompiledCode)

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        install(self.code)
        context = TaskContext.get()
        partition = 0 if context is None else int(context.partitionId())
        try:
            yield from self.task(partition, map(self._named, batches))
        except EvenflowError:
            # Its message says all there is to say. The process ends with it, and with it this setting.
            os.environ["SPARK_HIDE_TRACEBACK"] = "1"
            raise

    def _named(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        ours = batch.num_columns - len(self.names)
        return batch.rename_columns([*batch.schema.names[:ours], *self.names])


def source_task(
    task: SourceTask, rows: DataFrame, names: tuple[str, ...], key: Sequence[str]
) -> InPartition:
    """A task that looks at the keys of rows, with its compiled code.

    Parameters:
        rows: with neutral names.
        names: the user's names.
        key: the key columns.
    """
    from pyspark.sql.types import StructType

    keys = StructType([rows.schema[neutral(names.index(name))] for name in key])
    columns = arrow_types(keys)
    keyed = pa.schema([columns.field(i).with_name(name) for i, name in enumerate(key)])
    return InPartition(task, names, code_for(task, keyed))


@dataclass(frozen=True)
class NoRows:
    """A batch without rows. Of an empty DataFrame, Spark's adaptive execution would run no task.

    Parameters:
        sparkSession: in which its tasks run.
    """

    sparkSession: SparkSession


@dataclass(frozen=True)
class Idle:
    """A task of the engine that gets no rows, whatever Spark hands it.

    Parameters:
        task: of the engine.
    """

    task: SourceTask

    def __call__(
        self, partition: int, batches: Iterator[pa.RecordBatch]
    ) -> Iterator[pa.RecordBatch]:
        for _ in batches:
            pass
        return self.task(partition, iter(()))


@dataclass(frozen=True)
class OnSpark:
    """Runs the tasks of a batch as one Spark job.

    Parameters:
        first: rows that the first batch has besides its own.
    """

    first: DataFrame | None = None

    def run(self, rows: DataFrame | NoRows, stages: Stages) -> list[str]:
        """Run a batch; the reports that its tasks returned.

        If shuffled rows are lost with their machine and come out differently when they are made again,
        Spark goes back; but if tasks of the last stage have ended by then, it gives up and says that
        the query should be run again. Parts of states may come out differently: sums of floating-point
        numbers that arrived in another order. A batch that is run again gives the same answer, so do
        what it says.
        """
        if self.first is not None and stages.batch is not None and stages.batch.number == 0:
            own = None if isinstance(rows, NoRows) else rows
            rows = self.first if own is None else own.unionByName(self.first)
        for left in reversed(range(TRIES)):
            try:
                frame = _idle(rows, stages) if isinstance(rows, NoRows) else frame_of(rows, stages)
                with described(rows.sparkSession, stages.plan):
                    reports = frame.toArrow().column(REPORT).to_pylist()
                    if not reports:
                        # Nothing came out of the shuffle, and adaptive execution has left the owners
                        # out.
                        frame = _idle(NoRows(rows.sparkSession), stages)
                        reports = frame.toArrow().column(REPORT).to_pylist()
                return [str(report) for report in reports]
            except Exception as error:
                if not left or not _GAVE_UP.search(str(error)):
                    raise
        raise AssertionError("unreachable")

    def survey(self, rows: DataFrame | NoRows, job: Job) -> KeySurvey | None:
        from evenflow.spark.surveying import surveyed_keys

        return None if isinstance(rows, NoRows) else surveyed_keys(rows, job)[0]

    def session(self, rows: DataFrame | NoRows) -> SparkSession:
        return rows.sparkSession


def _idle(rows: NoRows, stages: Stages) -> DataFrame:
    """The reports of the owners, none of whom gets rows."""
    partitions = stages.plan.partitions
    one_each = rows.sparkSession.range(0, partitions, 1, partitions)
    return one_each.mapInArrow(InPartition(Idle(stages.own)), _report_schema())


@cache
def _report_schema() -> StructType:
    """Of the one column of reports. Spark would parse a text in every batch, which takes ten calls."""
    from pyspark.sql.types import StringType, StructField, StructType

    return StructType([StructField(REPORT, StringType())])


def frame_of(
    df: DataFrame, stages: Stages, loads: Observation | None = None, order: Sequence[Any] = ()
) -> DataFrame:
    """The rows after route, shuffle, work and merge: reports in a streaming query, else output.

    Parameters:
        df: the rows.
        stages: of the batch.
        loads: is filled with the number of rows that each partition was sent.
        order: by which the rows of a key are sorted, in a batch DataFrame.
    """
    job = stages.job
    names = tuple(job.rows.names)
    rows = neutral_columns(df, names)
    # Only those need fingerprints who hand states on or store them.
    fingerprints = stages.batch is not None or stages.split is not None or bool(stages.route.split)
    routed = shuffled(rows, names, stages.route, fingerprints, loads)
    if stages.batch is None and stages.split is None:
        routed = sorted_rows(routed, names, job.key if job.work.sorted_by_key else (), order)
    code = code_for_values(tuple(job.rows.field(name).type for name in job.work.fingerprinted()))
    if stages.split is not None:
        parts = job.parts_schema()
        split = InPartition(stages.split, names, code)
        names = tuple(parts.names[_OWN_OF_PARTS:])
        schema = spark_schema(with_neutral_names(parts, _OWN_OF_PARTS))
        routed = routed.mapInArrow(split, schema)
        routed = routed.repartitionById(stages.plan.partitions, PARTITION)
    own = InPartition(stages.own, names, code)
    if stages.batch is not None:
        return routed.mapInArrow(own, _report_schema())
    output = job.output_schema()
    result = routed.mapInArrow(own, spark_schema(with_neutral_names(output)))
    return result.toDF(*output.names)


def neutral_columns(df: DataFrame, names: Sequence[str]) -> DataFrame:
    """These columns, under names that Spark does not look into."""
    return df.select(*(df[quoted(name)].alias(neutral(i)) for i, name in enumerate(names)))


def sorted_rows(
    rows: DataFrame, names: tuple[str, ...], keys: Sequence[str], order: Sequence[Any]
) -> DataFrame:
    """The rows, sorted within partitions.

    Parameters:
        rows: with neutral names, maybe after columns of our own.
        names: the user's names.
        keys: the first columns to sort by.
        order: further columns of the user's.
    """
    if not order:
        columns = [neutral(names.index(name)) for name in keys]
        return rows.sortWithinPartitions(*columns) if columns else rows
    ours = rows.columns[: len(rows.columns) - len(names)]
    try:
        named = rows.toDF(*ours, *names)
        return named.sortWithinPartitions(*map(quoted, keys), *order).toDF(*rows.columns)
    except Exception as error:
        raise InputError(
            f"orderBy: {next(iter(str(error).splitlines()), error)}; the columns to sort by must be "
            "among those that the operator reads: add them to its columns, and keep them in the "
            "DataFrame"
        ) from error


def shuffled(
    rows: DataFrame,
    names: tuple[str, ...],
    route: Route,
    fingerprints: bool,
    loads: Observation | None,
) -> DataFrame:
    """The rows, each in its partition.

    Where a key has one owner, by its hash or by the routing table, Spark's own expressions know it, and
    no row visits Python; but for long tables of a stream.
    """
    key = [neutral(names.index(name)) for name in route.key]
    # A stream may have another table in each batch, and Spark reads a large one longer than Python.
    short = not fingerprints or len(route.entries) <= _FEW_ENTRIES
    native = short and route.by_owner and can_route([rows.schema[name].dataType for name in key])
    owners = (rows, key, route.partitions, route.seed)
    if native and loads is None:
        return shuffled_by_owner(*owners, fingerprints, route.entries)
    if native:
        routed = routed_by_owner(*owners, route.entries)
    else:
        task = source_task(route, rows, names, route.key)
        routed = rows.mapInArrow(task, _routed_schema(rows))
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
