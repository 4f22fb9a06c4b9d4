"""From one batch's plan to the next: what the user has changed, and what the batch has shown."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from evenflow.engine.job import Job
from evenflow.engine.observing import Reports, remembered
from evenflow.grouping.table import TableRouting
from evenflow.model import RoutingTable
from evenflow.model.owners import Owners
from evenflow.model.plan import Plan
from evenflow.planning.choosing import choose
from evenflow.planning.controller import Decision
from evenflow.state.manifest import Manifest


def first_plan(job: Job) -> Plan:
    """The plan of a query that has seen nothing yet."""
    if job.scheme is not None:
        return Plan(job.scheme.name, job.workers, job.seed, reason="asked for")
    reason = "the first batch: nothing is known of the keys yet"
    scheme = "key" if job.operator.mergeable else TableRouting.name
    return Plan(scheme, job.workers, job.seed, reason=reason)


def next_plan(job: Job, last: Manifest | None, workers: int) -> Plan:
    """What the batch after `last` should follow: the plan it left, with what the user has changed."""
    if last is None:
        return replace(first_plan(job), workers=workers)
    plan = Plan.from_dict(last.plan)
    if job.scheme is not None and job.scheme.name != plan.scheme:
        plan = plan.followed_by(scheme=job.scheme.name, reason="asked for")
    return resized(plan, workers, job.seed)


def resized(plan: Plan, workers: int, seed: int) -> Plan:
    """The plan with another number of workers, or another seed.

    Guarantee: with a new number of workers, only the keys of workers that leave, and the share that
    newcomers are due, change their owner, unless the scheme is `key`, whose hash has no memory.
    """
    if seed != plan.seed:
        return plan.followed_by(workers=workers, seed=seed, buckets=(), table=RoutingTable())
    if plan.scheme == "key":
        # Owners by plain hash: what other schemes have left is given up.
        return plan.followed_by(workers=workers, buckets=(), table=RoutingTable())
    if workers == plan.workers:
        return plan
    hashing = TableRouting(limit=max(len(plan.table.entries), 1))
    state = hashing.placed(hashing.start(plan.workers, seed), plan.buckets, plan.table)
    state = hashing.resize(state, workers)
    return plan.followed_by(
        workers=workers,
        buckets=tuple(state.buckets.tolist()),
        table=RoutingTable(hashing.table(state)),
        reason=f"{workers} workers instead of {plan.workers}",
    )


def following_plan(job: Job, plan: Plan, reports: Reports, decision: Decision | None) -> Plan:
    """The plan for the next batch, from what this one has shown."""
    plan = plan.followed_by(hot=remembered(plan.hot, reports.hot(), reports.rows))
    if job.scheme is None:
        choice = choose(job.operator.mergeable, plan.workers, plan.hot, plan.scheme)
        if choice.scheme != plan.scheme or decision is None:
            return plan.followed_by(scheme=choice.scheme, reason=choice.reason)
    if decision is None:
        return plan
    if decision.table is None:
        return plan.followed_by(reason=decision.reason)
    return plan.followed_by(table=decision.table, reason=decision.reason)


def owners_of(last: Manifest | None, plan: Plan) -> dict[int, Owners]:
    """Who owned which key in each epoch that some segment is of, and now."""
    now = Owners.of(plan)
    if last is None:
        return {plan.epoch: now}
    live = {epoch for segment in last.segments for epoch in segment.epochs}
    before = {e: Owners.from_json(p) for e, p in last.placements.items() if e in live}
    return {**before, plan.epoch: now}


def moves_of(last: Manifest | None, plan: Plan) -> dict[str, Any]:
    """What of `Store` says which keys change their owner with this batch.

    A new routing table moves few keys, with all their state, at once; the epoch before is then of no
    use any more. After a new number of workers keys are many, and move when rows of theirs come.
    """
    moves: dict[str, Any] = {"count_keys": plan.scheme == TableRouting.name}
    if last is None or last.epoch is None or last.epoch == plan.epoch:
        return moves
    before, now = Owners.from_json(last.placements[last.epoch]), Owners.of(plan)
    if replace(before, table={}) != replace(now, table={}):
        return moves
    listed = np.array(sorted({*before.table, *now.table}), np.uint64)
    moving = listed[before(listed) != now(listed)]
    return {**moves, "arriving": tuple(moving.tolist()), "superseded": last.epoch}
