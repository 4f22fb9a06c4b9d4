"""The protocol of placement: from operators' load series to a node for each operator.

Paper: "Dynamic Load Distribution in the Borealis Stream Processor", §2. In its words: a load series is
S = (s1, …, sk), E S is the average load, var S the load variance, and a plan maps operators to nodes.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from evenflow.model import InputError
from evenflow.model.validation import check_one_each, check_whole
from evenflow.placement.correlation import F64, correlations

I32 = npt.NDArray[np.int32]
Booleans = npt.NDArray[np.bool_]

NOWHERE = -1  #: the node of an operator that has none yet


@dataclass(frozen=True)
class Observed:
    """The statistics of all operators; one row per operator, in any order.

    Parameters:
        series: the last k load samples, oldest first: processor time over elapsed time, on a node of
            capacity 1. Shape (operators, k).
        node: the current node of each operator; −1 for none yet.
        movable: False for an operator that must stay where it is.
        period: the number of this round of statistics. It seeds random algorithms, so that the same
            statistics give the same proposal.

    Example:
        >>> seen = Observed.of([[0.1, 0.3], [0.3, 0.1], [0.2, 0.2]], node=[0, 0, 1])
        >>> seen.loads().round(6).tolist(), seen.node_series(2).round(6).tolist()
        ([0.2, 0.2, 0.2], [[0.4, 0.4], [0.2, 0.2]])
    """

    series: F64
    node: I32
    movable: Booleans
    period: int = 0

    def __post_init__(self) -> None:
        if self.series.ndim != 2 or not self.series.shape[1]:
            raise InputError(
                "load series must be one row per operator with at least one sample each, got shape "
                f"{self.series.shape}"
            )
        rows = len(self.series)
        for name in ("node", "movable"):
            if len(getattr(self, name)) != rows:
                given = len(getattr(self, name))
                raise InputError(f"{rows} operators, but {given} values of {name}")
        if rows and not (np.isfinite(self.series).all() and self.series.min() >= 0):
            raise InputError("loads must be finite and not negative")
        if rows and self.node.min() < NOWHERE:
            raise InputError("node must be the number of a node, from 0, or -1 for none yet")
        homeless = np.flatnonzero(~self.movable & (self.node < 0))
        if len(homeless):
            raise InputError(f"operator {homeless[0]} cannot be moved and has no node; give it one")

    @classmethod
    def of(
        cls,
        series: npt.ArrayLike,
        node: npt.ArrayLike | None = None,
        movable: npt.ArrayLike | None = None,
        period: int = 0,
    ) -> Observed:
        """Build it from anything array-like. By default operators are movable and have no node."""
        loads = np.ascontiguousarray(series, np.float64)
        rows = len(loads)
        return cls(
            loads,
            np.full(rows, NOWHERE, np.int32) if node is None else np.array(node, np.int32),
            np.ones(rows, np.bool_) if movable is None else np.array(movable, np.bool_),
            period,
        )

    def __len__(self) -> int:
        return len(self.series)

    def loads(self) -> F64:
        """E S: the average load of each operator."""
        loads: F64 = self.series.mean(axis=1)
        return loads

    def node_series(self, nodes: int, node: I32 | None = None) -> F64:
        """X: the load series of each node, for the current nodes or those given."""
        where = self.node if node is None else node
        total = np.zeros((nodes, self.series.shape[1]))
        there = where >= 0
        np.add.at(total, where[there], self.series[there])
        return total


@dataclass(frozen=True)
class Nodes:
    """The machines.

    Parameters:
        count: n.
        capacities: processor time per unit of time of each node; 1 by default. Nodes are compared by
            load over capacity.

    Example:
        >>> Nodes(2, (1.0, 4.0)).speeds().tolist()
        [1.0, 4.0]
    """

    count: int
    capacities: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        check_whole("the number of nodes", self.count, 1)
        check_one_each("nodes", self.count, "capacities", self.capacities)

    def __len__(self) -> int:
        return self.count

    def speeds(self) -> F64:
        """The capacities as an array."""
        if self.capacities is None:
            return np.ones(self.count)
        return np.array(self.capacities, np.float64)

    def check(self, observed: Observed, from_scratch: bool) -> None:
        """Refuse operators on unknown nodes, and operators without a node unless the algorithm places
        from scratch."""
        if len(observed) and observed.node.max() >= self.count:
            raise InputError(
                f"an operator is on node {observed.node.max()}, but there are {self.count} nodes, "
                f"0 to {self.count - 1}"
            )
        nowhere = np.flatnonzero(observed.node < 0)
        if not from_scratch and len(nowhere):
            raise InputError(
                f"operator {nowhere[0]} is on no node, and a pairwise algorithm only moves operators "
                "between nodes; give each operator a node, or use a global algorithm (cor-glb)"
            )


@dataclass(frozen=True)
class Proposal:
    """A node for every operator, as an algorithm proposes it, and what that means.

    Parameters:
        observed: the statistics.
        nodes: the machines.
        node: the proposed node of each operator.
        algorithm: its name.
        details: numbers about the search, such as rounds and pairs.

    Example:
        >>> seen = Observed.of([[0.2, 0.6], [0.6, 0.2]], node=[0, 1])
        >>> together = Proposal(seen, Nodes(2), np.array([1, 1], np.int32))
        >>> together.moved().tolist(), together.load_moved(), together.variances().round(9).tolist()
        ([True, False], 0.4, [0.0, 0.0])
    """

    observed: Observed
    nodes: Nodes
    node: I32
    algorithm: str = ""
    details: dict[str, Any] = field(default_factory=dict)

    def series(self) -> F64:
        """X: the load series of each node over its capacity, under the proposal."""
        total = self.observed.node_series(len(self.nodes), self.node)
        return total / self.nodes.speeds()[:, None]

    def loads(self) -> F64:
        """E X: the average load of each node, over its capacity."""
        loads: F64 = self.series().mean(axis=1)
        return loads

    def variances(self) -> F64:
        """var X of each node."""
        variances: F64 = self.series().var(axis=1)
        return variances

    def correlation(self) -> float:
        """The average of ρij over all pairs of nodes; constant loads count as uncorrelated."""
        return average_correlation(self.series())

    def moved(self) -> Booleans:
        """Which operators change their node, or get their first one."""
        moved: Booleans = self.node != self.observed.node
        return moved

    def load_moved(self) -> float:
        """The total average load of all operators that leave a node."""
        leaving = self.moved() & (self.observed.node >= 0)
        return float(self.observed.loads()[leaving].sum())

    def reason(self) -> str:
        """The effect, in words."""
        moved = int(self.moved().sum())
        if not moved:
            return "every operator stays where it is"
        before = Proposal(self.observed, self.nodes, self.observed.node)
        return (
            f"{moved} operators move with a load of {self.load_moved():.3g}: the average load variance "
            f"goes from {before.variances().mean():.3g} to {self.variances().mean():.3g}, the average "
            f"load correlation from {before.correlation():.2f} to {self.correlation():.2f}"
        )


def average_correlation(series: F64) -> float:
    """The average of ρ over all pairs of rows; 0 if there is no pair.

    Example:
        >>> round(average_correlation(np.array([[1.0, 2.0], [2.0, 4.0], [2.0, 1.0]])), 6)
        -0.333333
    """
    n = len(series)
    if n < 2:
        return 0.0
    return float(correlations(series)[np.triu_indices(n, 1)].mean())


def least_variance(series: F64, nodes: int) -> float:
    """var X / n² of the total load X: no balanced plan has a smaller average load variance.

    Example:
        >>> float(round(least_variance(np.array([[0.2, 0.6], [0.2, 0.6]]), 2), 9))
        0.04

    Paper: Theorem 1.
    """
    return float(series.sum(axis=0).var()) / nodes**2


@runtime_checkable
class Placer(Protocol):
    """Proposes moves; the caller decides. A placer is frozen, picklable and stateless: the same
    statistics and nodes give the same proposal on every machine.

    Guarantee: a proposal has a node for every operator, and operators that are not movable stay.
    """

    name: ClassVar[str]  #: "cor-glb"
    symbol: ClassVar[str]  #: the paper's name, "COR-GLB"
    from_scratch: ClassVar[bool]  #: whether it ignores where operators are now

    def propose(self, observed: Observed, nodes: Nodes) -> Proposal:
        """Propose a node for each operator."""
        ...
