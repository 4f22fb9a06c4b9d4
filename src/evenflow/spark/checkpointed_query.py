"""One checkpointed query: open, identity, lease, batches in sequence, stop.

Keyed work and the gateway both run as one.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from evenflow.engine.loop import Loop, Metrics, Program
from evenflow.model import InputError
from evenflow.model.processes import identity as process_identity
from evenflow.model.validation import check_whole
from evenflow.spark.columns import is_connect
from evenflow.spark.execution import NoRows
from evenflow.spark.last_batch import LastBatch, closes_at_end
from evenflow.spark.locations import spark_address, storage_for
from evenflow.spark.preflight import try_store
from evenflow.spark.progress_log import PROGRESS, ProgressLog
from evenflow.spark.query import StreamingQuery
from evenflow.spark.session import check_session
from evenflow.spark.stopping import BatchGate, stoppable
from evenflow.spark.waiting import rows_waiting
from evenflow.state.checkpoint import Checkpoint
from evenflow.state.lease import SECONDS, new_holder
from evenflow.state.source import Source, topic_offsets

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery as SparkStreamingQuery

_LOG = logging.getLogger("evenflow.query")


def start_checkpointed(
    df: DataFrame,
    location: str,
    identity: Mapping[str, Any],
    program: Callable[[Checkpoint], Program],
    *,
    partitions: int | str,
    every: str | None = None,
    available_now: bool = False,
    name: str | None = None,
    on_batch: Callable[[Metrics], object] | None = None,
    keep: int = 10,
    lease_seconds: float = SECONDS,
    storage_options: Mapping[str, str] | None = None,
    closes_without_rows: bool = False,
) -> StreamingQuery:
    """Start a streaming query whose state, plans and progress are in a checkpoint.

    A query that finds a checkpoint goes on where it ended. Another query's checkpoint is refused, and
    so is one that a running query holds. A store that does not do what a commit needs is refused before
    Spark starts anything.

    Parameters:
        df: a streaming DataFrame.
        location: the checkpoint location, on any store that evenflow and Spark both reach.
        identity: what the state depends on; the same at every start.
        program: what happens in a batch, made once the checkpoint is held. It refuses the checkpoint of
            another computation (`evenflow.engine.resuming`).
        partitions: how many it is started with, or `auto`.
        every: how often a batch begins ("5 seconds"); None for as soon as the last one is done.
        available_now: process what is there, and end.
        name: of the query, for Spark's own displays and the log.
        on_batch: called with the metrics of every batch, once it is committed.
        keep: how many old versions of the state to keep.
        lease_seconds: how long it must not be heard of for another driver to take over.
        storage_options: for the store of the checkpoint, as in `storage_for`.
        closes_without_rows: whether a last batch without rows is run when all available rows are
            processed, to close what event time has passed.
    """
    if not df.isStreaming:
        raise InputError("this is not a streaming DataFrame; read it with spark.readStream")
    if every is not None and available_now:
        raise InputError("a query has one trigger: processingTime or availableNow")
    check_whole("keepVersions", keep, least=1)
    check_session(df.sparkSession)
    storage = storage_for(df.sparkSession, location, storage_options)
    if storage.concurrency > 1:  # what is wrong with a local disk, its first write tells as well
        try_store(storage)
    checkpoint = Checkpoint.open(storage, identity)
    lease = checkpoint.acquire(
        lease_seconds, holder=partial(new_holder, companion=_jvm_of(df.sparkSession))
    )
    try:
        made = program(checkpoint)
        progress = ProgressLog(storage.under(PROGRESS))
        progress.drop_unfinished()
        started: list[SparkStreamingQuery] = []
        source_of: Callable[[int], Source] = progress
        if not is_connect(df):
            source_of = partial(_with_waiting, progress, started)
        loop = Loop(made, checkpoint, on_batch, keep, source_of, without_rows=_without_rows)
        gate = None if is_connect(df) else BatchGate()
        each = stoppable(loop, gate, lambda: started[0] if started else None)
        # In full: to Spark, a path without a scheme is one of its default file system.
        writer = df.writeStream.foreachBatch(each)
        writer = writer.option(
            "checkpointLocation", spark_address(df.sparkSession, progress.storage.where())
        )
        if name is not None:
            writer = writer.queryName(name)
        if available_now:
            writer = writer.trigger(availableNow=True)
        elif every is not None:
            writer = writer.trigger(processingTime=every)
        query = writer.start()
        started.append(query)
        last = None
        if available_now and closes_without_rows and closes_at_end(df.sparkSession):
            last = LastBatch(query, partial(_run_last_batch, loop, df))
        lease.in_use = lambda: bool(query.isActive) or (last is not None and last.is_active)
        lease.keep_beating()
        _LOG.info("%s: started on checkpoint %s", name or query.id, checkpoint.location)
        return StreamingQuery(query, df.sparkSession, checkpoint, lease, partitions, gate, last)
    except BaseException:
        lease.release()
        raise


def _without_rows(rows: DataFrame) -> NoRows:
    return NoRows(rows.sparkSession)


def _with_waiting(progress: ProgressLog, started: list[SparkStreamingQuery], batch: int) -> Source:
    """The rows of a batch, with how many its topics held back."""
    source = progress(batch)
    if not started or not topic_offsets(source.offsets):
        return source
    return replace(source, waiting=rows_waiting(source, started[0].lastProgress))


def _run_last_batch(loop: Loop, df: DataFrame) -> None:
    """Run the batch without rows at the end."""
    from pyspark import cloudpickle

    if is_connect(
        df
    ):  # the batches ran in another process, and this one does not know what is newest
        loop = cloudpickle.loads(cloudpickle.dumps(loop))  # type: ignore[no-untyped-call]
    loop.close(NoRows(df.sparkSession))


def _jvm_of(spark: SparkSession) -> dict[str, Any] | None:
    """The JVM of a classic session.

    If its Python driver is killed, it notices a moment later. Until then it may write to Spark's own
    log, and Spark would stop a query that is started meanwhile.
    """
    if is_connect(spark):
        return None  # the server goes on, as it should
    handle: Any = spark.sparkContext._jvm
    return process_identity(int(handle.java.lang.ProcessHandle.current().pid()))
