"""How many partitions a batch has: as many as were asked for, or as many as the load calls for."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from evenflow.engine.job import Job
from evenflow.engine.plans import resized
from evenflow.engine.reports import Reports
from evenflow.model import Plan
from evenflow.model.plan import AUTO
from evenflow.planning.scaling import Interval, Scaling, ScalingMemory, decide_partitions
from evenflow.state.journal import requested_partitions
from evenflow.state.manifest import Manifest
from evenflow.state.source import Source, moment_in
from evenflow.storage import Storage

if TYPE_CHECKING:
    from evenflow.grouping.protocol import GroupingScheme


class Size(NamedTuple):
    """How many partitions a batch is to have.

    Parameters:
        partitions: how many.
        policy: what decides how many the next one has; None where the user has named a number.
    """

    partitions: int
    policy: Scaling | None = None


def next_size(job: Job, storage: Storage, last: Manifest | None) -> Size:
    """How many partitions the batch after `last` is to have.

    Where the load decides, the plan that `last` left has the number already: a driver that is restarted
    goes on as the one before would have.
    """
    asked = requested_partitions(storage, job.partitions_asked)
    if isinstance(asked, int):
        return Size(asked)
    policy = (job.scaling or Scaling()).starting_with(job.partitions)
    planned = job.partitions if last is None else Plan.from_dict(last.plan).partitions
    return Size(policy.within(planned), policy)


def interval_of(
    reports: Reports, source: Source, last: Manifest | None, fence: int, hottest: float
) -> Interval | None:
    """What a batch has shown of the load; None if that says nothing.

    Parameters:
        reports: of its tasks.
        source: which rows it had, and when it began.
        last: the manifest before it.
        fence: the number of the driver. The first batch of a driver has the rows of all the time in
            which none ran.
        hottest: the share of the rows that one partition must have.
    """
    before = None if last is None else moment_in(last.source.get("offsets", ""))
    now = source.moment
    if last is None or last.fence != fence or before is None or now is None or now <= before:
        return None
    work = [float(report["seconds"]) for report in reports.work]
    busy, fullest = math.fsum(work), max(work, default=0.0)
    if any(report["split"] for report in reports.state):  # a second stage, after this one
        merged = [float(report["seconds"]) for report in reports.state]
        busy, fullest = busy + math.fsum(merged), fullest + max(merged, default=0.0)
    seconds = (now - before) / 1000
    return Interval(reports.rows, seconds, busy, fullest, source.waiting or 0, hottest)


def hottest_share(plan: Plan, scheme: GroupingScheme, reports: Reports) -> float:
    """The share of the rows that is of one key, where a key has one partition; else 0."""
    hot = [] if scheme.splits_keys or plan.split else reports.hot()
    return hot[0]["lower"] / reports.rows if hot and reports.rows else 0.0


def follow_load(
    size: Size, plan: Plan, last: Manifest | None, seen: Interval | None
) -> tuple[Plan, dict[str, Any], Mapping[str, Any]]:
    """The plan for the next batch with as many partitions as the load calls for, what the metrics say
    of that, and what is to be remembered.

    Parameters:
        size: of this batch.
        plan: for the next one.
        last: the manifest before this batch.
        seen: what this batch has shown.
    """
    if size.policy is None:
        return plan, {}, {}
    memory = ScalingMemory.from_json({} if last is None else last.scaling)
    decision, memory = decide_partitions(size.policy, memory, plan.partitions, seen)
    if decision.partitions != plan.partitions:
        plan = resized(plan, decision.partitions, plan.seed, decision.reason)
    metrics = {
        **decision._asdict(),
        "asked": AUTO,
        "waiting": None if seen is None else seen.waiting,
        "interval_seconds": None if seen is None else seen.seconds,
    }
    return plan, {"scaling": metrics}, memory.to_json()
