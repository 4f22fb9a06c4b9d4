"""The steps of all placement algorithms, applied to one plan.

    board = Board(observed, nodes)              # operators where they are
    for a, b in board.pairs():                  # the most with the least loaded, and so on
        board.one_way(a, b)
    board.proposal("cor-bal", {"pairs": 2})

What the paper leaves open:

- Ties go to the larger load, then to the smaller row. (Operators of one chain are perfectly correlated
  and always tie. With k = 1 all tie, which leaves largest load first.)
- With unequal capacities, nodes are compared by load over capacity, and one-way balancing moves less
  than what makes the two equal in that sense.
- One-way balancing does not move operators without load: it would change nothing.
- Of two equally loaded nodes, the first counts as the more loaded one.

Paper: "Dynamic Load Distribution in the Borealis Stream Processor", §3.3 and §3.4.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from evenflow.kernels import placing as kernels
from evenflow.kernels import placing_all as all_nodes
from evenflow.placement.correlation import F64, unit_series
from evenflow.placement.protocol import I32, NOWHERE, Nodes, Observed, Proposal

I64 = npt.NDArray[np.int64]

_BITS = 50  #: of the total load as a whole number; also exact as a float
BY_SCORE: I64 = np.zeros(0, np.int64)


def whole_loads(observed: Observed) -> I64:
    """The average loads as whole numbers that add up to about 2⁵⁰."""
    loads = observed.loads()
    total = float(loads.sum())
    if total <= 0:
        return np.zeros(len(observed), np.int64)
    return np.floor(loads * (2.0**_BITS / total) + 0.5).astype(np.int64)


def billionths(value: float) -> int:
    """A score or correlation as a whole number, for comparisons."""
    return int(np.floor(value * kernels.BILLION + 0.5))


class Board:
    """A plan that the steps of an algorithm change.

    Parameters:
        observed, nodes: the operators and the nodes.
        emptied: begin with nodes that hold only operators that cannot move.
        rank: of each operator, if ranks rather than scores order the operators in `one_way`.
    """

    def __init__(
        self, observed: Observed, nodes: Nodes, emptied: bool = False, rank: I64 = BY_SCORE
    ) -> None:
        self.observed, self.nodes, self.rank = observed, nodes, rank
        rows, k, n = len(observed), observed.series.shape[1], len(nodes)
        direction, limit = unit_series(observed.series)
        centred = observed.series - observed.series.mean(axis=1, keepdims=True)
        self.operators = kernels.Operators(
            centred, direction, whole_loads(observed), observed.movable.copy(), limit
        )
        total = int(self.operators.work.sum())
        self._scale = float(observed.loads().sum()) / total if total else 0.0
        where = observed.node.copy()
        if emptied:
            where[observed.movable] = NOWHERE
        self.sites = kernels.Sites(
            series=np.zeros((n, k)),
            direction=np.zeros((n, k)),
            work=np.zeros(n, np.int64),
            speed=nodes.speeds(),
            first=np.full(n, -1, np.int32),
            following=np.full(rows, -1, np.int32),
            where=where,
        )
        all_nodes.fill(self.operators, self.sites)
        self._bench = kernels.Pair(
            row=np.zeros(rows, np.int32),
            side=np.zeros(rows, np.int8),
            series=np.zeros((2, k)),
            work=np.zeros(2, np.int64),
            speed=np.ones(2),
            aim=np.zeros(k),
        )

    # --- all nodes ---

    def assign_by_score(self) -> None:
        """Place every operator that has no node: the greedy step of the global algorithm."""
        left = np.flatnonzero(self.sites.where < 0).astype(np.int32)
        k = self.sites.series.shape[1]
        all_nodes.assign_by_score(self.operators, self.sites, left, np.zeros(k), np.zeros(k))

    def assign_in_order(self, order: I64) -> None:
        """Place each of these operators in turn on the least loaded node."""
        all_nodes.assign_in_order(self.operators, self.sites, order.astype(np.int32))

    def improve(self, threshold: float) -> dict[str, int]:
        """Run the correlation improvement step of the global algorithm; return how many pairs it tried
        and how many new plans it adopted."""
        n = len(self.nodes)
        counters = np.zeros(3, np.int64)
        all_nodes.improve(
            *(self.operators, self.sites, self._bench, self.rank, billionths(threshold)),
            *(np.zeros((n, n), np.int64), np.zeros((n, n), np.bool_)),
            *(np.zeros(n, np.int64), np.zeros(n, np.int32), counters),
        )
        return {
            "tried": int(counters[all_nodes.TRIED]),
            "adopted": int(counters[all_nodes.ADOPTED]),
        }

    # --- pairs of nodes ---

    def pairs(self, threshold: float = 0.0) -> list[tuple[int, int]]:
        """The most with the least loaded node, the second with the second-least, and so on, where the
        loads differ by more than the threshold."""
        busy = self.busy()
        order = np.argsort(-busy, kind="stable")
        n = len(order)
        return [
            (int(order[i]), int(order[n - 1 - i]))
            for i in range(n // 2)
            if busy[order[i]] - busy[order[n - 1 - i]] > threshold
        ]

    def busy(self) -> F64:
        """The average load of each node over its capacity."""
        busy: F64 = self.sites.work / self.sites.speed * self._scale
        return busy

    def one_way(self, a: int, b: int) -> None:
        """Balance two nodes: the more loaded one sends operators to the other."""
        count = kernels.gather(self.sites, a, b, self._bench)
        kernels.one_way(self.operators, self._bench, count, self.rank)
        self._keep(a, b, count)

    def redistribute(self, a: int, b: int, if_better: bool = False) -> bool:
        """Redistribute all movable operators of two nodes; return whether that was kept."""
        count = kernels.gather(self.sites, a, b, self._bench)
        kernels.redistribute(self.operators, self._bench, count, self.rank)
        return self._keep(a, b, count, if_better)

    def exchange(self, a: int, b: int, least: float, if_better: bool = False) -> bool:
        """Exchange operators of two nodes with a score above `least`; return whether that was kept."""
        count = kernels.gather(self.sites, a, b, self._bench)
        kernels.exchange(self.operators, self._bench, count, self.rank, billionths(least))
        return self._keep(a, b, count, if_better)

    def _keep(self, a: int, b: int, count: int, if_better: bool = False) -> bool:
        better = kernels.bench_correlation(self.operators, self._bench)
        if if_better and better <= kernels.node_correlation(self.sites, a, b):
            return False
        kernels.commit(self.operators, self.sites, a, b, self._bench, count)
        return True

    # --- candidates for improvement ---

    def is_divergent(self, node: int) -> bool:
        """Whether a node's average load plus its standard deviation is above its capacity."""
        deviation = float(np.sqrt((self.sites.series[node] ** 2).mean()))
        load = float(self.sites.work[node]) * self._scale
        return load + deviation > float(self.sites.speed[node])

    def least_correlated(self, node: int) -> tuple[int, float]:
        """The other node with the least load correlation, and that correlation."""
        products = self.sites.direction @ self.sites.direction[node]
        values = np.floor(products * kernels.BILLION + 0.5)
        values[node] = np.inf
        other = int(np.argmin(values))
        return other, float(values[other]) / kernels.BILLION

    def proposal(self, algorithm: str, details: dict[str, Any] | None = None) -> Proposal:
        """The current plan."""
        node: I32 = self.sites.where.copy()
        return Proposal(self.observed, self.nodes, node, algorithm, details or {})
