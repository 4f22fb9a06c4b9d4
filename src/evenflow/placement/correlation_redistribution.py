"""COR-RE: two-way redistribution of pairs of nodes, by load correlation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from evenflow.model.validation import check_not_negative
from evenflow.placement.board import Board
from evenflow.placement.protocol import Nodes, Observed, Proposal


@dataclass(frozen=True)
class CorrelationRedistribution:
    """Places the operators of unevenly loaded pairs of nodes anew, as if both had been empty.

    The best two nodes can get, and more load moved than any other pair-wise algorithm would.

    Guarantee: operators move only between nodes of a pair whose loads differ by more than the
    threshold.

    Parameters:
        threshold: ε, the difference of loads that is tolerated.

    Example:
        >>> seen = Observed.of([[0.6, 0.2], [0.6, 0.2], [0.1, 0.3], [0.2, 0.6]], node=[0, 0, 0, 1])
        >>> CorrelationRedistribution().propose(seen, Nodes(2)).loads().round(6).tolist()
        [0.6, 0.8]

    Paper: "Dynamic Load Distribution in the Borealis Stream Processor", §3.3.2.
    """

    name: ClassVar[str] = "cor-re"
    symbol: ClassVar[str] = "COR-RE"
    anew: ClassVar[bool] = False

    threshold: float = 0.1

    def __post_init__(self) -> None:
        check_not_negative("the load balancing threshold", self.threshold)

    def propose(self, observed: Observed, nodes: Nodes) -> Proposal:
        nodes.check(observed, self.anew)
        board = Board(observed, nodes)
        pairs = board.pairs(self.threshold)
        for a, b in pairs:
            board.redistribute(a, b)
        return board.proposal(self.name, {"pairs": len(pairs)})
