"""From what was asked for to the engine: the job, its result for a batch DataFrame, its query."""

from __future__ import annotations

import difflib
import importlib.util
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from evenflow.engine.job import Job, check_fit
from evenflow.engine.plans import first_plan
from evenflow.engine.program import KeyedProgram, Stages
from evenflow.engine.resuming import resumed
from evenflow.engine.work import Work
from evenflow.grouping.protocol import GroupingScheme
from evenflow.model import InputError, Plan
from evenflow.spark.checkpointed_query import start_checkpointed
from evenflow.spark.columns import is_connect, spark_schema
from evenflow.spark.displays import observed
from evenflow.spark.execution import OnSpark, frame_of
from evenflow.spark.metrics_endpoint import ServedMetrics
from evenflow.spark.names import SIDE, check_names, check_output
from evenflow.spark.output_places import (
    check_apart,
    check_store_options,
    dead_letters_of,
    discard_uncommitted,
    take_places,
)
from evenflow.spark.preflight import preflight, try_store
from evenflow.spark.query import StreamingQuery
from evenflow.spark.sinks import Target
from evenflow.spark.sinks.finding import is_temporary, sink_of
from evenflow.spark.stateful.ticks import start_with_all_available, with_ticks
from evenflow.spark.stream_writer import OnBatch, StreamSettings
from evenflow.state.checkpoint import Checkpoint
from evenflow.state.leftovers import drop_uncommitted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Observation

    from evenflow.planning.controller import Replanning
    from evenflow.planning.scaling import Scaling

_LOCATION = "spark.sql.streaming.checkpointLocation"  # Spark's own setting for all queries


def build_job(
    schema: pa.Schema,
    keys: tuple[str, ...],
    work: Work,
    *,
    scheme: GroupingScheme | None,
    partitions: int,
    seed: int,
    replanning: Replanning | None,
    scaling: Scaling | None = None,
) -> Job:
    """The computation without its data, checked.

    Parameters:
        schema: of the DataFrame.
        keys: its key columns.
        work: what happens to the rows of a key.
        scheme, partitions, seed, replanning, scaling: as in `Job`.
    """
    if scheme is not None:
        check_fit(work, scheme)
    if replanning is not None and scheme is not None and scheme.name != "table":
        raise InputError(
            f"replan: the scheme {scheme.name!r} has no routing table to plan; balance with "
            '"table" or "auto"'
        )
    wanted = work.columns()
    names = list(schema.names if wanted is None else dict.fromkeys([*keys, *wanted]))
    # A join of two DataFrames has added its own column by now, and looked at theirs before.
    own = {*work.added, *([] if work.sources == 1 else [SIDE])}
    check_names(name for name in names if name not in own)
    rows = pa.schema([schema.field(str(name)).with_nullable(True) for name in names])
    job = Job(
        key=keys,
        rows=rows,
        work=work,
        scheme=scheme,
        partitions=partitions if scaling is None else scaling.within(partitions),
        seed=seed,
        replanning=replanning,
        scaling=scaling,
    )
    _check_key_types(job)
    job.output_schema()
    return job


def default_partitions(df: DataFrame) -> int:
    """As many partitions as Spark has cores; on Spark Connect, where that is hidden, as many as its
    shuffles have."""
    try:
        return int(df.sparkSession.sparkContext.defaultParallelism)
    except Exception:
        return shuffle_partitions(df)


def shuffle_partitions(df: DataFrame) -> int:
    """As many partitions as Spark's own joins and aggregates have."""
    return int(df.sparkSession.conf.get("spark.sql.shuffle.partitions") or 200)


def batch_plan(df: DataFrame, job: Job) -> Plan:
    """How the rows of a batch DataFrame are spread, and why.

    Under the schemes "auto" and "table", a Spark job reads the key columns once, unless there is but
    one partition, or "auto" knows that no keys could make it pay.
    """
    plan = first_plan(job)
    if plan.partitions == 1 or (job.scheme is not None and job.scheme.name != "table"):
        return plan
    from evenflow.spark.surveying import survey_plan

    return survey_plan(df, job, plan, default_partitions(df))


def batch_frame(
    df: DataFrame,
    job: Job,
    plan: Plan,
    loads: Observation | None = None,
    order: Sequence[Any] = (),
) -> DataFrame:
    """The result for a batch DataFrame, one row per key; nothing runs until it is used.

    Parameters:
        loads: is filled with the rows of each partition once the result is computed.
        order: by which the rows of a key are sorted.
    """
    return frame_of(df, Stages.of(job, plan), loads, order)


