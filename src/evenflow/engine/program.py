"""A batch of a keyed query: plan, tasks, output, observe, next plan."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from evenflow.engine.auto import (
    MEMORY,
    KeySurvey,
    choose_next,
    is_open,
    learned,
    survey_pays,
)
from evenflow.engine.batch import Batch
from evenflow.engine.batch_log import log_dead_letters, log_plan_change
from evenflow.engine.dead_letters import (
    TOTAL,
    DeadLetters,
    LetterBox,
    letter_schema,
    limit_reached,
)
from evenflow.engine.due_keys import due_after
from evenflow.engine.event_time import Watermarks, event_time_after, event_time_metrics
from evenflow.engine.job import Job
from evenflow.engine.key_costs import read_costs
from evenflow.engine.loop import Outcome, Steps
from evenflow.engine.output import Output, Sink
from evenflow.engine.plans import fits, following_plan, moves_of, next_plan, owners_of, scheme_of
from evenflow.engine.reports import Reports, batch_metrics
from evenflow.engine.routing import Route, tasks_of
from evenflow.engine.sizing import follow_load, hottest_share, interval_of, next_size
from evenflow.engine.stored_state import KEY
from evenflow.engine.work import OwnerTask, SplitTask
from evenflow.grouping.table import TableRouting
from evenflow.model import Plan
from evenflow.model.owners import Owners
from evenflow.planning.controller import Controller, Decision, Replanning
from evenflow.planning.memory import Memory
from evenflow.state.checkpoint import Checkpoint
from evenflow.state.expiry import unexpired
from evenflow.state.journal import fixed_plan, withdraw_plan
from evenflow.state.manifest import Manifest
from evenflow.state.segments import Segment
from evenflow.state.source import Source, moment_in
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
        route = Route.under(plan, scheme, job.key, number, job.work.side)
        # Tasks that do not route get no scheme: to unpickle one, they would have to load the compiler.
        job = replace(job, scheme=None, replanning=None)
        split = SplitTask(job, Owners.of(plan), batch) if scheme.splits_keys else None
        return cls(job, plan, route, split, OwnerTask(job, split is not None, batch), batch)


class Executor(Protocol):
    """Runs the tasks of a batch: Spark, or this process."""

    def run(self, rows: Any, stages: Stages) -> list[str]:
        """Run all stages on the rows of a batch; the reports that the owners returned."""
        ...

    def survey(self, rows: Any, job: Job) -> KeySurvey | None:
        """The keys of a batch before it is routed; None where there are none to look at."""
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
        dead_letters: for rows that the operator fails for; None to stop at the first of them.
    """

    job: Job
    sink: Sink
    executor: Executor
    name: str | None = None
    dead_letters: DeadLetters | None = None

    def run(
        self,
        checkpoint: Checkpoint,
        last: Manifest | None,
        rows: Any,
        batch: int,
        steps: Steps,
        source: Source,
    ) -> Outcome:
        size = next_size(self.job, checkpoint.storage, last)
        plan, scheme, context = self._begin(checkpoint, last, rows, batch, source, size.partitions)
        steps.done("plan")
        stages = Stages.of(self.job, plan, batch, context)
        try:
            reports = Reports.read(self._reports(rows, stages))
            reports.require_owners(plan.partitions)
            letters = reports.letters()
            set_aside = _count_letters(last, context, letters)
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
        session = self.executor.session(rows)
        if letters and self.dead_letters is not None and context.letters is not None:
            # With the batch, as its output: a batch that is run again has the same.
            rejected = replace(
                output,
                storage=context.letters.storage,
                files=[file["file"] for file in letters],
                schema=letter_schema(self.job),
            )
            self.dead_letters.sink.deliver(rejected, session)
        self.sink.deliver(output, session)
        steps.done("sink")
        costs = [r["costs"] for r in reports.state if r.get("costs")]
        decision, memory = self._decide(plan, scheme, context, costs, last)
        choice = None
        if is_open(self.job):
            prices = learned({} if last is None else last.memory)
            taken = steps.seconds["tasks"]
            choice, prices = choose_next(self.job, plan, scheme, reports, taken, prices)
            memory = {**memory, MEMORY: prices.to_json()}
        following = following_plan(self.job, plan, reports, decision, batch + 1, choice)
        hottest = hottest_share(plan, scheme, reports)
        seen = interval_of(reports, source, last, checkpoint.fence, hottest)
        following, sized, known = follow_load(size, following, last, seen)
        segments = unexpired(segments_after(context, reports), context.watermarks.closed)
        tasks = tasks_of(scheme, plan.partitions)
        event_time = event_time_after(self.job, context.watermarks, reports.work)
        metrics = {
            **batch_metrics(batch, plan, reports, segments, steps.seconds, tasks),
            **event_time_metrics(reports.work, reports.state, segments, event_time),
            **set_aside,
            KEY: list(self.job.key),
            "planning": None if decision is None else decision.to_dict(),
            **sized,
        }
        if context.storage.concurrency > 1:
            metrics["requests"] = {"tasks": reports.requests()}
        steps.done("observe")
        manifest = Manifest(
            batch=batch,
            plan=following.to_dict(),
            owners=_owners_after(last, context),
            segments=segments,
            due=due_after(self.job, context, reports),
            output=tuple(files),
            metrics=metrics,
            event_time=event_time,
            memory=memory,
            scaling=known,
        )
        staged = [(context.output, file["file"]) for file in files]
        staged += [(checkpoint.storage, name) for name in (*costs, *_filed(stages))]
        if context.letters is not None:
            staged += [(context.letters.storage, file["file"]) for file in letters]

        def committed() -> None:
            log_plan_change(plan, following, self.name)
            log_dead_letters(batch, letters, self.name)

        return Outcome(manifest, staged, committed)

    def _begin(
        self,
        checkpoint: Checkpoint,
        last: Manifest | None,
        rows: Any,
        batch: int,
        source: Source,
        partitions: int,
    ) -> tuple[Plan, GroupingScheme, Batch]:
        """The plan of a batch, written down before it is first used, and what its tasks begin with."""
        storage = checkpoint.storage
        survey = None
        if last is None and survey_pays(self.job, partitions, stream=True):
            survey = self.executor.survey(rows, self.job)
        wanted = next_plan(self.job, last, partitions, survey)
        plan = fixed_plan(storage, batch, wanted)
        if not fits(self.job, plan):  # of a version before, which could split keys
            withdraw_plan(storage, batch)
            plan = fixed_plan(storage, batch, wanted)
        context = Batch(
            number=batch,
            storage=cached(storage),
            output=self.sink.staging(storage),
            segments=() if last is None else tuple(last.segments),
            owners=owners_of(last, plan),
            epoch=plan.epoch,
            watermarks=Watermarks() if last is None else Watermarks.after(last.event_time),
            moment=source.moment,
            moment_before=None if last is None else moment_in(last.source.get("offsets", "")),
            due=() if last is None else tuple(last.due),
            attempt=checkpoint.fence,
            letters=self._letter_box(storage, last),
            split=plan.split,
            **moves_of(last, plan),
        )
        return plan, scheme_of(self.job, plan), context

    def _letter_box(self, storage: Storage, last: Manifest | None) -> LetterBox | None:
        if self.dead_letters is None:
            return None
        limit = self.dead_letters.limit
        left = max(limit - _set_aside_so_far(last), 0)
        return LetterBox(self.dead_letters.sink.staging(storage), left, limit)

    def _reports(self, rows: Any, stages: Stages) -> list[str]:
        """What the tasks report: the owners among their rows, the others in files."""
        reports = self.executor.run(rows, stages)
        assert stages.batch is not None
        storage = stages.batch.storage
        filed = together(storage, [partial(_read_report, storage, name) for name in _filed(stages)])
        return [*reports, *(report for report in filed if report is not None)]

    def _decide(
        self,
        plan: Plan,
        scheme: GroupingScheme,
        batch: Batch,
        costs: Sequence[str],
        last: Manifest | None,
    ) -> tuple[Decision | None, dict[str, Any]]:
        """What the controller makes of what each key has cost, where a table routes, and what it is to
        remember: it begins with what the last manifest says, never with what this process has seen."""
        if not isinstance(scheme, TableRouting) or scheme.plans_itself:
            return None, {}
        home = Owners(plan.partitions, plan.seed, buckets=plan.buckets)
        memory = Memory() if last is None else Memory.from_json(last.memory)
        seen = read_costs(batch.storage, costs, memory.past)
        controller = Controller(self.job.replanning or Replanning(), memory)
        decision = controller.decide(seen, home, plan.table, plan.partitions, scheme.limit)
        return decision, controller.memory.to_json()


