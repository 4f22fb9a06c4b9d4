"""Mixed with every number of keys moved back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from evenflow.model.validation import check_not_negative
from evenflow.planning.assigning import assign, by_state, prepare
from evenflow.planning.mixed import best_proposal
from evenflow.planning.protocol import Constraints, Proposal, Statistics


@dataclass(frozen=True)
class MixedBruteForce:
    """Tries to move back n = 0, 1, …, N_A keys and keeps the plan that moves least: what Mixed's few
    trials are measured against. Takes as many trials as the routing table has entries.

    Guarantee: never more state moves than by Mixed, where Mixed keeps all constraints.

    Parameters:
        beta: the weight of the cost against that of the state in γ = c^β / S.

    Example:
        >>> seen = Statistics.of([7, 4, 5, 2, 1, 1], worker=[0, 0, 0, 1, 1, 1], home=[0, 0, 1, 0, 1, 1])
        >>> MixedBruteForce().plan(seen, Constraints(2, theta=0.1, table_limit=2)).details["trials"]
        3

    Paper: "Parallel stream processing against workload skewness and variance", §III-C, Mixed_BF.
    """

    name: ClassVar[str] = "mixed-bf"
    symbol: ClassVar[str] = "MixedBF"

    beta: float = 1.5

    def __post_init__(self) -> None:
        check_not_negative("β", self.beta)

    def plan(self, statistics: Statistics, constraints: Constraints) -> Proposal:
        room = prepare(statistics, constraints, by_cost=False, beta=self.beta)
        order = by_state(room)
        trials = (assign(room, order[:n]) for n in range(len(order) + 1))
        return best_proposal(room, trials, self.name)
