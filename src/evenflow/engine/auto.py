"""What `auto` decides from: the keys before the first batch, and what every batch has taken."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from evenflow.engine.job import Job
from evenflow.engine.reports import REMEMBERED, Reports
from evenflow.engine.routing import tasks_of
from evenflow.grouping.protocol import GroupingScheme
from evenflow.grouping.table import TableRouting
from evenflow.model import KeyCounts, Plan
from evenflow.planning.batch_costs import UNKNOWN_ROW, Load, Observed, at_once
from evenflow.planning.choosing import Choice, choose, choose_first, loads_of, pays
from evenflow.planning.experience import Experience
from evenflow.planning.key_loads import KeyLoads

MEMORY = "auto"  #: where a manifest's memory has what `auto` has learned


class KeySurvey(NamedTuple):
    """The keys of rows that were not routed yet.

    Parameters:
        hot: the counts of the most frequent ones, and of all rows.
        keys: how many different ones there are, as far as seen.
    """

    hot: KeyCounts
    keys: int


def is_open(job: Job) -> bool:
    """Whether `auto` has a choice.

    Work that pairs rows shares hot keys between tasks by the routing table, and `replan` asks for one.
    """
    fixed = not job.work.mergeable and (job.work.side is not None or job.replanning is not None)
    return job.scheme is None and not fixed


def survey_pays(job: Job, slots: int, stream: bool = False) -> bool:
    """Whether the keys are worth a look before the first rows are routed.

    Parameters:
        slots: how many tasks run at once.
        stream: whether batches follow: where work is known to be cheap, the first may be uneven.
    """
    if stream and job.work.row_seconds is not None and job.work.row_seconds < UNKNOWN_ROW:
        return False
    return is_open(job) and pays(Experience().known(job.work.row_seconds, slots))


def choose_by_survey(job: Job, plan: Plan, survey: KeySurvey, slots: int | None) -> Choice:
    """The scheme for rows of whose work nothing is known but their keys.

    Parameters:
        slots: how many tasks run at once; None for as many as there are partitions.
    """
    keys = KeyLoads(survey.hot, survey.keys, plan.partitions, plan.seed)
    prices = Experience().known(job.work.row_seconds, plan.partitions)
    if slots is not None:
        prices = replace(prices, slots=float(min(slots, plan.partitions)))
    return choose_first(loads_of(keys, job.work.mergeable), prices, plan.partitions)


def choose_next(
    job: Job,
    plan: Plan,
    scheme: GroupingScheme,
    reports: Reports,
    seconds: float,
    known: Experience,
) -> tuple[Choice, Experience]:
    """The scheme of the next batch, and what is known after this one.

    Parameters:
        plan: of the batch.
        scheme: that its rows were routed by.
        reports: of its tasks.
        seconds: that its tasks took altogether.
        known: after the batch before.
    """
    if plan.partitions == 1:
        return Choice("key", "one partition: nothing to balance"), known
    if not reports.rows:
        return Choice(plan.scheme, plan.reason), known
    seen = observed(plan, scheme, reports, seconds)
    usual = job.work.row_seconds
    known = known.after(seen, usual, plan.partitions)
    hot = {int(key["fingerprint"]): key["lower"] for key in reports.hot()[:REMEMBERED]}
    keys = KeyLoads(
        KeyCounts(hot, reports.rows),
        reports.keys,
        plan.partitions,
        plan.seed,
        plan.hot if plan.hot.total else None,
    )
    loads = loads_of(keys, job.work.mergeable)
    slow = known.slow() * reports.rows / plan.partitions
    loads[plan.scheme] = seen.load._replace(fullest=max(seen.load.fullest, slow))
    loads["key"] = loads["key"]._replace(moved=float(len(plan.table.entries)))
    prices = replace(known.known(usual, plan.partitions), state=_state_bytes(reports))
    return choose(plan.scheme, loads, prices, plan.partitions, known)


def _state_bytes(reports: Reports) -> float:
    """What is kept of a key, on average over what this batch has written."""
    written = [one["segment"] for one in reports.state if one.get("segment")]
    rows = sum(one["rows"] for one in written)
    return sum(one["bytes"] for one in written) / rows if rows else 0.0


def observed(plan: Plan, scheme: GroupingScheme, reports: Reports, seconds: float) -> Observed:
    """What was measured of a batch."""
    tasks = tasks_of(scheme, plan.partitions)
    rows, work, calls = (np.zeros(tasks) for _ in range(3))
    for one in reports.work:
        at = one["partition"]
        rows[at] += one["rows"]
        work[at] += one["seconds"]
        calls[at] += one["update_seconds"]
    begun = [one for one in reports.work if one["started"] is not None]
    began = np.array([one["started"] for one in begun])
    lasted = np.array([one["update_seconds"] for one in begun])
    split = scheme.splits_keys
    load = Load(
        float(reports.rows),
        float(rows.max()),
        float(sum(one["keys"] for one in reports.work)) if split else None,
        split or bool(plan.table.entries and isinstance(scheme, TableRouting)),
    )
    merging = np.array([one["seconds"] for one in reports.state if one["split"]], np.float64)
    return Observed(load, seconds, rows, work, calls, merging, float(at_once(began, lasted)))


def learned(memory: Mapping[str, Any]) -> Experience:
    """What a manifest's memory says that `auto` has learned."""
    return Experience.from_json(memory.get(MEMORY, {}))
