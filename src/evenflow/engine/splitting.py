"""Which keys of a join are split, from what they have cost in a batch."""

from __future__ import annotations

from collections.abc import Mapping
from math import ceil
from typing import NamedTuple

import numpy as np

from evenflow.engine.key_parts import part_of
from evenflow.model import Plan, RoutingTable
from evenflow.model.owners import Owners
from evenflow.model.split_keys import Split, SplitKeys

LISTED = 16  #: how many keys each task reports
ALL = 0  #: under this number, the cost of all keys

_MUCH = 0.5  # of a partition's share: a key, or a part of one, that costs more is split
_PART = 0.25  # of a partition's share: what a part is to cost
_LITTLE = 1000  # rows and pairs: not worth a split
_MOST = 256  # keys that are split


class JoinCost(NamedTuple):
    """What a key has cost in one batch.

    Parameters:
        left, right: its new rows.
        cost: rows that were read, and pairs.
    """

    left: int
    right: int
    cost: float

    def plus(self, left: int, right: int, cost: float) -> JoinCost:
        return JoinCost(self.left + left, self.right + right, self.cost + cost)


def with_split_keys(
    plan: Plan,
    costs: Mapping[int, JoinCost],
    batch: int,
    limit: int,
    sides: tuple[bool, bool] = (True, True),
) -> Plan:
    """The plan with the keys split that are too much for one partition, and their new parts placed.

    The side with more rows is split, once and for all: its rows are stored in parts.

    Parameters:
        costs: fingerprint → what the key has cost; all of them under `ALL`.
        batch: the first one under this plan.
        limit: of the routing table.
        sides: which of left and right may be split.
    """
    if not any(sides):
        return plan
    share = costs[ALL].cost / plan.partitions
    entries, placed = dict(plan.split.entries), {}
    hot = sorted((one for one in costs if one != ALL), key=lambda one: (-costs[one].cost, one))
    for key in hot:
        cost, before = costs[key], entries.get(key)
        now = 1 if before is None else before.parts
        parts = min(plan.partitions, ceil(cost.cost / (_PART * share))) if share else 1
        too_much = cost.cost / now > _MUCH * share and cost.cost >= _LITTLE
        if not too_much or parts <= now or (before is None and len(entries) >= _MOST):
            continue
        if before is None:
            right = cost.right > cost.left if all(sides) else sides[1]
            entries[key] = Split(right, ((parts, batch),))
        else:
            entries[key] = before.grown_to(parts, batch)
        placed.update(_placed(plan, key, now, parts))
    if not placed:
        return plan
    table = {**plan.table.entries, **placed}
    split = f"{len(entries)} keys of the join are split"
    reason = f"{plan.reason}; {split}" if plan.reason else split
    changes = {"table": RoutingTable(table)} if len(table) <= limit else {}
    return plan.followed_by(split=SplitKeys(entries), reason=reason, **changes)


def _placed(plan: Plan, key: int, now: int, parts: int) -> dict[int, int]:
    """Owners for new parts: one partition after the other, from the key's own. The planner sees what
    they cost in the next batch."""
    numbers = np.arange(max(now, 1), parts)
    whole = np.full(len(numbers), key, np.uint64)
    home = int(Owners.of(plan)(np.array([key], np.uint64))[0])
    owners = (home + numbers) % plan.partitions
    return dict(zip(part_of(whole, numbers).tolist(), owners.tolist(), strict=True))
