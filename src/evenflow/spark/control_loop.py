"""The loop on Spark: one turn is one micro-batch.

    source ─▶ route ─▶ shuffle ─▶ work ─▶ merge ─▶ output
                ▲                    │ statistics
                └──── new plan ◀── plan ◀── observe

A batch is computed from the manifest of the batch before, its plan, which is written down before it is
first used, and its rows. Nothing else: no clock, no counter, no variable of the driver. So a batch that
is run again, by this driver or by the next one, gives the same state and the same output.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evenflow.engine.event_time import Watermarks, event_time_after, event_time_metrics
from evenflow.engine.job import FINGERPRINT, REPORT, WORKER, Job, quoted
from evenflow.engine.observing import Reports, batch_metrics
from evenflow.engine.plans import following_plan, moves_of, next_plan, owners_of
from evenflow.engine.routing import Route
from evenflow.engine.statistics import read_statistics
from evenflow.engine.work import Store, filed_reports
from evenflow.engine.work_of_a_job import owner_work, split_work
from evenflow.grouping.protocol import GroupingScheme
from evenflow.grouping.table import TableRouting
from evenflow.model import InputError
from evenflow.model.owners import Owners
from evenflow.model.plan import Plan
from evenflow.planning.controller import Controller, Decision, Replanning
from evenflow.spark.native_routing import can_route, routed_by_owner, shuffled_by_owner
from evenflow.spark.sinks import Output, Sink, clear_staging
from evenflow.state.checkpoint import Checkpoint
from evenflow.state.expiry import unexpired
from evenflow.state.journal import append_metrics, fixed_plan, forget_plans, wished_workers
from evenflow.state.manifest import Manifest
from evenflow.state.segments import Segment

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, Observation

COLLECT_EVERY = 16  #: batches between two collections of garbage
TRIES = 4  #: of a batch that Spark wants to be run again; as many as it gives a stage

_GAVE_UP = re.compile(r"cannot rollback|rollback failed|rolling back", re.IGNORECASE)


class Steps:
    """How long each step of a batch took."""

    def __init__(self) -> None:
        self.began = time.time()
        self.seconds: dict[str, float] = {}
        self._last = time.perf_counter()

    def done(self, step: str) -> None:
        now = time.perf_counter()
        self.seconds[step] = self.seconds.get(step, 0.0) + now - self._last
        self._last = now


@dataclass(frozen=True)
class ControlLoop:
    """What `foreachBatch` is given: turns one micro-batch after the other into state and output.

    Parameters:
        job: the computation.
        checkpoint: the directory of all that must outlive the driver.
        sink: where output goes.
        on_batch: called with the metrics of each batch, after it was committed.
        keep: how many old versions of the state stay.
    """

    job: Job
    checkpoint: str
    sink: Sink
    on_batch: Callable[[Mapping[str, Any]], object] | None = None
    keep: int = 10

    def __call__(self, df: DataFrame, batch: int) -> None:
        steps = Steps()
        checkpoint = Checkpoint.open(self.checkpoint)
        last = checkpoint.last()
        if last is not None and last.batch >= batch:
            return  # committed; the driver died before Spark knew
        _check_sequence(self.checkpoint, last, batch)
        workers = wished_workers(checkpoint.directory, self.job.workers)
        plan = fixed_plan(checkpoint.directory, batch, next_plan(self.job, last, workers))
        staging = self.sink.staging(checkpoint.directory / "staging")
        staging.mkdir(parents=True, exist_ok=True)
        store = Store(
            directory=str(checkpoint.segments_directory),
            segments=() if last is None else tuple(last.segments),
            owners=owners_of(last, plan),
            epoch=plan.epoch,
            batch=batch,
            staging=str(staging),
            watermarks=Watermarks() if last is None else Watermarks.after(last.event_time),
            **moves_of(last, plan),
        )
        scheme = scheme_of(self.job, plan)
        steps.done("plan")
        filed = filed_reports(store, tasks_of(scheme, plan.workers)) if scheme.splits_keys else []
        reports = _told(lambda: worked(df, self.job, plan, scheme, batch, store), filed)
        steps.done("spark")
        files = [r["output"] for r in reports.state if r["output"]]
        paths = [staging / file["file"] for file in files]
        self.sink.deliver(
            Output(batch, paths, self.job.output_schema(), checkpoint.query), df.sparkSession
        )
        steps.done("sink")
        counted = [staging / r["counted"] for r in reports.state if r.get("counted")]
        decision = self._decided(plan, scheme, counted)
        following = following_plan(self.job, plan, reports, decision)
        tasks = tasks_of(scheme, plan.workers)
        segments = unexpired(segments_after(store, reports), store.watermarks.closed)
        metrics = batch_metrics(batch, plan, reports, segments, steps.seconds, tasks)
        metrics["began"] = steps.began
        event_time = event_time_after(self.job, store.watermarks, reports.work)
        metrics |= event_time_metrics(reports.work, reports.state, segments, event_time)
        metrics["planning"] = None if decision is None else decision.to_dict()
        steps.done("observe")
        manifest = Manifest(
            batch=batch,
            plan=following.to_dict(),
            placements={
                epoch: owners.to_json()
                for epoch, owners in store.owners.items()
                if epoch != store.superseded
            },
            segments=segments,
            output=tuple(files),
            metrics=metrics,
            event_time=event_time,
        )
        checkpoint.commit(manifest)
        steps.done("commit")
        for path in (*paths, *filed, *counted):
            path.unlink(missing_ok=True)
        append_metrics(checkpoint.directory, {**metrics, "durations": steps.seconds})
        if batch % COLLECT_EVERY == COLLECT_EVERY - 1:
            checkpoint.retain(self.keep)
            checkpoint.collect_garbage()
            forget_plans(checkpoint.directory, batch)
            clear_staging(staging, batch)
        if self.on_batch is not None:
            self.on_batch({**metrics, "durations": steps.seconds})

    def _decided(
        self, plan: Plan, scheme: GroupingScheme, counted: Sequence[Path]
    ) -> Decision | None:
        """What the controller makes of what the workers have counted, where a table routes."""
        if not isinstance(scheme, TableRouting):
            return None
        home = Owners(plan.workers, plan.seed, buckets=plan.buckets)
        seen = read_statistics(counted)
        return self._controller.decide(seen, home, plan.table, plan.workers, scheme.limit)

    @cached_property
    def _controller(self) -> Controller:
        return Controller(self.job.replanning or Replanning())


def _told(batch: Callable[[], DataFrame], filed: Sequence[Path]) -> Reports:
    """Run a batch on Spark; what its tasks have told.

    If shuffled rows are lost with their machine and come out otherwise when they are made again, Spark
    goes back; but if tasks of the last stage have ended by then, it gives up and says that the query
    be run again. Parts of states may come out otherwise: sums of floating-point numbers that came in
    another order. A batch that is run again gives the same answer, so do what it says.

    Parameters:
        batch: makes the DataFrame of reports.
        filed: where more reports may lie.
    """
    for left in reversed(range(TRIES)):
        try:
            told = batch().toArrow().column(REPORT).to_pylist()
            more = [file.read_text(encoding="utf-8") for file in filed if file.exists()]
            return Reports.read([*told, *more])
        except Exception as error:
            if not left or not _GAVE_UP.search(str(error)):
                raise
    raise AssertionError("unreachable")


def scheme_of(job: Job, plan: Plan) -> GroupingScheme:
    """The scheme that routes under this plan."""
    from evenflow.grouping import make

    if job.scheme is not None and job.scheme.name == plan.scheme:
        return job.scheme
    return make(plan.scheme)


def tasks_of(scheme: GroupingScheme, workers: int) -> int:
    """How many tasks the work is cut into: as many as workers, or as virtual workers."""
    return workers * getattr(scheme, "virtual", 1)


def worked(
    df: DataFrame,
    job: Job,
    plan: Plan,
    scheme: GroupingScheme,
    batch: int,
    store: Store | None,
    loads: Observation | None = None,
) -> DataFrame:
    """The batch after route, shuffle, work and merge: reports where there is a store, else output.

    `loads` is filled with the number of rows that each worker was sent.
    """
    from pyspark.sql.pandas.types import from_arrow_schema

    routed_by, tasks = _on_spark(scheme, plan.workers)
    columns = [df[quoted(name)] for name in job.rows.names]
    route = Route(routed_by, tasks, plan.seed, job.key, plan.hot, batch, plan.table, plan.buckets)
    owners = Owners.of(plan)
    # Only those ask for fingerprints who hand states on or store them.
    fingerprints = store is not None or scheme.splits_keys
    routed = _shuffled(df.select(*columns), route, fingerprints, loads)
    # Tasks that do not route get no scheme: to unpickle one, they would have to load the compiler.
    job = replace(job, scheme=None, replanning=None)
    if scheme.splits_keys:
        parts = from_arrow_schema(job.parts_schema())
        routed = routed.mapInArrow(split_work(job, owners, store), parts)
        routed = routed.repartitionById(plan.workers, WORKER)
    schema = f"{REPORT} string" if store is not None else from_arrow_schema(job.output_schema())
    return routed.mapInArrow(owner_work(job, scheme.splits_keys, store), schema)


def _on_spark(scheme: GroupingScheme, workers: int) -> tuple[GroupingScheme, int]:
    """The scheme as Spark runs it, and the number of tasks.

    Consistent grouping moves virtual workers to machines that have time. A Spark task is pulled by
    whichever executor is free, which is just that: the virtual workers become tasks, filled evenly by
    the paper's own rule for them (PoRC, §V-B), and executors take as many as they can serve.
    """
    from evenflow.grouping import make

    if scheme.name != "consistent":
        return scheme, workers
    even = make("random-choices", epsilon=scheme.epsilon, patience=scheme.patience)  # type: ignore[attr-defined]
    return even, tasks_of(scheme, workers)


def _shuffled(
    rows: DataFrame, route: Route, fingerprints: bool, loads: Observation | None
) -> DataFrame:
    """The rows, each in the partition of its worker.

    Where a key has one owner, by its hash, Spark's own expressions know it, and the rows are spared a
    way through Python.
    """
    native = _by_hash_alone(route) and can_route([rows.schema[n].dataType for n in route.key])
    if native and loads is None:
        return shuffled_by_owner(rows, route.key, route.workers, route.seed, fingerprints)
    if native:
        routed = routed_by_owner(rows, route.key, route.workers, route.seed)
    else:
        routed = rows.mapInArrow(route, _routed_schema(rows))
    if loads is not None:
        routed = routed.observe(loads, *_row_counts(route.workers))
    if not fingerprints:
        routed = routed.drop(FINGERPRINT)
    # The worker's number has done its duty; Python need not be handed it for every row.
    return routed.repartitionById(route.workers, WORKER).drop(WORKER)


def _by_hash_alone(route: Route) -> bool:
    if isinstance(route.scheme, TableRouting):
        return not (route.table.entries or route.buckets)
    return route.scheme.name == "key"


def _routed_schema(rows: DataFrame) -> Any:
    from pyspark.sql.types import IntegerType, LongType, StructField, StructType

    return StructType(
        [
            StructField(WORKER, IntegerType()),
            StructField(FINGERPRINT, LongType()),
            *rows.schema.fields,
        ]
    )


def _row_counts(tasks: int) -> list[Column]:
    from pyspark.sql import functions as F

    return [F.count_if(F.col(WORKER) == i).alias(f"worker {i}") for i in range(tasks)]


def segments_after(store: Store, reports: Reports) -> tuple[Segment, ...]:
    """The segments after a batch: those that are left, under the epoch that holds now, and new ones."""
    consumed = {file for report in reports.state for file in report["consumed"]}
    left = [segment for segment in store.segments if segment.file not in consumed]
    if store.superseded is not None:
        left = [
            replace(segment, epochs=store.epochs([segment]))
            if store.superseded in segment.epochs
            else segment
            for segment in left
        ]
    new = [Segment.from_json(r["segment"]) for r in reports.state if r["segment"]]
    return (*left, *new)


def _check_sequence(path: str, last: Manifest | None, batch: int) -> None:
    expected = 0 if last is None else last.batch + 1
    if batch != expected:
        raise InputError(
            f"Spark is at batch {batch} and the state in {path} at batch {expected}: one of the two "
            "was changed by hand; restore the whole checkpoint directory, or start with a new one"
        )
