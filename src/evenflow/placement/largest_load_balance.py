"""LLF-BAL: one-way balancing of pairs of nodes, the largest load first."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from evenflow.model.validation import check_not_negative
from evenflow.placement.board import Board
from evenflow.placement.protocol import Nodes, Observed, Proposal
from evenflow.placement.ranking import by_load


@dataclass(frozen=True)
class LargestLoadBalance:
    """Evens out pairs of nodes, the more loaded one sending its largest operators that fit.

    Pairs and amounts are those of one-way correlation based balancing; only the choice differs.

    Guarantee: no node's load grows beyond that of the more loaded node of its pair.

    Parameters:
        threshold: ε, the difference of loads that is tolerated.

    Example:
        >>> seen = Observed.of([[0.5], [0.3], [0.2], [0.1]], node=[0, 0, 0, 1])
        >>> LargestLoadBalance().propose(seen, Nodes(2)).moved().tolist()
        [False, True, False, False]

    Paper: "Dynamic Load Distribution in the Borealis Stream Processor", §5.1.3.
    """

    name: ClassVar[str] = "llf-bal"
    symbol: ClassVar[str] = "LLF-BAL"
    anew: ClassVar[bool] = False

    threshold: float = 0.1

    def __post_init__(self) -> None:
        check_not_negative("the load balancing threshold", self.threshold)

    def propose(self, observed: Observed, nodes: Nodes) -> Proposal:
        nodes.check(observed, self.anew)
        board = Board(observed, nodes, rank=by_load(observed))
        pairs = board.pairs(self.threshold)
        for a, b in pairs:
            board.one_way(a, b)
        return board.proposal(self.name, {"pairs": len(pairs)})
