"""From one batch's plan to the next: what the user has changed, and what the batch has shown."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from evenflow.engine.auto import KeySurvey, is_open
from evenflow.engine.batch import Retiring
from evenflow.engine.job import Job
from evenflow.engine.reports import Reports, remembered
from evenflow.engine.splitting import with_split_keys
from evenflow.engine.survey import plan_for, with_table
from evenflow.grouping.table import TableRouting
from evenflow.model import Feedback, InputError, RoutingTable
from evenflow.model.owners import Owners
from evenflow.model.plan import Plan
from evenflow.planning.choosing import Choice
from evenflow.planning.controller import Decision
from evenflow.state.manifest import Manifest

if TYPE_CHECKING:
    from evenflow.grouping.protocol import GroupingScheme

EPOCHS = 16  #: of which a manifest keeps the owners, besides those that hold now


def first_plan(job: Job) -> Plan:
    """The plan of a query that has seen nothing yet."""
    if job.scheme is not None:
        return _asked_for(Plan("", job.partitions, job.seed), job.scheme)
    reason = "the first batch: nothing is known of the keys yet"
    scheme = "key" if job.work.mergeable or is_open(job) else TableRouting.name
    return Plan(scheme, job.partitions, job.seed, reason=reason)


def next_plan(
    job: Job, last: Manifest | None, partitions: int, survey: KeySurvey | None = None
) -> Plan:
    """What the batch after `last` should follow: the plan it left, with what the user has changed.

    Parameters:
        survey: the keys of the first batch, if they were looked at.
    """
    if last is None:
        plan = replace(first_plan(job), partitions=partitions)
        return plan if survey is None else plan_for(job, plan, survey)
    plan = Plan.from_dict(last.plan)
    if job.scheme is not None and _differs(plan, job.scheme):
        plan = _asked_for(plan, job.scheme)
    if not fits(job, plan):
        reason = "the operator has no merge any more, so keys cannot be split"
        plan = plan.followed_by(scheme=TableRouting.name, parameters={}, reason=reason)
    return resized(plan, partitions, job.seed)


def fits(job: Job, plan: Plan) -> bool:
    """Whether a job can be routed by a plan, which an older version of it may have made."""
    return job.work.mergeable or not scheme_of(job, plan).splits_keys


def _asked_for(plan: Plan, scheme: GroupingScheme) -> Plan:
    return plan.followed_by(
        scheme=scheme.name, parameters=parameters_of(scheme), reason="asked for"
    )


def _differs(plan: Plan, scheme: GroupingScheme) -> bool:
    return scheme.name != plan.scheme or parameters_of(scheme) != dict(plan.parameters)


def scheme_of(job: Job, plan: Plan) -> GroupingScheme:
    """The scheme that routes under this plan, with the parameters that were written down with it."""
    from evenflow.grouping import make

    if job.scheme is not None and not _differs(plan, job.scheme):
        return job.scheme
    return make(plan.scheme, **plan.parameters)


def parameters_of(scheme: GroupingScheme) -> dict[str, Any]:
    """A scheme's parameters, as a plan keeps them.

    Example:
        >>> from evenflow.grouping import make
        >>> parameters_of(make("greedy-d:d=5"))
        {'d': 5}
    """
    fields: Any = dataclasses.fields(scheme) if dataclasses.is_dataclass(scheme) else ()
    found = {one.name: getattr(scheme, one.name) for one in fields if one.init}
    try:
        kept: dict[str, Any] = json.loads(json.dumps(found))
    except TypeError as error:
        raise InputError(
            f"the scheme {scheme.name!r} has a parameter that cannot be written down with a plan "
            f"({error}); use numbers and text"
        ) from None
    return kept


def resized(plan: Plan, partitions: int, seed: int, why: str = "") -> Plan:
    """The plan with another number of partitions, or another seed.

    Guarantee: with a new number of partitions, only the keys of partitions that leave, and the share
    that newcomers are due, change their owner, unless the scheme is `key`, whose hash has no memory.

    Parameters:
        why: the reason for the number; empty if the user has named it.
    """
    if seed != plan.seed:
        return plan.followed_by(partitions=partitions, seed=seed, buckets=(), table=RoutingTable())
    if plan.scheme == "key":
        # Owners by plain hash: what other schemes have left is given up.
        reason = why or plan.reason
        return plan.followed_by(
            partitions=partitions, buckets=(), table=RoutingTable(), reason=reason
        )
    if partitions == plan.partitions:
        return plan
    hashing = TableRouting(limit=max(len(plan.table.entries), 1))
    state = hashing.placed(hashing.start(plan.partitions, seed), plan.buckets, plan.table)
    state = hashing.resize(state, partitions)
    return plan.followed_by(
        partitions=partitions,
        buckets=tuple(state.buckets.tolist()),
        table=RoutingTable(hashing.table(state)),
        reason=why or f"{partitions} partitions instead of {plan.partitions}",
    )


def following_plan(
    job: Job,
    plan: Plan,
    reports: Reports,
    decision: Decision | None,
    batch: int,
    choice: Choice | None = None,
) -> Plan:
    """The plan for the next batch, from what this one has shown.

    Parameters:
        batch: the number of the next one.
        choice: of `auto`, where it has one.
    """
    following = _following(job, plan, reports, decision, choice)
    if job.work.side is None or following.scheme != TableRouting.name:
        return following
    limit: int = scheme_of(job, following).limit  # type: ignore[attr-defined]
    return with_split_keys(following, reports.join_costs(), batch, limit, job.work.split_sides)


def _following(
    job: Job, plan: Plan, reports: Reports, decision: Decision | None, choice: Choice | None
) -> Plan:
    plan = plan.followed_by(hot=remembered(plan.hot, reports.hot(), reports.rows))
    if choice is not None:
        if choice.scheme != plan.scheme:
            plan = plan.followed_by(scheme=choice.scheme, parameters={}, reason=choice.reason)
            # The controller has seen no batch yet, but the hot keys are known.
            return with_table(job, plan, plan.hot) if choice.scheme == TableRouting.name else plan
        if decision is None:
            return plan.followed_by(reason=choice.reason)
        decision = decision._replace(reason=f"{decision.reason}; {choice.reason}")
    if decision is None:
        return _by_counts(scheme_of(job, plan), plan)
    if decision.table is None:
        return plan.followed_by(reason=decision.reason)
    return plan.followed_by(table=decision.table, reason=decision.reason)


def _by_counts(scheme: GroupingScheme, plan: Plan) -> Plan:
    """The plan as a scheme makes it that places keys by their counts itself."""
    if not isinstance(scheme, TableRouting) or not scheme.plans_itself:
        return plan
    start = scheme.start(plan.partitions, plan.seed)
    state = scheme.placed(start, plan.buckets, plan.table)
    scheme.observe(state, Feedback(hot=plan.hot))
    return plan.followed_by(
        buckets=tuple(state.buckets.tolist()),
        table=RoutingTable(scheme.table(state)),
        reason=f"{len(plan.hot.counts):,} keys counted",
    )


def owners_of(last: Manifest | None, plan: Plan) -> dict[int, Owners]:
    """Who owned which key in each epoch that some segment is of, and now."""
    now = Owners.of(plan)
    if last is None:
        return {plan.epoch: now}
    live = {epoch for segment in last.segments for epoch in segment.epochs}
    before = {e: Owners.from_json(p) for e, p in last.owners.items() if e in live}
    return {**before, plan.epoch: now}


def moves_of(last: Manifest | None, plan: Plan) -> dict[str, Any]:
    """The fields of `Batch` that say which keys change their owner with this batch.

    A new routing table moves few keys, with all their state, at once; the epoch before is then no
    longer needed. After a new number of partitions many keys move, each when rows of it arrive; those
    of which none arrive are written again when there are too many owners of the past.
    """
    moves: dict[str, Any] = {"count_keys": plan.scheme == TableRouting.name}
    if last is None:
        return moves
    moves["retiring"] = _retiring(last, plan)
    if last.epoch is None or last.epoch == plan.epoch:
        return moves
    before, now = Owners.from_json(last.owners[last.epoch]), Owners.of(plan)
    if replace(before, table={}) != replace(now, table={}):
        return moves
    listed = np.array(sorted({*before.table, *now.table}), np.uint64)
    moving = listed[before(listed) != now(listed)]
    return {**moves, "arriving": tuple(moving.tolist()), "superseded": last.epoch}


def _retiring(last: Manifest, plan: Plan) -> Retiring | None:
    """The first segment that names one of the oldest epochs, if there are more than `EPOCHS`.

    One segment per batch: to write its rows again costs about what it costs to compact it.
    """
    past = {epoch for segment in last.segments for epoch in segment.epochs}
    old = set(sorted(past - {plan.epoch, last.epoch})[:-EPOCHS])
    named = (s for s in sorted(last.segments, key=lambda s: s.file) if old & set(s.epochs))
    first = next(named, None)
    return None if first is None else Retiring(first.file, tuple(sorted(old & set(first.epochs))))
