"""The algorithms word by word: lists and loops, every correlation computed when it is asked for.

The slow, obvious twin of `evenflow.placement.board`, and what `evenflow bench placement` measures it
against. It decides ties and the cases on which the paper is silent in the same way.

Paper: "Dynamic Load Distribution in the Borealis Stream Processor", §3.3 and §3.4.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import floor, sqrt

from evenflow.placement.board import billionths, whole_loads
from evenflow.placement.correlation import CONSTANT
from evenflow.placement.protocol import Nodes, Observed

Operator = int
Node = int
Series = list[float]


@dataclass
class Plan:
    """Operators on nodes, as lists."""

    series: list[Series]
    load: list[int]  #: average loads as whole numbers, so that sums have no rounding
    movable: list[bool]
    capacity: list[float]
    on: list[set[Operator]]  #: the operators of each node
    total: list[Series]  #: the load series of each node
    work: list[int]  #: the average load of each node
    nowhere: set[Operator]
    unit: float  #: load of a whole number 1
    constant: float  #: a variance up to which a series is a constant one

    @classmethod
    def of(cls, observed: Observed, nodes: Nodes, emptied: bool = False) -> Plan:
        k = observed.series.shape[1]
        load = whole_loads(observed).tolist()
        squares = (observed.series**2).mean(axis=1)
        plan = cls(
            observed.series.tolist(),
            load,
            observed.movable.tolist(),
            nodes.speeds().tolist(),
            [set() for _ in range(nodes.count)],
            [[0.0] * k for _ in range(nodes.count)],
            [0] * nodes.count,
            set(),
            float(observed.loads().sum()) / sum(load) if sum(load) else 0.0,
            CONSTANT * float(squares.max()) if len(observed) else 0.0,
        )
        for o, node in enumerate(observed.node.tolist()):
            if node < 0 or (emptied and plan.movable[o]):
                plan.nowhere.add(o)
            else:
                plan.put(o, node)
        return plan

    def put(self, o: Operator, node: Node) -> None:
        self.nowhere.discard(o)
        self.on[node].add(o)
        self.work[node] += self.load[o]
        self.total[node] = [x + s for x, s in zip(self.total[node], self.series[o], strict=True)]

    def take(self, o: Operator, node: Node) -> None:
        self.on[node].remove(o)
        self.work[node] -= self.load[o]
        self.total[node] = [x - s for x, s in zip(self.total[node], self.series[o], strict=True)]

    def busy(self, node: Node) -> float:
        return self.work[node] / self.capacity[node]

    def where(self) -> list[Node]:
        node = [-1] * len(self.series)
        for place, operators in enumerate(self.on):
            for o in operators:
                node[o] = place
        return node


def correlation(plan: Plan, a: Series, b: Series) -> float:
    """ρ of two series; 0 if one is constant."""
    k = len(a)
    mean_a, mean_b = sum(a) / k, sum(b) / k
    var_a = sum((x - mean_a) ** 2 for x in a) / k
    var_b = sum((x - mean_b) ** 2 for x in b) / k
    if var_a <= plan.constant or var_b <= plan.constant:
        return 0.0
    cov = sum((x - mean_a) * (y - mean_b) for x, y in zip(a, b, strict=True)) / k
    return cov / (sqrt(var_a) * sqrt(var_b))


def with_node(plan: Plan, o: Operator, node: Node) -> float:
    """ρ(o, N): with the load of the node without o."""
    total = plan.total[node]
    if o in plan.on[node]:
        total = [x - s for x, s in zip(total, plan.series[o], strict=True)]
    return correlation(plan, plan.series[o], total)


def of_nodes(plan: Plan, a: Node, b: Node) -> int:
    """ρ of two nodes, in billionths."""
    return billionths(correlation(plan, plan.total[a], plan.total[b]))


def best(plan: Plan, score: Callable[[Operator], float], among: list[Operator]) -> Operator:
    """The operator with the largest score."""
    return max(among, key=lambda o: (floor(score(o) * 1e9 + 0.5), plan.load[o], -o))


# --- pair-wise ------------------------------------------------------------------------------------


def pairs(plan: Plan, threshold: float) -> list[tuple[Node, Node]]:
    """§3.3: the i-th node in the order of loads with the (n−i+1)-th."""
    order = sorted(range(len(plan.on)), key=lambda node: (-plan.busy(node), node))
    n = len(order)
    return [
        (order[i], order[n - 1 - i])
        for i in range(n // 2)
        if (plan.busy(order[i]) - plan.busy(order[n - 1 - i])) * plan.unit > threshold
    ]


def fuller(plan: Plan, a: Node, b: Node) -> tuple[Node, Node]:
    return (a, b) if plan.busy(a) >= plan.busy(b) else (b, a)


def _score(plan: Plan, other: Node, node: Node) -> Callable[[Operator], float]:
    """How much better an operator is put on `node` than on `other`."""
    return lambda o: (with_node(plan, o, other) - with_node(plan, o, node)) / 2


def one_way(plan: Plan, a: Node, b: Node) -> None:
    """§3.3.1: select operators with total load less than (L1 − L2)/2, the largest score first."""
    here, there = fuller(plan, a, b)
    fast, slow = plan.capacity[here], plan.capacity[there]
    room = (plan.work[here] * slow - plan.work[there] * fast) / (fast + slow)
    selected = 0
    while True:
        among = [
            o
            for o in plan.on[here]
            if plan.movable[o] and plan.load[o] and selected + plan.load[o] < room
        ]
        if not among:
            return
        o = best(plan, _score(plan, here, there), among)
        plan.take(o, here)
        plan.put(o, there)
        selected += plan.load[o]


def redistribute(plan: Plan, a: Node, b: Node) -> None:
    """§3.3.2: from two empty nodes, the less loaded gets the operator with the largest score."""
    left = []
    for node in (a, b):
        for o in [o for o in plan.on[node] if plan.movable[o]]:
            plan.take(o, node)
            left.append(o)
        # From what stays, as sums and differences leave rounding behind.
        rows = [plan.series[o] for o in plan.on[node]]
        plan.total[node] = [sum(row[t] for row in rows) for t in range(len(plan.total[node]))]
    while left:
        other, node = fuller(plan, a, b)
        o = best(plan, _score(plan, other, node), left)
        left.remove(o)
        plan.put(o, node)
    one_way(plan, a, b)


def exchange(plan: Plan, a: Node, b: Node, least: float) -> None:
    """§3.3.3: steps (1) to (5)."""
    one_way(plan, a, b)
    for _ in range(len(plan.on[a]) + len(plan.on[b])):
        here, there = fuller(plan, a, b)
        score = _score(plan, here, there)
        among = [
            o for o in plan.on[here] if plan.movable[o] and billionths(score(o)) > billionths(least)
        ]
        if not among:
            break
        o = best(plan, score, among)
        plan.take(o, here)
        plan.put(o, there)
    one_way(plan, a, b)


def kept_if_better(plan: Plan, a: Node, b: Node, change: Callable[[], None]) -> bool:
    """Compute a new plan for two nodes; keep it if their correlation is greater than the old one."""
    old = of_nodes(plan, a, b)
    before = {node: (set(plan.on[node]), plan.total[node], plan.work[node]) for node in (a, b)}
    change()
    if of_nodes(plan, a, b) > old:
        return True
    for node, (operators, total, work) in before.items():
        plan.on[node], plan.total[node], plan.work[node] = operators, total, work
    return False


def improve_divergent(plan: Plan, enough: float, change: Callable[[Node, Node], None]) -> None:
    """§3.3.4: for each node with divergent load level more than one."""
    nodes = range(len(plan.on))
    for node in nodes:
        k = len(plan.total[node])
        mean = sum(plan.total[node]) / k
        deviation = sqrt(sum((x - mean) ** 2 for x in plan.total[node]) / k)
        if plan.work[node] * plan.unit + deviation <= plan.capacity[node] or len(nodes) < 2:
            continue
        value, other = min((of_nodes(plan, node, j), j) for j in nodes if j != node)
        if value < billionths(enough):
            kept_if_better(plan, node, other, lambda a=node, b=other: change(a, b))  # type: ignore[misc]


# --- the algorithms -------------------------------------------------------------------------------


def cor_bal(plan: Plan, threshold: float = 0.1) -> None:
    """§3.3.1."""
    for a, b in pairs(plan, threshold):
        one_way(plan, a, b)


def cor_re(plan: Plan, threshold: float = 0.1) -> None:
    """§3.3.2."""
    for a, b in pairs(plan, threshold):
        redistribute(plan, a, b)


def cor_se(plan: Plan, threshold: float = 0.1, least: float = 0.2) -> None:
    """§3.3.3."""
    for a, b in pairs(plan, threshold):
        exchange(plan, a, b, least)


def cor_re_imp(plan: Plan, threshold: float = 0.1, enough: float = 0.8) -> None:
    """§3.3.4 with redistribution."""
    cor_re(plan, threshold)
    improve_divergent(plan, enough, lambda a, b: redistribute(plan, a, b))


def cor_se_imp(plan: Plan, threshold: float = 0.1, least: float = 0.2, enough: float = 0.8) -> None:
    """§3.3.4 with selective exchange."""
    cor_se(plan, threshold, least)
    improve_divergent(plan, enough, lambda a, b: exchange(plan, a, b, least))


def cor_glb(plan: Plan, enough: float = 0.8) -> None:
    """§3.4, on a plan whose nodes have been emptied."""
    n = len(plan.on)
    left = sorted(plan.nowhere)
    while left:
        node = min(range(n), key=lambda j: (plan.busy(j), j))

        def score(o: Operator, node: Node = node) -> float:
            return sum(with_node(plan, o, j) for j in range(n)) / n - with_node(plan, o, node)

        o = best(plan, score, left)
        left.remove(o)
        plan.put(o, node)
    for a, b in pairs(plan, 0.0):
        one_way(plan, a, b)
    _improve(plan, enough)


def _improve(plan: Plan, enough: float) -> None:
    n = len(plan.on)
    matrix = {(a, b): of_nodes(plan, a, b) for a in range(n) for b in range(a + 1, n)}
    remembered: set[tuple[Node, Node]] = set()
    for _ in range(len(matrix)):
        if sum(matrix.values()) > billionths(enough) * len(matrix):
            break
        free = [pair for pair in matrix if pair not in remembered]
        if not free:
            break
        a, b = min(free, key=lambda pair: (matrix[pair], pair))
        remembered.add((a, b))
        if kept_if_better(plan, a, b, lambda a=a, b=b: redistribute(plan, a, b)):  # type: ignore[misc]
            remembered = {pair for pair in remembered if not {a, b} & set(pair)}
            for pair in matrix:
                if {a, b} & set(pair):
                    matrix[pair] = of_nodes(plan, *pair)
