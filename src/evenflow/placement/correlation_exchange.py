"""COR-SE: two-way selective exchange between pairs of nodes, by load correlation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from evenflow.model.validation import check_not_negative, check_positive
from evenflow.placement.board import Board
from evenflow.placement.protocol import Nodes, Observed, Proposal


@dataclass(frozen=True)
class CorrelationExchange:
    """Moves operators between unevenly loaded nodes in both directions, but only good candidates.

    After one-way balancing, whichever node of the pair is the more loaded one gives away its operator
    with the largest score, as long as that is above the threshold; one-way balancing ends it.

    Guarantee: operators move only between nodes of a pair whose loads differ by more than the
    threshold.

    Parameters:
        threshold: ε, the difference of loads that is tolerated.
        exchange: δ, the score above which an operator is worth moving.

    Example:
        >>> seen = Observed.of([[0.6, 0.2], [0.6, 0.2], [0.1, 0.3], [0.2, 0.6]], node=[0, 0, 0, 1])
        >>> CorrelationExchange().propose(seen, Nodes(2)).moved().tolist()
        [True, False, False, False]

    Paper: "Dynamic Load Distribution in the Borealis Stream Processor", §3.3.3.
    """

    name: ClassVar[str] = "cor-se"
    symbol: ClassVar[str] = "COR-SE"
    anew: ClassVar[bool] = False

    threshold: float = 0.1
    exchange: float = 0.2

    def __post_init__(self) -> None:
        check_not_negative("the load balancing threshold", self.threshold)
        check_positive("the score above which operators are exchanged", self.exchange)

    def propose(self, observed: Observed, nodes: Nodes) -> Proposal:
        nodes.check(observed, self.anew)
        board = Board(observed, nodes)
        pairs = board.pairs(self.threshold)
        for a, b in pairs:
            board.exchange(a, b, self.exchange)
        return board.proposal(self.name, {"pairs": len(pairs)})
