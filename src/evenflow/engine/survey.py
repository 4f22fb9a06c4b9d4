"""What follows from a look at the keys before rows are routed: a scheme, and a routing table."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from evenflow.engine.auto import KeySurvey, choose_by_survey, is_open
from evenflow.engine.job import Job
from evenflow.engine.key_list import in_key_order
from evenflow.engine.reports import REMEMBERED
from evenflow.engine.routing import fingerprints_of
from evenflow.grouping.table import TableRouting
from evenflow.model import KeyCounts, Plan
from evenflow.model.owners import Owners
from evenflow.planning import make_planner
from evenflow.planning.controller import Replanning
from evenflow.planning.protocol import Constraints, Statistics


def survey_of(rows: pa.Table, key: tuple[str, ...]) -> KeySurvey | None:
    """The keys of a table; None if it is empty."""
    if not rows.num_rows:
        return None
    [batch] = rows.select(list(key)).combine_chunks().to_batches()
    prints, counts = np.unique(fingerprints_of(batch, key), return_counts=True)
    top = np.argsort(-counts, kind="stable")[:REMEMBERED]
    hot = dict(zip(prints[top].tolist(), counts[top].tolist(), strict=True))
    return KeySurvey(KeyCounts(hot, rows.num_rows), len(prints))


def plan_for(
    job: Job,
    plan: Plan,
    survey: KeySurvey,
    listed: pa.Table | None = None,
    slots: int | None = None,
) -> Plan:
    """The plan, with a scheme and a routing table that fit how skewed the keys are.

    Parameters:
        survey: the keys.
        listed: all keys in order, if they are few and their order matters.
        slots: how many tasks run at once; None for as many as there are partitions.
    """
    hot = survey.hot
    if is_open(job):
        choice = choose_by_survey(job, plan, survey, slots)
        # In the order of keys they are at least as even as by hash, and Spark's expressions know it.
        scheme = choice.scheme if listed is None else TableRouting.name
        plan = plan.followed_by(scheme=scheme, reason=choice.reason, hot=hot)
    if plan.scheme != TableRouting.name:
        return plan
    planned = with_table(job, plan, hot)
    if listed is None or job.replanning is not None:
        return planned
    return in_key_order(plan, planned, hot, listed, _limit(job))


def with_table(job: Job, plan: Plan, hot: KeyCounts) -> Plan:
    """The plan with a routing table that spreads the hot keys evenly; all others go by hash, and are
    taken to be even.

    The planner is the one that `replan` was given. Without it, the smallest table is chosen: there is
    no state yet, so nothing is saved by leaving a key where it is.
    """
    keys = np.array(sorted(hot.counts), np.uint64)
    costs = np.array([hot.counts[key] for key in keys.tolist()], np.float64)
    home = Owners.of(plan)(keys)
    limit = _limit(job)
    policy = job.replanning or Replanning(planner="min-table")
    proposal = make_planner(policy.planner).plan(
        Statistics(keys, costs, costs, home, home),
        Constraints(plan.partitions, policy.theta, limit),
    )
    if proposal.table_size() > limit:
        return plan
    listed = f"{proposal.table_size()} hot keys in the routing table, by {policy.planner}"
    reason = f"{plan.reason}; {listed}" if plan.reason else listed
    return plan.followed_by(table=proposal.table(), reason=reason)


def _limit(job: Job) -> int:
    """The largest routing table."""
    return int(getattr(job.scheme, "limit", TableRouting().limit))
