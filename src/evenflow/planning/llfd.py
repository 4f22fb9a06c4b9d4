"""Least-Load Fit Decreasing on the current plan."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from evenflow.planning.assigning import assign, prepare, workers_after
from evenflow.planning.protocol import Constraints, Proposal, Statistics


@dataclass(frozen=True)
class LLFD:
    """Takes the costliest keys from overloaded workers and gives each to the least loaded one.

    Where a key would overload that worker too, smaller keys make room and are placed after it.

    Guarantee: if a perfectly even assignment exists, every key costs less than the average load and
    θmax is at least ⅓(1 − 1/N), no worker is above θmax (Theorem 1). The table is not limited.

    Example:
        >>> seen = Statistics.of(costs=[7, 4, 5, 2, 1, 1], worker=[0, 0, 0, 1, 1, 1])
        >>> LLFD().plan(seen, Constraints(2, theta=0)).loads().tolist()
        [10.0, 10.0]

    Paper: "Parallel stream processing against workload skewness and variance", §III-A, Algorithm 1.
    """

    name: ClassVar[str] = "llfd"
    symbol: ClassVar[str] = "LLFD"

    def plan(self, statistics: Statistics, constraints: Constraints) -> Proposal:
        room = prepare(statistics, constraints, by_cost=True)
        found = assign(room)
        details = {"unfit": found.unfit}
        return Proposal(statistics, constraints, workers_after(room, found), self.name, details)
