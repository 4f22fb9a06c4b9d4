"""Needs as few entries in the routing table as possible."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from evenflow.planning.assigning import assign, prepare, workers_after
from evenflow.planning.protocol import Constraints, Proposal, Statistics


@dataclass(frozen=True)
class MinTable:
    """Empties the routing table, then takes the costliest keys from overloaded workers: few entries,
    but much state moves, and moves again in the next interval.

    Guarantee: the plan depends on costs and homes, not on the keys' current workers.

    Example:
        >>> seen = Statistics.of([7, 4, 5, 2, 1, 1], worker=[0, 0, 0, 1, 1, 1], home=[0, 0, 1, 0, 1, 1])
        >>> plan = MinTable().plan(seen, Constraints(2, theta=0))
        >>> plan.loads().tolist(), plan.table_size()
        ([10.0, 10.0], 2)

    Paper: "Parallel stream processing against workload skewness and variance", §III-B, Algorithm 2.
    """

    name: ClassVar[str] = "min-table"
    symbol: ClassVar[str] = "MinTable"

    def plan(self, statistics: Statistics, constraints: Constraints) -> Proposal:
        room = prepare(statistics, constraints, by_cost=True)
        found = assign(room, room.loose)
        details = {"unfit": found.unfit, "moved_back": len(found.moved_back)}
        return Proposal(statistics, constraints, workers_after(room, found), self.name, details)
