"""COR-BAL: one-way balancing of pairs of nodes, by load correlation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from evenflow.model.validation import check_not_negative
from evenflow.placement.board import Board
from evenflow.placement.protocol import Nodes, Observed, Proposal


@dataclass(frozen=True)
class CorrelationBalance:
    """Evens out pairs of nodes, the more loaded one sending what fits better on the other.

    The most loaded node is paired with the least loaded one, the second with the last but one, and so
    on. Where a pair's loads differ by more than the threshold, operators move one by one, the largest
    score first, while they are together less than half of the difference. No plan moves less load.

    Guarantee: no node's load grows beyond that of the more loaded node of its pair.

    Parameters:
        threshold: ε, the difference of loads that is tolerated.

    Example:
        >>> seen = Observed.of([[0.6, 0.2], [0.6, 0.2], [0.1, 0.3], [0.2, 0.6]], node=[0, 0, 0, 1])
        >>> CorrelationBalance().propose(seen, Nodes(2)).moved().tolist()
        [False, False, True, False]

    Paper: "Dynamic Load Distribution in the Borealis Stream Processor", §3.3.1.
    """

    name: ClassVar[str] = "cor-bal"
    symbol: ClassVar[str] = "COR-BAL"
    anew: ClassVar[bool] = False

    threshold: float = 0.1

    def __post_init__(self) -> None:
        check_not_negative("the load balancing threshold", self.threshold)

    def propose(self, observed: Observed, nodes: Nodes) -> Proposal:
        nodes.check(observed, self.anew)
        board = Board(observed, nodes)
        pairs = board.pairs(self.threshold)
        for a, b in pairs:
            board.one_way(a, b)
        return board.proposal(self.name, {"pairs": len(pairs)})
