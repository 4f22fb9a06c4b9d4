"""Large clusters: run an algorithm within domains of a few nodes each."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from evenflow.model import InputError
from evenflow.model.validation import check_whole
from evenflow.placement.board import Board
from evenflow.placement.protocol import NOWHERE, Nodes, Observed, Placer, Proposal
from evenflow.placement.ranking import by_load


@dataclass(frozen=True)
class Domains:
    """Runs an algorithm within one domain after another.

    Domains are runs of `size` consecutive nodes, each beginning `size − overlap` after the previous
    one; the last may be smaller. Where domains overlap, load can travel from one to the next. Operators
    without a node are first dealt out to domains, the largest load first.

    Guarantee: without overlap, no operator leaves the domain of its node.

    Parameters:
        placer: the algorithm.
        size: nodes per domain.
        overlap: nodes that neighbouring domains share.

    Example:
        >>> from evenflow.placement import make_placer
        >>> loads = [[0.9], [0.3], [0.3], [0.3], [0.3], [0.3]]
        >>> seen = Observed.of(loads, node=[0, 0, 0, 2, 2, 2])
        >>> Domains(make_placer("llf-glb"), size=2).propose(seen, Nodes(4)).node.tolist()
        [0, 1, 1, 2, 3, 2]

    Paper: "Dynamic Load Distribution in the Borealis Stream Processor", §4.3.
    """

    placer: Placer
    size: int
    overlap: int = 0

    def __post_init__(self) -> None:
        check_whole("the nodes of a domain", self.size, 1)
        check_whole("the overlap of domains", self.overlap, 0)
        if self.overlap >= self.size:
            raise InputError(
                f"domains of {self.size} nodes can overlap by at most {self.size - 1} nodes, got "
                f"{self.overlap}"
            )

    @property
    def from_scratch(self) -> bool:
        """Whether it places all operators from scratch, within the domains."""
        return self.placer.from_scratch

    def starts(self, nodes: Nodes) -> list[int]:
        """The first node of each domain."""
        last = max(nodes.count - self.overlap, 1)
        return list(range(0, last, self.size - self.overlap))

    def propose(self, observed: Observed, nodes: Nodes) -> Proposal:
        """Propose a node for each operator."""
        nodes.check(observed, self.from_scratch)
        node = self._with_domains(observed, nodes)
        speeds = nodes.speeds()
        starts = self.starts(nodes)
        for first in starts:
            end = min(first + self.size, nodes.count)
            rows = np.flatnonzero((node >= first) & (node < end))
            inside = Observed(
                observed.series[rows], node[rows] - first, observed.movable[rows], observed.period
            )
            domain = Nodes(end - first, tuple(speeds[first:end].tolist()))
            if len(rows):
                node[rows] = self.placer.propose(inside, domain).node + first
        return Proposal(observed, nodes, node, type(self.placer).name, {"domains": len(starts)})

    def _with_domains(self, observed: Observed, nodes: Nodes) -> np.ndarray:
        """The operators' nodes; those without one get the first node of a domain, by load."""
        node = observed.node.copy()
        new = np.flatnonzero(node == NOWHERE)
        if len(new):
            starts = [*self.starts(nodes), nodes.count]
            speeds = nodes.speeds()
            whole = tuple(float(speeds[a:b].sum()) for a, b in pairwise(starts))
            domain = np.searchsorted(starts, node, side="right") - 1
            domain[new] = NOWHERE
            there = Observed(observed.series, domain.astype(np.int32), observed.movable)
            board = Board(there, Nodes(len(whole), whole), rank=by_load(there))
            order = np.argsort(board.rank)
            board.assign_in_order(order[domain[order] == NOWHERE])
            node[new] = np.array(starts, np.int32)[board.sites.where[new]]
        return node
