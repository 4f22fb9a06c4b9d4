"""The planners of mixed routing on vectors instead of keys.

Hundreds of keys that are alike become one row (`vectors`), the planners see the rows, and what they
decide is expanded back to keys. A plan's `details` say how exact that was:

- `vectors`: how many rows stood for all keys;
- `load_error`: how far a worker's keys cost more or less than their vectors say, in percent of its
  load, at worst (Figure 11(b) of the paper);
- `tightened`: by how much θmax was lowered for the vectors, because with θmax itself the keys, other
  than their vectors, overloaded a worker.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from evenflow.model.validation import check_not_negative
from evenflow.planning.assigning import Assignment, Room, assign, prepare
from evenflow.planning.mixed import best_assignment, trials
from evenflow.planning.protocol import Constraints, Proposal, Statistics
from evenflow_lab.rivals.half_linear import check_degree
from evenflow_lab.rivals.vectors import Expanded, Moves, Vectors, expanded, vectors_of

_TIGHTENINGS = (
    3  #: how often θmax is lowered at most; each time takes as long as a plan for vectors
)

_ROUNDING = 1e-9  #: of a worker's share, as in `Proposal.failures`

Found = tuple[Room, Assignment, dict[str, Any]]


@dataclass(frozen=True)
class CompactPlanner:
    """What the three share.

    Parameters:
        degree: R, a power of two: the larger, the fewer vectors and the less exact.
        greedy: vectors have the costs to which §IV-B rounds keys, not the averages of their keys.
    """

    name: ClassVar[str]

    degree: int = 32
    greedy: bool = False

    def __post_init__(self) -> None:
        check_degree(self.degree)

    def plan(self, statistics: Statistics, constraints: Constraints) -> Proposal:
        constraints.check(statistics)
        return _planned(self, statistics, constraints)

    def assigned(self, vectors: Vectors, constraints: Constraints) -> Found:
        """Where the keys of the vectors go, and how that was found."""
        raise NotImplementedError


@dataclass(frozen=True)
class CompactMinMig(CompactPlanner):
    """MinMig on vectors of keys that are alike.

    Parameters:
        beta: the weight of the cost against that of the state in γ = c^β / S.

    Example:
        >>> seen = Statistics.of([9, 2, 2, 2, 2, 1], worker=[0, 0, 0, 0, 0, 1])
        >>> CompactMinMig(degree=1).plan(seen, Constraints(2, theta=0.0)).loads().tolist()
        [9.0, 9.0]

    Paper: "Parallel stream processing against workload skewness and variance", §IV-A.
    """

    name: ClassVar[str] = "compact-min-mig"
    symbol: ClassVar[str] = "MinMig (compact)"

    beta: float = 1.5

    def __post_init__(self) -> None:
        super().__post_init__()
        check_not_negative("β", self.beta)

    def assigned(self, vectors: Vectors, constraints: Constraints) -> Found:
        room = prepare(vectors.rows, constraints, False, self.beta, vectors.counts)
        found = assign(room)
        return room, found, {"unfit": found.unfit}


@dataclass(frozen=True)
class CompactMixed(CompactMinMig):
    """Mixed on vectors of keys that are alike: as good a plan in less time, the more so the more keys
    there are and the more trials it takes.

    Guarantee: what a plan keeps or breaks is judged by the keys themselves, not by their vectors. At
    degree 1, with whole costs of which the smallest is 1, vectors are exact.

    Parameters:
        beta: the weight of the cost against that of the state in γ = c^β / S.

    Example:
        >>> seen = Statistics.of([9, 2, 2, 2, 2, 1], worker=[0, 0, 0, 0, 0, 1])
        >>> plan = CompactMixed(degree=1).plan(seen, Constraints(2, theta=0.0))
        >>> plan.loads().tolist(), plan.details["vectors"], plan.details["load_error"]
        ([9.0, 9.0], 3, 0.0)

    Paper: "Parallel stream processing against workload skewness and variance", §IV-A and §IV-B.
    """

    name: ClassVar[str] = "compact-mixed"
    symbol: ClassVar[str] = "Mixed (compact)"

    def assigned(self, vectors: Vectors, constraints: Constraints) -> Found:
        room = prepare(vectors.rows, constraints, False, self.beta, vectors.counts)
        return room, *best_assignment(room, trials(room), self.name, first=True)


@dataclass(frozen=True)
class CompactMinTable(CompactPlanner):
    """MinTable on vectors of keys that are alike.

    Example:
        >>> seen = Statistics.of([9, 2, 2, 2, 2, 1], worker=[1, 1, 0, 0, 0, 1], home=[0] * 5 + [1])
        >>> plan = CompactMinTable(degree=1).plan(seen, Constraints(2, theta=0.0))
        >>> plan.loads().tolist(), plan.table_size()
        ([9.0, 9.0], 2)

    Paper: "Parallel stream processing against workload skewness and variance", §IV-A.
    """

    name: ClassVar[str] = "compact-min-table"
    symbol: ClassVar[str] = "MinTable (compact)"

    def assigned(self, vectors: Vectors, constraints: Constraints) -> Found:
        room = prepare(vectors.rows, constraints, by_cost=True, counts=vectors.counts)
        found = assign(room, room.loose)
        return room, found, {"unfit": found.unfit}


def _planned(planner: CompactPlanner, statistics: Statistics, constraints: Constraints) -> Proposal:
    """A plan for the vectors, expanded to keys; once more with a smaller θmax if it overloads by keys
    a worker that it does not overload by vectors."""
    vectors = vectors_of(statistics, planner.degree, planner.greedy)
    best, least, theta = None, float("inf"), constraints.theta
    for _ in range(1 + _TIGHTENINGS):
        room, found, details = planner.assigned(vectors, replace(constraints, theta=theta))
        stays = room.place.copy()
        stays[found.moved_back] = vectors.rows.home[found.moved_back]
        moves = Moves(stays, found.rows, found.workers, found.amounts)
        keys = expanded(vectors, statistics, moves, constraints.workers)
        beyond = constraints.overload(keys.loads + keys.deviation) - constraints.theta
        over = max(found.table_size - constraints.table_limit, 0) / max(constraints.table_limit, 1)
        excess = (beyond if beyond > _ROUNDING else 0.0) + over
        if excess < least:
            details |= {
                "vectors": len(vectors.counts),
                "load_error": _error(keys),
                "tightened": constraints.theta - theta,
            }
            best, least = (
                Proposal(statistics, constraints, keys.worker, planner.name, details),
                excess,
            )
        if beyond <= _ROUNDING or found.overload > theta + _ROUNDING or theta == 0:
            break
        theta = max(theta - 1.1 * beyond, 0.0)
    assert best is not None
    return best


def _error(keys: Expanded) -> float:
    """By how much of its load a worker's vectors are wrong, in percent, at worst."""
    larger = np.maximum(keys.loads, keys.loads + keys.deviation)
    error = np.abs(keys.deviation) / np.maximum(larger, np.finfo(np.float64).tiny)
    return float(100 * error.max())
