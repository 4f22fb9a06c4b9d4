"""Moves as little state as possible."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from evenflow.model.validation import check_not_negative
from evenflow.planning.assigning import assign, prepare, workers_after
from evenflow.planning.protocol import Constraints, Proposal, Statistics


@dataclass(frozen=True)
class MinMig:
    """Takes from overloaded workers the keys with the most work for their state, largest γ = c^β / S
    first. The routing table is unlimited and grows from interval to interval.

    Guarantee: the same plan as LLFD's where all keys have the same state and β is above 0.

    Parameters:
        beta: the weight of the cost relative to the state. The larger, the fewer and the costlier
            the keys that move.

    Example:
        >>> seen = Statistics.of(costs=[5, 5, 1, 1], state=[900, 10, 1, 1], worker=[0, 0, 1, 1])
        >>> MinMig().plan(seen, Constraints(2, theta=0.2)).moved().tolist()
        [False, True, False, False]

    Paper: "Parallel stream processing against workload skewness and variance", §III-B, Algorithm 3.
    """

    name: ClassVar[str] = "min-mig"
    symbol: ClassVar[str] = "MinMig"

    beta: float = 1.5

    def __post_init__(self) -> None:
        check_not_negative("β", self.beta)

    def plan(self, statistics: Statistics, constraints: Constraints) -> Proposal:
        room = prepare(statistics, constraints, by_cost=False, beta=self.beta)
        found = assign(room)
        details = {"unfit": found.unfit}
        return Proposal(statistics, constraints, workers_after(room, found), self.name, details)