def _owners_after(last: Manifest | None, batch: Batch) -> dict[int, Any]:
    """The owners of each epoch once a batch is done.

    Those that the last manifest has are its own objects, which several manifests in memory then share.
    """
    before: Mapping[Any, Any] = {} if last is None else last.owners
    after = {e: owners.to_json() for e, owners in batch.owners.items() if e != batch.superseded}
    return {e: before[e] if before.get(e) == owners else owners for e, owners in after.items()}


def _set_aside_so_far(last: Manifest | None) -> int:
    return 0 if last is None else int(last.metrics.get(TOTAL, 0))


def _count_letters(
    last: Manifest | None, batch: Batch, letters: Sequence[Mapping[str, Any]]
) -> dict[str, int]:
    """What the metrics say of rows that were set aside; an error if they are too many."""
    so_far = _set_aside_so_far(last)
    if batch.letters is None:
        return {TOTAL: so_far} if so_far else {}
    rows = sum(file["rows"] for file in letters)
    if rows > batch.letters.left:
        raise limit_reached(batch.letters.limit, letters[0]["first"])
    return {"dead_letters": rows, TOTAL: so_far + rows}


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
    left = batch.under_new_epoch(s for s in batch.segments if s.file not in consumed)
    if batch.retiring is not None:
        file, retired = batch.retiring
        left = [
            replace(segment, epochs=tuple(sorted(set(segment.epochs) - set(retired))))
            if segment.file == file
            else segment
            for segment in left
        ]
        left = [segment for segment in left if segment.epochs]  # else nobody finds a row in it
    new = [Segment.from_json(r["segment"]) for r in reports.state if r["segment"]]
    return (*left, *new)
