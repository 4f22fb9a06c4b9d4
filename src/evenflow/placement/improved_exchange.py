"""COR-SE-IMP: selective exchange, also between pairs that are balanced but little correlated."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from evenflow.model.validation import check_not_negative, check_positive
from evenflow.placement.board import Board
from evenflow.placement.improving import improve
from evenflow.placement.protocol import Nodes, Observed, Proposal


@dataclass(frozen=True)
class ImprovedExchange:
    """Exchange between unevenly loaded pairs, and then for nodes that may get overloaded for a while.

    A node whose average load plus its standard deviation (its divergent load level) is above its
    capacity is paired with the node that it is least correlated with; if that correlation is below
    the threshold, good candidates are exchanged, and that is kept if the correlation grows.

    Guarantee: a pair of nodes is changed by the second step only if its correlation grows.

    Parameters:
        threshold: ε, the difference of loads that is tolerated.
        exchange: δ, the score above which an operator is worth moving.
        correlation: ρ, the load correlation that is enough.

    Example:
        >>> bursts = [[1.2, 0.2], [1.2, 0.2], [0.2, 1.2], [0.2, 1.2]]
        >>> plan = ImprovedExchange().propose(Observed.of(bursts, [0, 0, 1, 1]), Nodes(2))
        >>> plan.moved().tolist()
        [True, False, True, False]

    Paper: "Dynamic Load Distribution in the Borealis Stream Processor", §3.3.4.
    """

    name: ClassVar[str] = "cor-se-imp"
    symbol: ClassVar[str] = "COR-SE-IMP"
    anew: ClassVar[bool] = False

    threshold: float = 0.1
    exchange: float = 0.2
    correlation: float = 0.8

    def __post_init__(self) -> None:
        check_not_negative("the load balancing threshold", self.threshold)
        check_positive("the score above which operators are exchanged", self.exchange)
        check_not_negative("the correlation that is enough", self.correlation)

    def propose(self, observed: Observed, nodes: Nodes) -> Proposal:
        nodes.check(observed, self.anew)
        board = Board(observed, nodes)
        pairs = board.pairs(self.threshold)
        for a, b in pairs:
            board.exchange(a, b, self.exchange)
        improved = improve(
            board,
            self.correlation,
            lambda a, b: board.exchange(a, b, self.exchange, if_better=True),
        )
        return board.proposal(self.name, {"pairs": len(pairs), "improved": improved})
