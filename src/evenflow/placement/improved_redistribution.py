"""COR-RE-IMP: redistribution, also of pairs that are balanced but little correlated."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from evenflow.model.validation import check_not_negative
from evenflow.placement.board import Board
from evenflow.placement.improving import improve
from evenflow.placement.protocol import Nodes, Observed, Proposal


@dataclass(frozen=True)
class ImprovedRedistribution:
    """Redistribution of unevenly loaded pairs, and then of nodes that may get overloaded for a while.

    A node whose average load plus its standard deviation (its divergent load level) is above its
    capacity is paired with the node that it is least correlated with; if that correlation is below
    the threshold, the two are redistributed, and that is kept if the correlation grows.

    Guarantee: a pair of nodes is changed by the second step only if its correlation grows.

    Parameters:
        threshold: ε, the difference of loads that is tolerated.
        correlation: ρ, the load correlation that is enough.

    Example:
        >>> bursts = [[1.2, 0.2], [1.2, 0.2], [0.2, 1.2], [0.2, 1.2]]
        >>> plan = ImprovedRedistribution().propose(Observed.of(bursts, [0, 0, 1, 1]), Nodes(2))
        >>> plan.variances().round(6).tolist()
        [0.0, 0.0]

    Paper: "Dynamic Load Distribution in the Borealis Stream Processor", §3.3.4.
    """

    name: ClassVar[str] = "cor-re-imp"
    symbol: ClassVar[str] = "COR-RE-IMP"
    anew: ClassVar[bool] = False

    threshold: float = 0.1
    correlation: float = 0.8

    def __post_init__(self) -> None:
        check_not_negative("the load balancing threshold", self.threshold)
        check_not_negative("the correlation that is enough", self.correlation)

    def propose(self, observed: Observed, nodes: Nodes) -> Proposal:
        nodes.check(observed, self.anew)
        board = Board(observed, nodes)
        pairs = board.pairs(self.threshold)
        for a, b in pairs:
            board.redistribute(a, b)
        improved = improve(
            board, self.correlation, lambda a, b: board.redistribute(a, b, if_better=True)
        )
        return board.proposal(self.name, {"pairs": len(pairs), "improved": improved})
