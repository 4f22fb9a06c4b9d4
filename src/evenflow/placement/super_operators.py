"""Many tiny operators: run an algorithm on super-operators of enough load each."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from evenflow.model.validation import check_not_negative
from evenflow.placement.board import I64
from evenflow.placement.protocol import I32, Nodes, Observed, Placer, Proposal


@dataclass(frozen=True)
class SuperOperators:
    """Runs an algorithm that treats the small operators of a node as one, and moves them together.

    Movable operators of the same node with less load than `least` are grouped, the smallest first,
    until each group has at least that load; the remainder joins the last group.

    Guarantee: no group has less load than `least`, unless it is the only one of its node. Operators of
    a group go to the same node.

    Parameters:
        placer: the algorithm.
        least: the average load below which operators are grouped.

    Example:
        >>> from evenflow.placement import make_placer
        >>> seen = Observed.of([[0.01], [0.02], [0.03], [0.5]], node=[0, 0, 0, 0])
        >>> grouped = SuperOperators(make_placer("llf-bal"), least=0.05)
        >>> grouped.groups(seen).tolist(), grouped.propose(seen, Nodes(2)).node.tolist()
        ([0, 0, 0, 1], [1, 1, 1, 0])

    Paper: "Dynamic Load Distribution in the Borealis Stream Processor", §4.3.
    """

    placer: Placer
    least: float

    def __post_init__(self) -> None:
        check_not_negative("the least load of a super-operator", self.least)

    @property
    def from_scratch(self) -> bool:
        """Whether it places all operators from scratch."""
        return self.placer.from_scratch

    def groups(self, observed: Observed) -> I64:
        """The group of each operator; most operators have one of their own."""
        loads = observed.loads()
        small = observed.movable & (loads < self.least)
        leader: I64 = np.arange(len(observed))
        for node in np.unique(observed.node[small]):
            rows = np.flatnonzero(small & (observed.node == node))
            rows = rows[np.argsort(loads[rows], kind="stable")]
            group, load, before = int(rows[0]), 0.0, int(rows[0])
            for row in rows.tolist():
                if load == 0.0:
                    group = row
                leader[row] = group
                load += float(loads[row])
                if load >= self.least:
                    before, load = group, 0.0
            if load and before != group:  # too little remains for a group
                leader[leader == group] = before
        _, numbers = np.unique(leader, return_inverse=True)
        return numbers.astype(np.int64)

    def propose(self, observed: Observed, nodes: Nodes) -> Proposal:
        """Propose a node for each operator."""
        group = self.groups(observed)
        count = int(group.max()) + 1 if len(group) else 0
        series = np.zeros((count, observed.series.shape[1]))
        np.add.at(series, group, observed.series)
        node, movable = np.empty(count, np.int32), np.empty(count, np.bool_)
        node[group], movable[group] = observed.node, observed.movable
        found = self.placer.propose(Observed(series, node, movable, observed.period), nodes)
        where: I32 = found.node[group]
        details = {**found.details, "super_operators": count}
        return Proposal(observed, nodes, where, found.algorithm, details)
