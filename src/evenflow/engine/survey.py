"""A look at the keys of a batch DataFrame before its rows are routed: which are hot, and what to do."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from evenflow.engine.job import Job
from evenflow.engine.key_list import in_key_order
from evenflow.engine.routing import fingerprints_of
from evenflow.grouping.table import TableRouting
from evenflow.model import KeyCounts, Plan
from evenflow.model.owners import Owners
from evenflow.planning import make_planner
from evenflow.planning.choosing import choose
from evenflow.planning.controller import Replanning
from evenflow.planning.protocol import Constraints, Statistics

SURVEYED = pa.schema([("key", pa.int64()), ("rows", pa.int64()), ("total", pa.bool_())])

_COUNTERS = 4096
_REMEMBERED = 1024


@dataclass(frozen=True)
class Survey:
    """A task: the most frequent keys of a source partition, by SpaceSaving, and its number of rows.

    Parameters:
        key: the key columns.
        capacity: how many keys are counted.
    """

    key: tuple[str, ...]
    capacity: int = _COUNTERS

    def __call__(self, source: int, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from evenflow.sketches.space_saving import SpaceSaving

        sketch = SpaceSaving(self.capacity)
        state = sketch.start()
        rows = 0
        for batch in batches:
            sketch.update(state, fingerprints_of(batch, self.key))
            rows += batch.num_rows
        hot = sketch.hot(state, 0.0) if rows else None
        keys = np.zeros(0, np.uint64) if hot is None else hot.keys
        lower = np.zeros(0, np.int64) if hot is None else hot.lower
        columns = [
            pa.array(np.append(keys, np.uint64(0)).view(np.int64)),
            pa.array(np.append(lower, rows)),
            pa.array(np.arange(len(keys) + 1) == len(keys)),
        ]
        yield pa.record_batch(columns, schema=SURVEYED)


def hot_keys(surveyed: pa.Table) -> KeyCounts:
    """The most frequent keys over all source partitions."""
    total = surveyed.column("total").to_numpy(zero_copy_only=False)
    rows = surveyed.column("rows").to_numpy()
    fingerprints, place = np.unique(
        surveyed.column("key").to_numpy()[~total].view(np.uint64), return_inverse=True
    )
    counts = np.bincount(place, rows[~total], len(fingerprints)).astype(np.int64)
    top = np.argsort(-counts, kind="stable")[:_REMEMBERED]
    return KeyCounts(
        {int(fingerprints[i]): int(counts[i]) for i in top if counts[i]}, int(rows[total].sum())
    )


def plan_for(job: Job, plan: Plan, hot: KeyCounts, listed: pa.Table | None = None) -> Plan:
    """The plan, with a scheme and a routing table that fit how skewed the keys are.

    Parameters:
        hot: the most frequent keys.
        listed: all keys in order, if they are few and their order matters.
    """
    if job.scheme is None:
        choice = choose(job.work.mergeable, plan.partitions, hot)
        plan = plan.followed_by(scheme=choice.scheme, reason=choice.reason, hot=hot)
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
