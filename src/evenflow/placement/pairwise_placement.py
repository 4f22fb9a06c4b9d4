"""The algorithms that move operators between pairs of nodes: one skeleton, seven ways to change a pair.

Paper: "Dynamic Load Distribution in the Borealis Stream Processor", §3.3; rivals: §5.1.3.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from evenflow.model.validation import check_not_negative, check_positive
from evenflow.placement.board import BY_SCORE, I64, Board
from evenflow.placement.protocol import Nodes, Observed, Proposal
from evenflow.placement.ranking import at_random, by_load


@dataclass(frozen=True)
class PairwisePlacer:
    """The common skeleton: which pairs are changed.

    The most loaded node is paired with the least loaded one, the second with the second-least, and so
    on. Pairs whose loads differ by more than the threshold are changed.

    Parameters:
        threshold: ε, the tolerated difference of loads.
    """

    name: ClassVar[str]
    from_scratch: ClassVar[bool] = False

    threshold: float = 0.1

    def __post_init__(self) -> None:
        check_not_negative("the load balancing threshold", self.threshold)

    def propose(self, observed: Observed, nodes: Nodes) -> Proposal:
        """Propose a node for each operator."""
        nodes.check(observed, self.from_scratch)
        board = Board(observed, nodes, rank=self._rank(observed))
        pairs = board.pairs(self.threshold)
        for a, b in pairs:
            self._change(board, a, b)
        return board.proposal(self.name, {"pairs": len(pairs), **self._improve(board)})

    def _rank(self, observed: Observed) -> I64:
        """The order of operators, if not by score."""
        return BY_SCORE

    def _change(self, board: Board, a: int, b: int, if_better: bool = False) -> bool:
        """Change a pair; return whether that was kept."""
        board.one_way(a, b)
        return True

    def _improve(self, board: Board) -> dict[str, int]:
        """Run a second step, over balanced nodes; return numbers about it."""
        return {}


@dataclass(frozen=True)
class CorrelationBalance(PairwisePlacer):
    """Balances pairs of nodes: the more loaded one sends operators that fit better on the other.

    Operators move one by one, the largest score first, as long as their total is less than half of the
    difference of loads. No other pairwise algorithm moves less load.

    Guarantee: no node's load grows beyond that of the more loaded node of its pair.

    Example:
        >>> seen = Observed.of([[0.6, 0.2], [0.6, 0.2], [0.1, 0.3], [0.2, 0.6]], node=[0, 0, 0, 1])
        >>> CorrelationBalance().propose(seen, Nodes(2)).moved().tolist()
        [False, False, True, False]

    Paper: §3.3.1.
    """

    name: ClassVar[str] = "cor-bal"
    symbol: ClassVar[str] = "COR-BAL"


@dataclass(frozen=True)
class LargestLoadBalance(PairwisePlacer):
    """Balances pairs of nodes: the more loaded one sends its largest operators that fit.

    Guarantee: no node's load grows beyond that of the more loaded node of its pair.

    Example:
        >>> seen = Observed.of([[0.5], [0.3], [0.2], [0.1]], node=[0, 0, 0, 1])
        >>> LargestLoadBalance().propose(seen, Nodes(2)).moved().tolist()
        [False, True, False, False]

    Paper: §5.1.3.
    """

    name: ClassVar[str] = "llf-bal"
    symbol: ClassVar[str] = "LLF-BAL"

    def _rank(self, observed: Observed) -> I64:
        return by_load(observed)


@dataclass(frozen=True)
class RandomBalance(PairwisePlacer):
    """Balances pairs of nodes: the more loaded one sends operators that fit, in random order.

    Guarantee: no node's load grows beyond that of the more loaded node of its pair. The order depends
    on the seed and the period alone.

    Parameters:
        seed: of the order.

    Example:
        >>> seen = Observed.of([[0.5], [0.2], [0.1], [0.1]], node=[0, 0, 0, 1])
        >>> RandomBalance().propose(seen, Nodes(2)).moved().tolist()
        [False, True, True, False]

    Paper: §5.1.3.
    """

    name: ClassVar[str] = "rand-bal"
    symbol: ClassVar[str] = "RAND-BAL"

    seed: int = 0

    def _rank(self, observed: Observed) -> I64:
        return at_random(observed, self.seed)


@dataclass(frozen=True)
class CorrelationRedistribution(PairwisePlacer):
    """Redistributes the operators of unevenly loaded pairs of nodes, as if both had been empty.

    The best result for two nodes, but it moves more load than any other pairwise algorithm.

    Guarantee: operators move only between nodes of a pair whose loads differ by more than the
    threshold.

    Example:
        >>> seen = Observed.of([[0.6, 0.2], [0.6, 0.2], [0.1, 0.3], [0.2, 0.6]], node=[0, 0, 0, 1])
        >>> CorrelationRedistribution().propose(seen, Nodes(2)).loads().round(6).tolist()
        [0.6, 0.8]

    Paper: §3.3.2.
    """

    name: ClassVar[str] = "cor-re"
    symbol: ClassVar[str] = "COR-RE"

    def _change(self, board: Board, a: int, b: int, if_better: bool = False) -> bool:
        return board.redistribute(a, b, if_better)


@dataclass(frozen=True)
class CorrelationExchange(PairwisePlacer):
    """Moves operators between unevenly loaded nodes in both directions, but only good candidates.

    After one-way balancing, the more loaded node of the pair repeatedly gives away its operator with
    the largest score, as long as that is above the threshold; another one-way balancing follows.

    Guarantee: operators move only between nodes of a pair whose loads differ by more than the
    threshold.

    Parameters:
        exchange: δ, the score above which an operator is worth moving.

    Example:
        >>> seen = Observed.of([[0.6, 0.2], [0.6, 0.2], [0.1, 0.3], [0.2, 0.6]], node=[0, 0, 0, 1])
        >>> CorrelationExchange().propose(seen, Nodes(2)).moved().tolist()
        [True, False, False, False]

    Paper: §3.3.3.
    """

    name: ClassVar[str] = "cor-se"
    symbol: ClassVar[str] = "COR-SE"

    exchange: float = 0.2

    def __post_init__(self) -> None:
        super().__post_init__()
        check_positive("the score above which operators are exchanged", self.exchange)

    def _change(self, board: Board, a: int, b: int, if_better: bool = False) -> bool:
        return board.exchange(a, b, self.exchange, if_better)


@dataclass(frozen=True)
class Improving(PairwisePlacer):
    """A second step, for nodes that are balanced but may be overloaded temporarily.

    A node whose average load plus its standard deviation (its divergent load level) is above its
    capacity is paired with its least correlated node. If that correlation is below the threshold, the
    pair is changed, and the change is kept if the correlation grows. Nodes are visited by number, each
    in its state after the changes before.

    Parameters:
        correlation: ρ, the load correlation that is enough.
    """

    correlation: float = 0.8

    def __post_init__(self) -> None:
        super().__post_init__()
        check_not_negative("the correlation that is enough", self.correlation)

    def _improve(self, board: Board) -> dict[str, int]:
        changed = 0
        for node in range(len(board.nodes)) if len(board.nodes) > 1 else ():
            if board.is_divergent(node):
                other, correlation = board.least_correlated(node)
                if correlation < self.correlation:
                    changed += self._change(board, node, other, if_better=True)
        return {"improved": changed}


@dataclass(frozen=True)
class ImprovedRedistribution(Improving, CorrelationRedistribution):
    """Redistributes unevenly loaded pairs, then nodes that may be overloaded temporarily.

    Guarantee: the second step changes a pair of nodes only if its correlation grows.

    Example:
        >>> bursts = [[1.2, 0.2], [1.2, 0.2], [0.2, 1.2], [0.2, 1.2]]
        >>> plan = ImprovedRedistribution().propose(Observed.of(bursts, [0, 0, 1, 1]), Nodes(2))
        >>> plan.variances().round(6).tolist()
        [0.0, 0.0]

    Paper: §3.3.4.
    """

    name: ClassVar[str] = "cor-re-imp"
    symbol: ClassVar[str] = "COR-RE-IMP"


@dataclass(frozen=True)
class ImprovedExchange(Improving, CorrelationExchange):
    """Exchanges between unevenly loaded pairs, then for nodes that may be overloaded temporarily.

    Guarantee: the second step changes a pair of nodes only if its correlation grows.

    Example:
        >>> bursts = [[1.2, 0.2], [1.2, 0.2], [0.2, 1.2], [0.2, 1.2]]
        >>> plan = ImprovedExchange().propose(Observed.of(bursts, [0, 0, 1, 1]), Nodes(2))
        >>> plan.moved().tolist()
        [True, False, True, False]

    Paper: §3.3.4.
    """

    name: ClassVar[str] = "cor-se-imp"
    symbol: ClassVar[str] = "COR-SE-IMP"
