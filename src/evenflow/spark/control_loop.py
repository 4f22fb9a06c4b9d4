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
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evenflow.grouping.protocol import GroupingScheme
from evenflow.model import InputError
from evenflow.model.plan import Plan
from evenflow.planning.choosing import choose
from evenflow.spark.event_time import Watermarks, event_time_after, event_time_metrics
from evenflow.spark.job import FINGERPRINT, REPORT, WORKER, Job, quoted
from evenflow.spark.journal import append_metrics, fixed_plan, forget_plans
from evenflow.spark.native_routing import can_route, routed_by_owner
from evenflow.spark.observing import Reports, batch_metrics, remembered
from evenflow.spark.placement import Placement
from evenflow.spark.routing import Route
from evenflow.spark.sinks import Output, Sink, clear_staging
from evenflow.spark.state.checkpoint import Checkpoint
from evenflow.spark.state.expiry import unexpired
from evenflow.spark.state.manifest import Manifest
from evenflow.spark.state.segments import Segment
from evenflow.spark.work import Store, filed_reports
from evenflow.spark.work_of_a_job import owner_work, split_work

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
        plan = fixed_plan(checkpoint.directory, batch, self._plan(last))
        staging = self.sink.staging(checkpoint.directory / "staging")
        staging.mkdir(parents=True, exist_ok=True)
        store = Store(
            directory=str(checkpoint.segments_directory),
            segments=() if last is None else tuple(last.segments),
            owners=_owners(last, plan),
            epoch=plan.epoch,
            batch=batch,
            staging=str(staging),
            watermarks=Watermarks() if last is None else Watermarks.after(last.event_time),
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
        following = self._following(plan, reports)
        tasks = tasks_of(scheme, plan.workers)
        segments = unexpired(_segments(store.segments, reports), store.watermarks.closed)
        metrics = batch_metrics(batch, plan, reports, segments, steps.seconds, tasks)
        metrics["began"] = steps.began
        event_time = event_time_after(self.job, store.watermarks, reports.work)
        metrics |= event_time_metrics(reports.work, reports.state, segments, event_time)
        manifest = Manifest(
            batch=batch,
            plan=following.to_dict(),
            placements={epoch: owners.to_json() for epoch, owners in store.owners.items()},
            segments=segments,
            output=tuple(files),
            metrics=metrics,
            event_time=event_time,
        )
        checkpoint.commit(manifest)
        steps.done("commit")
        for path in (*paths, *filed):
            path.unlink(missing_ok=True)
        append_metrics(checkpoint.directory, {**metrics, "durations": steps.seconds})
        if batch % COLLECT_EVERY == COLLECT_EVERY - 1:
            checkpoint.retain(self.keep)
            checkpoint.collect_garbage()
            forget_plans(checkpoint.directory, batch)
            clear_staging(staging, batch)
        if self.on_batch is not None:
            self.on_batch({**metrics, "durations": steps.seconds})

    def _plan(self, last: Manifest | None) -> Plan:
        """What the batch should follow: the last plan, with what the user has changed since."""
        job = self.job
        if last is None:
            return first_plan(job)
        plan = Plan.from_dict(last.plan)
        if job.scheme is not None:
            plan = plan.followed_by(scheme=job.scheme.name, reason="asked for")
        return plan.followed_by(workers=job.workers, seed=job.seed)

    def _following(self, plan: Plan, reports: Reports) -> Plan:
        """The plan for the next batch, from what this one has shown."""
        hot = remembered(plan.hot, reports.hot(), reports.rows)
        if self.job.scheme is not None:
            return plan.followed_by(hot=hot)
        choice = choose(self.job.operator.mergeable, plan.workers, hot, plan.scheme)
        return plan.followed_by(hot=hot, scheme=choice.scheme, reason=choice.reason)


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


def first_plan(job: Job) -> Plan:
    """The plan of a query that has seen nothing yet."""
    if job.scheme is not None:
        return Plan(job.scheme.name, job.workers, job.seed, reason="asked for")
    reason = "the first batch: nothing is known of the keys yet"
    return Plan("key", job.workers, job.seed, reason=reason)


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
    route = Route(routed_by, tasks, plan.seed, job.key, plan.hot, batch)
    owners = Placement(plan.workers, plan.seed, plan.table.entries)
    routed = _routed(df.select(*columns), route)
    if loads is not None:
        routed = routed.observe(loads, *_row_counts(tasks))
    if store is None and not scheme.splits_keys:
        routed = routed.drop(FINGERPRINT)  # only those ask for it who hand states on or store them
    # The worker's number has done its duty; Python need not be handed it for every row.
    routed = routed.repartitionById(tasks, WORKER).drop(WORKER)
    # Tasks that do not route get no scheme: to unpickle one, they would have to load the compiler.
    job = replace(job, scheme=None)
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


def _routed(rows: DataFrame, route: Route) -> DataFrame:
    """The rows with worker and fingerprint. Where a key has one owner, by its hash, Spark's own
    expressions know them, and the rows are spared a way through Python."""
    key = [rows.schema[name].dataType for name in route.key]
    if route.scheme.name == "key" and can_route(key):
        return routed_by_owner(rows, route.key, route.workers, route.seed)
    return rows.mapInArrow(route, _routed_schema(rows))


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


def _owners(last: Manifest | None, plan: Plan) -> dict[int, Placement]:
    """Who owned which key in each epoch that some segment is of, and now."""
    now = Placement(plan.workers, plan.seed, plan.table.entries)
    if last is None:
        return {plan.epoch: now}
    live = {epoch for segment in last.segments for epoch in segment.epochs}
    before = {e: Placement.from_json(p) for e, p in last.placements.items() if e in live}
    return {**before, plan.epoch: now}


def _segments(before: tuple[Segment, ...], reports: Reports) -> tuple[Segment, ...]:
    consumed = {file for report in reports.state for file in report["consumed"]}
    new = [Segment.from_json(r["segment"]) for r in reports.state if r["segment"]]
    return (*(segment for segment in before if segment.file not in consumed), *new)


def _check_sequence(path: str, last: Manifest | None, batch: int) -> None:
    expected = 0 if last is None else last.batch + 1
    if batch != expected:
        raise InputError(
            f"Spark is at batch {batch} and the state in {path} at batch {expected}: one of the two "
            "was changed by hand; restore the whole checkpoint directory, or start with a new one"
        )
