"""RAND-BAL: one-way balancing of pairs of nodes, in random order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from evenflow.model.validation import check_not_negative
from evenflow.placement.board import Board
from evenflow.placement.protocol import Nodes, Observed, Proposal
from evenflow.placement.ranking import at_random


@dataclass(frozen=True)
class RandomBalance:
    """Evens out pairs of nodes, the more loaded one sending operators that fit, in random order.

    Pairs and amounts are those of one-way correlation based balancing; only the choice differs.

    Guarantee: no node's load grows beyond that of the more loaded node of its pair. The order depends
    on the seed and the period alone.

    Parameters:
        threshold: ε, the difference of loads that is tolerated.
        seed: of the order.

    Example:
        >>> seen = Observed.of([[0.5], [0.2], [0.1], [0.1]], node=[0, 0, 0, 1])
        >>> RandomBalance().propose(seen, Nodes(2)).moved().tolist()
        [False, True, True, False]

    Paper: "Dynamic Load Distribution in the Borealis Stream Processor", §5.1.3.
    """

    name: ClassVar[str] = "rand-bal"
    symbol: ClassVar[str] = "RAND-BAL"
    anew: ClassVar[bool] = False

    threshold: float = 0.1
    seed: int = 0

    def __post_init__(self) -> None:
        check_not_negative("the load balancing threshold", self.threshold)

    def propose(self, observed: Observed, nodes: Nodes) -> Proposal:
        nodes.check(observed, self.anew)
        board = Board(observed, nodes, rank=at_random(observed, self.seed))
        pairs = board.pairs(self.threshold)
        for a, b in pairs:
            board.one_way(a, b)
        return board.proposal(self.name, {"pairs": len(pairs)})