def start_query(
    df: DataFrame, job: Job, settings: StreamSettings, first: DataFrame | None = None
) -> StreamingQuery:
    """Start the streaming query of a job.

    Parameters:
        df: the streaming DataFrame.
        settings: where the output goes, and how often.
        first: rows that the first batch has besides its own.
    """
    check_output(job.output_schema().names, settings.format, settings.name)
    df = observed(df, job.key)
    ticking = with_ticks(df) if job.work.in_processing_time else df
    waits = ticking is not df and settings.available_now
    df = ticking
    target = Target(
        format="",
        schema=spark_schema(job.output_schema()),
        spark=df.sparkSession,
        path=settings.path,
        table=settings.table,
        options=settings.format_options,
        partition_by=settings.partition_by,
        name=settings.name,
        connect=is_connect(df),
        storage_options=settings.storage_options,
    )
    for column in settings.partition_by:
        if column not in target.schema.names:
            raise InputError(
                f"partitionBy: the output has no column {column!r}; there are "
                f"{', '.join(target.schema.names)}"
            )
    if job.scaling is not None and settings.available_now:
        # All that is there is waiting: fewer partitions would only make it wait longer.
        job = replace(job, scaling=replace(job.scaling, shrinks=False))
    keep, location = settings.keep, _checkpoint_location(df, settings)
    check_store_options(location, settings)
    letters = dead_letters_of(job, target, settings)
    sink = sink_of(settings.format, target)

    def program(checkpoint: Checkpoint) -> KeyedProgram:
        today = resumed(job, checkpoint)
        storage = checkpoint.storage
        places = [sink, *([] if letters is None else [letters.sink])]
        check_apart(checkpoint.location, places)
        staging = [place.staging(storage) for place in places]
        for store in staging:
            if store != storage and store.concurrency > 1:
                try_store(store)
        preflight(df.sparkSession, [storage, *staging])
        take_places(checkpoint, sink, letters)
        drop_uncommitted(checkpoint, *staging)
        if letters is not None:
            discard_uncommitted(letters, checkpoint)
        return KeyedProgram(today, sink, OnSpark(first), settings.name, letters)

    served = _served_metrics(df, location, settings)
    checkpointed = partial(
        start_checkpointed,
        df,
        location,
        job.identity(),
        program,
        partitions=job.partitions_asked,
        every=settings.every,
        available_now=settings.available_now,
        name=settings.name,
        keep=keep,
        lease_seconds=settings.lease_seconds,
        storage_options=settings.storage_options,
        closes_without_rows=job.work.closes_without_rows,
    )

    def start(on_batch: OnBatch | None) -> StreamingQuery:
        starting = partial(checkpointed, on_batch=on_batch)
        return start_with_all_available(df.sparkSession, starting) if waits else starting()

    if served is None:
        return start(settings.on_batch)
    try:
        query = start(served.beside(settings.on_batch))
    except BaseException:
        served.close()
        raise
    served.while_active(lambda: query.isActive)
    return query


def _served_metrics(df: DataFrame, location: str, settings: StreamSettings) -> ServedMetrics | None:
    """The metrics as Prometheus reads them, where the query has a port for them."""
    place = settings.metrics_at
    if place is None:
        return None
    if is_connect(df):
        raise InputError(
            'option "metricsPort" is not available on Spark Connect, where batches run in a process of '
            "the server; `evenflow dashboard` serves /metrics of any checkpoint"
        )
    if importlib.util.find_spec("prometheus_client") is None:
        raise InputError(
            'option "metricsPort" needs prometheus-client; install it with '
            "pip install 'evenflow[prometheus]'"
        )
    name = settings.name or location.rstrip("/").rpartition("/")[2]
    return ServedMetrics(name, *place)


def _checkpoint_location(df: DataFrame, settings: StreamSettings) -> str:
    """The option's; else a folder of Spark's own setting for all queries; else, where the output does
    not outlive the process either, a temporary directory."""
    given = settings.options.get("checkpointlocation")
    if given is not None:
        return given
    common = df.sparkSession.conf.get(_LOCATION, None)
    if common and settings.name is not None:
        return f"{common.rstrip('/')}/{settings.name}"
    if settings.table is None and is_temporary(settings.format):
        return tempfile.mkdtemp(prefix="evenflow-checkpoint-")
    near = difflib.get_close_matches("checkpointlocation", settings.format_options, 1)
    raise InputError(
        'a checkpoint location is needed, where state is kept; add .option("checkpointLocation", '
        '"path/to/checkpoint")' + "".join(f" in place of {name!r}" for name in near)
    )


def _check_key_types(job: Job) -> None:
    from evenflow.kernels.fingerprints import fingerprint

    for name in job.key:
        try:
            fingerprint(pa.array([], job.rows.field(name).type))
        except InputError as error:
            raise InputError(f"column {name!r} cannot be a key: {error}") from None
