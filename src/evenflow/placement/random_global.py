"""RAND-GLB: all operators anew, in random order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from evenflow.placement.board import Board
from evenflow.placement.protocol import Nodes, Observed, Proposal
from evenflow.placement.ranking import at_random


@dataclass(frozen=True)
class RandomGlobal:
    """Places all operators anew in random order, each on the least loaded node.

    Guarantee: a proposal has a node for every operator, and operators that are not movable stay. The
    order depends on the seed and the period alone.

    Parameters:
        seed: of the order.

    Example:
        >>> plan = RandomGlobal(seed=1).propose(Observed.of([[1], [1], [1], [1]]), Nodes(2))
        >>> plan.loads().tolist()
        [2.0, 2.0]

    Paper: "Dynamic Load Distribution in the Borealis Stream Processor", §5.1.3.
    """

    name: ClassVar[str] = "rand-glb"
    symbol: ClassVar[str] = "RAND-GLB"
    anew: ClassVar[bool] = True

    seed: int = 0

    def propose(self, observed: Observed, nodes: Nodes) -> Proposal:
        nodes.check(observed, self.anew)
        rank = at_random(observed, self.seed)
        board = Board(observed, nodes, emptied=True, rank=rank)
        order = np.argsort(rank)
        board.assign_in_order(order[observed.movable[order]])
        for a, b in board.pairs():
            board.one_way(a, b)
        return board.proposal(self.name)
