"""LLF-GLB: all operators anew, the largest load first."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from evenflow.placement.board import Board
from evenflow.placement.protocol import Nodes, Observed, Proposal
from evenflow.placement.ranking import by_load


@dataclass(frozen=True)
class LargestLoadGlobal:
    """Places all operators anew, the largest average load first, each on the least loaded node.

    What traditional load balancing does: it does not look at how loads vary.

    Guarantee: a proposal has a node for every operator, and operators that are not movable stay.

    Example:
        >>> plan = LargestLoadGlobal().propose(Observed.of([[3], [3], [2], [2], [2]]), Nodes(2))
        >>> plan.loads().tolist()
        [7.0, 5.0]

    Paper: "Dynamic Load Distribution in the Borealis Stream Processor", §5.1.3.
    """

    name: ClassVar[str] = "llf-glb"
    symbol: ClassVar[str] = "LLF-GLB"
    anew: ClassVar[bool] = True

    def propose(self, observed: Observed, nodes: Nodes) -> Proposal:
        nodes.check(observed, self.anew)
        rank = by_load(observed)
        board = Board(observed, nodes, emptied=True, rank=rank)
        order = np.argsort(rank)
        board.assign_in_order(order[observed.movable[order]])
        for a, b in board.pairs():
            board.one_way(a, b)
        return board.proposal(self.name)
