"""A batch of a keyed query: plan, tasks, output, observe, next plan."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Protocol

from evenflow.engine.batch import Batch
from evenflow.engine.batch_log import log_plan_change
from evenflow.engine.event_time import Watermarks, event_time_after, event_time_metrics
from evenflow.engine.job import Job
from evenflow.engine.key_costs import read_costs
from evenflow.engine.loop import Outcome, Steps
from evenflow.engine.output import Output, Sink
from evenflow.engine.plans import following_plan, moves_of, next_plan, owners_of, scheme_of
from evenflow.engine.reports import Reports, batch_metrics
from evenflow.engine.routing import Route, tasks_of
from evenflow.engine.work import OwnerTask, SplitTask
from evenflow.grouping.table import TableRouting
from evenflow.model import Plan
from evenflow.model.owners import Owners
from evenflow.planning.controller import Controller, Decision, Replanning
from evenflow.state.checkpoint import Checkpoint
from evenflow.state.expiry import unexpired
from evenflow.state.journal import fixed_plan, requested_partitions, withdraw_plan
from evenflow.state.manifest import Manifest
from evenflow.state.segments import Segment
from evenflow.state.source import Source
from evenflow.storage import Storage, together
from evenflow.storage.cache import cached

if TYPE_CHECKING:
    from evenflow.grouping.protocol import GroupingScheme


@dataclass(frozen=True)
class Stages:
    """The tasks of a batch, one stage after the other, with a shuffle between.

    Parameters:
        job: the computation.
        plan: how the rows are routed.
        route: gives every row its partition, of `route.partitions`.
        split: the parts of states, where the scheme splits keys; None elsewhere.
        own: what the keys' owners do, in `plan.partitions` partitions.
        batch: of a streaming query; None for a batch DataFrame.
    """

    job: Job
    plan: Plan
    route: Route
    split: SplitTask | None
    own: OwnerTask
    batch: Batch | None

    @classmethod
    def of(cls, job: Job, plan: Plan, number: int = 0, batch: Batch | None = None) -> Stages:
        """The stages of a batch under a plan."""
        scheme = scheme_of(job, plan)
        route = Route.under(plan, scheme, job.key, number)
        # Tasks that do not route get no scheme: to unpickle one, they would have to load the compiler.
        job = replace(job, scheme=None, replanning=None)
        split = SplitTask(job, Owners.of(plan), batch) if scheme.splits_keys else None
        return cls(job, plan, route, split, OwnerTask(job, split is not None, batch), batch)


class Executor(Protocol):
    """Runs the tasks of a batch: Spark, or this process."""

    def run(self, rows: Any, stages: Stages) -> list[str]:
        """Run all stages on the rows of a batch; the reports that the owners returned."""
        ...

    def session(self, rows: Any) -> Any:
        """What sinks are given beside the output."""
        ...


@dataclass(frozen=True)
class KeyedProgram:
    """A keyed computation, batch by batch.

    Parameters:
        job: the computation.
        sink: where output goes.
        executor: who runs the tasks.
        name: of the query.
    """

    job: Job
    sink: Sink
    executor: Executor
    name: str | None = None

    def run(
        self,
        checkpoint: Checkpoint,
        last: Manifest | None,
        rows: Any,
        batch: int,
        steps: Steps,
        source: Source,
    ) -> Outcome:
        plan, scheme, context = self._begin(checkpoint, last, batch)
        steps.done("plan")
        stages = Stages.of(self.job, plan, batch, context)
        try:
            reports = Reports.read(self._reports(rows, stages))
        except Exception:
            checkpoint.confirm()
            withdraw_plan(checkpoint.storage, batch)
            raise
        steps.done("tasks")
        files = [r["output"] for r in reports.state if r["output"]]
        names = [file["file"] for file in files]
        output = Output(
            batch,
            context.output,
            names,
            self.job.output_schema(),
            checkpoint.query,
            source.origin(batch),
        )
        self.sink.deliver(output, self.executor.session(rows))
        steps.done("sink")
        costs = [r["costs"] for r in reports.state if r.get("costs")]
        decision = self._decide(plan, scheme, context, costs)
        following = following_plan(self.job, plan, reports, decision)
        segments = unexpired(segments_after(context, reports), context.watermarks.closed)
        tasks = tasks_of(scheme, plan.partitions)
        event_time = event_time_after(self.job, context.watermarks, reports.work)
        metrics = {
            **batch_metrics(batch, plan, reports, segments, steps.seconds, tasks),
            **event_time_metrics(reports.work, reports.state, segments, event_time),
            "planning": None if decision is None else decision.to_dict(),
        }
        if context.storage.concurrency > 1:
            metrics["requests"] = {"tasks": reports.requests()}
        steps.done("observe")
        manifest = Manifest(
            batch=batch,
            plan=following.to_dict(),
            owners={
                epoch: owners.to_json()
                for epoch, owners in context.owners.items()
                if epoch != context.superseded
            },
            segments=segments,
            output=tuple(files),
            metrics=metrics,
            event_time=event_time,
        )
        staged = [(context.output, file["file"]) for file in files]
        staged += [(checkpoint.storage, name) for name in (*costs, *_filed(stages))]
        changed = partial(log_plan_change, plan, following, self.name)
        return Outcome(manifest, staged, changed)

    def _begin(
        self, checkpoint: Checkpoint, last: Manifest | None, batch: int
    ) -> tuple[Plan, GroupingScheme, Batch]:
        """The plan of a batch, written down before it is first used, and what its tasks begin with."""
        storage = checkpoint.storage
        partitions = requested_partitions(storage, self.job.partitions)
        plan = fixed_plan(storage, batch, next_plan(self.job, last, partitions))
        context = Batch(
            number=batch,
            storage=cached(storage),
            output=self.sink.staging(storage),
            segments=() if last is None else tuple(last.segments),
            owners=owners_of(last, plan),
            epoch=plan.epoch,
            watermarks=Watermarks() if last is None else Watermarks.after(last.event_time),
            attempt=checkpoint.fence,
            **moves_of(last, plan),
        )
        return plan, scheme_of(self.job, plan), context

    def _reports(self, rows: Any, stages: Stages) -> list[str]:
        """What the tasks report: the owners among their rows, the others in files."""
        reports = self.executor.run(rows, stages)
        assert stages.batch is not None
        storage = stages.batch.storage
        filed = together(storage, [partial(_read_report, storage, name) for name in _filed(stages)])
        return [*reports, *(report for report in filed if report is not None)]

    def _decide(
        self, plan: Plan, scheme: GroupingScheme, batch: Batch, costs: Sequence[str]
    ) -> Decision | None:
        """What the controller makes of what each key has cost, where a table routes."""
        if not isinstance(scheme, TableRouting):
            return None
        home = Owners(plan.partitions, plan.seed, buckets=plan.buckets)
        seen = read_costs(batch.storage, costs)
        return self._controller.decide(seen, home, plan.table, plan.partitions, scheme.limit)

    @cached_property
    def _controller(self) -> Controller:
        return Controller(self.job.replanning or Replanning())


def _read_report(storage: Storage, name: str) -> str | None:
    try:
        return storage.read(name).decode()
    except FileNotFoundError:
        return None  # a task without rows may not have been run


def _filed(stages: Stages) -> list[str]:
    """The files in which tasks report that cannot do so among their rows."""
    if stages.split is None or stages.batch is None:
        return []
    return [stages.batch.report_of(partition) for partition in range(stages.route.partitions)]


def segments_after(batch: Batch, reports: Reports) -> tuple[Segment, ...]:
    """The segments after a batch: those that are left, under the epoch that holds now, and new ones."""
    consumed = {file for report in reports.state for file in report["consumed"]}
    left = [segment for segment in batch.segments if segment.file not in consumed]
    if batch.superseded is not None:
        left = [
            replace(segment, epochs=batch.epochs_after([segment]))
            if batch.superseded in segment.epochs
            else segment
            for segment in left
        ]
    new = [Segment.from_json(r["segment"]) for r in reports.state if r["segment"]]
    return (*left, *new)
