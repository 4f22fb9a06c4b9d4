"""The algorithms that place all operators from scratch: one skeleton, three orders.

Paper: "Dynamic Load Distribution in the Borealis Stream Processor", §3.4; rivals: §5.1.3.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from evenflow.model.validation import check_not_negative
from evenflow.placement.board import BY_SCORE, I64, Board
from evenflow.placement.protocol import Nodes, Observed, Proposal
from evenflow.placement.ranking import at_random, by_load


@dataclass(frozen=True)
class GlobalPlacer:
    """The common skeleton: the least loaded node repeatedly gets the next operator; one round of
    one-way balancing follows. Guarantee: as stated for `Placer`."""

    name: ClassVar[str]
    from_scratch: ClassVar[bool] = True

    def propose(self, observed: Observed, nodes: Nodes) -> Proposal:
        """Propose a node for each operator."""
        nodes.check(observed, self.from_scratch)
        board = Board(observed, nodes, emptied=True, rank=self._rank(observed))
        if board.rank is BY_SCORE:
            board.assign_by_score()
        else:
            order = np.argsort(board.rank)
            board.assign_in_order(order[observed.movable[order]])
        for a, b in board.pairs():
            board.one_way(a, b)
        return board.proposal(self.name, self._improve(board))

    def _rank(self, observed: Observed) -> I64:
        """The order of operators, if not by score."""
        return BY_SCORE

    def _improve(self, board: Board) -> dict[str, int]:
        """Run a last step; return numbers about it."""
        return {}


@dataclass(frozen=True)
class CorrelationGlobal(GlobalPlacer):
    """Places all operators from scratch: those that rise and fall together go to different nodes.

    The least loaded node gets the operator with the best score there. After the round of balancing,
    pairs of nodes with little load correlation are redistributed as long as that increases it, until
    the average is above the threshold or every pair has been tried. A tried pair is not tried again
    until one of its nodes changes.

    Parameters:
        correlation: ρ, the average load correlation that is enough.

    Example:
        >>> bursts = [[0.6, 0.2], [0.6, 0.2], [0.2, 0.6], [0.2, 0.6]]
        >>> plan = CorrelationGlobal().propose(Observed.of(bursts), Nodes(2))
        >>> plan.loads().round(6).tolist(), plan.variances().round(6).tolist()
        ([0.8, 0.8], [0.0, 0.0])

    Paper: §3.4.
    """

    name: ClassVar[str] = "cor-glb"
    symbol: ClassVar[str] = "COR-GLB"

    correlation: float = 0.8

    def __post_init__(self) -> None:
        check_not_negative("the correlation that is enough", self.correlation)

    def _improve(self, board: Board) -> dict[str, int]:
        return board.improve(self.correlation)


@dataclass(frozen=True)
class LargestLoadGlobal(GlobalPlacer):
    """Places all operators from scratch, the largest average load first, each on the least loaded node.

    This is traditional load balancing: it ignores how loads vary.

    Example:
        >>> plan = LargestLoadGlobal().propose(Observed.of([[3], [3], [2], [2], [2]]), Nodes(2))
        >>> plan.loads().tolist()
        [7.0, 5.0]

    Paper: §5.1.3.
    """

    name: ClassVar[str] = "llf-glb"
    symbol: ClassVar[str] = "LLF-GLB"

    def _rank(self, observed: Observed) -> I64:
        return by_load(observed)


@dataclass(frozen=True)
class RandomGlobal(GlobalPlacer):
    """Places all operators from scratch in random order, each on the least loaded node.

    Guarantee: the order depends on the seed and the period alone.

    Parameters:
        seed: of the order.

    Example:
        >>> plan = RandomGlobal(seed=1).propose(Observed.of([[1], [1], [1], [1]]), Nodes(2))
        >>> plan.loads().tolist()
        [2.0, 2.0]

    Paper: §5.1.3.
    """

    name: ClassVar[str] = "rand-glb"
    symbol: ClassVar[str] = "RAND-GLB"

    seed: int = 0

    def _rank(self, observed: Observed) -> I64:
        return at_random(observed, self.seed)
