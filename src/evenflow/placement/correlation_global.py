"""COR-GLB: all operators anew, by load correlation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from evenflow.model.validation import check_not_negative
from evenflow.placement.board import Board
from evenflow.placement.protocol import Nodes, Observed, Proposal


@dataclass(frozen=True)
class CorrelationGlobal:
    """Places all operators anew: what rises and falls together comes on different nodes.

    The least loaded node gets the operator that is, by its score, best put there, again and again; one
    round of one-way balancing follows. Then pairs of nodes with little load correlation are
    redistributed while that makes it larger, until the average is above the threshold or as many
    pairs have been tried as there are. Pairs that were tried are remembered until one of them changes.

    Guarantee: a proposal has a node for every operator, and operators that are not movable stay.

    Parameters:
        correlation: ρ, the average load correlation that is enough.

    Example:
        >>> bursts = [[0.6, 0.2], [0.6, 0.2], [0.2, 0.6], [0.2, 0.6]]
        >>> plan = CorrelationGlobal().propose(Observed.of(bursts), Nodes(2))
        >>> plan.loads().round(6).tolist(), plan.variances().round(6).tolist()
        ([0.8, 0.8], [0.0, 0.0])

    Paper: "Dynamic Load Distribution in the Borealis Stream Processor", §3.4.
    """

    name: ClassVar[str] = "cor-glb"
    symbol: ClassVar[str] = "COR-GLB"
    anew: ClassVar[bool] = True

    correlation: float = 0.8

    def __post_init__(self) -> None:
        check_not_negative("the correlation that is enough", self.correlation)

    def propose(self, observed: Observed, nodes: Nodes) -> Proposal:
        nodes.check(observed, self.anew)
        board = Board(observed, nodes, emptied=True)
        board.assign_by_score()
        for a, b in board.pairs():
            board.one_way(a, b)
        return board.proposal(self.name, board.improve(self.correlation))
