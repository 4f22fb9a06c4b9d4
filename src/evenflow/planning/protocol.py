"""The one protocol of planning: statistics of each key → the worker it goes to next.

Paper: "Parallel stream processing against workload skewness and variance", §II. In its words: the
statistics are c(k), S(k, w), F(k) and h(k); the constraints are θmax and Amax; a proposal is F′.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from evenflow.model import InputError, RoutingTable
from evenflow.model.validation import check_not_negative, check_one_each, check_whole

F64 = npt.NDArray[np.float64]
I32 = npt.NDArray[np.int32]
U64 = npt.NDArray[np.uint64]
Booleans = npt.NDArray[np.bool_]

_ROUNDING = 1e-9  #: of the average load; sums of many costs are not exact


@dataclass(frozen=True)
class Statistics:
    """Statistics of past intervals, one row per key, in any order.

    Keys in the routing table must be included even if they had no rows, at cost 0: only keys that are
    listed here can be moved back.

    Parameters:
        keys: distinct fingerprints.
        costs: c(k), the work of a key in the last interval, in any unit: rows, seconds.
        state: S(k, w), bytes of state that move with the key.
        worker: F(k), the current worker.
        home: h(k), the worker given by the hash.

    Example:
        >>> seen = Statistics.of(costs=[7, 4, 2], worker=[0, 0, 1], home=[0, 0, 0])
        >>> len(seen), seen.loads(2).tolist()
        (3, [11.0, 2.0])
    """

    keys: U64
    costs: F64
    state: F64
    worker: I32
    home: I32

    def __post_init__(self) -> None:
        rows = len(self.keys)
        for name in ("costs", "state", "worker", "home"):
            column = getattr(self, name)
            if len(column) != rows:
                raise InputError(f"{rows} keys, but {len(column)} values of {name}")
        for name in ("costs", "state"):
            column = getattr(self, name)
            if rows and not (np.isfinite(column).all() and column.min() >= 0):
                raise InputError(f"{name} must be finite and not negative")
        for name in ("worker", "home"):
            if rows and getattr(self, name).min() < 0:
                raise InputError(f"{name} must be worker numbers, from 0")
        ascending = bool(
            (self.keys[1:] > self.keys[:-1]).all()
        )  # the usual case, and quick to check
        if not ascending and len(np.unique(self.keys)) < rows:
            raise InputError("a key appears twice in the statistics; add its rows up first")

    @classmethod
    def of(
        cls,
        costs: npt.ArrayLike,
        worker: npt.ArrayLike,
        home: npt.ArrayLike | None = None,
        state: npt.ArrayLike | None = None,
        keys: npt.ArrayLike | None = None,
    ) -> Statistics:
        """From array-likes. Unless given, keys are numbered from 0, states are as large as costs, and
        every key is at home."""
        cost = np.asarray(costs, np.float64)
        now = np.asarray(worker, np.int32)
        return cls(
            keys=np.arange(len(cost), dtype=np.uint64)
            if keys is None
            else np.asarray(keys, np.uint64),
            costs=cost,
            state=cost if state is None else np.asarray(state, np.float64),
            worker=now,
            home=now if home is None else np.asarray(home, np.int32),
        )

    def __len__(self) -> int:
        return len(self.keys)

    def loads(self, workers: int) -> F64:
        """L(d): the work of each worker."""
        return np.bincount(self.worker, self.costs, workers).astype(np.float64)

    def listed(self) -> Booleans:
        """The keys in the routing table: those away from home."""
        listed: Booleans = self.worker != self.home
        return listed


@dataclass(frozen=True)
class Constraints:
    """The constraints on a plan.

    Only overload violates them: an underloaded worker delays nothing. (The paper's θ is two-sided, but
    its algorithms, like these, relieve only overloaded workers.)

    Parameters:
        workers: N_D, the number of workers.
        theta: θmax: no worker may have more than (1 + θmax) times its share.
        table_limit: Amax: the maximum number of keys away from home.
        weights: the workers' capacities, in any unit; equal if not given.

    Example:
        >>> Constraints(2, theta=0.1).limits(100.0).round(6).tolist()
        [55.0, 55.0]
    """

    workers: int
    theta: float = 0.08
    table_limit: int = 3000
    weights: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        check_whole("the number of workers", self.workers, 1)
        check_not_negative("θmax", self.theta)
        check_whole("the routing table's limit", self.table_limit, 0)
        check_one_each("workers", self.workers, "weights", self.weights)

    def shares(self) -> F64:
        """Each worker's share of the work; they add up to 1."""
        if self.weights is None:
            return np.full(self.workers, 1 / self.workers)
        weights = np.array(self.weights, np.float64)
        shares: F64 = weights / weights.sum()
        return shares

    def limits(self, total: float) -> F64:
        """Lmax of each worker, where `total` is the total work."""
        limits: F64 = (1 + self.theta) * total * self.shares()
        return limits

    def overload(self, loads: F64, total: float | None = None) -> float:
        """How far the worst worker is above its share of `total`, by default the sum of `loads`: 0.1 is
        a tenth too much."""
        total = float(loads.sum()) if total is None else total
        if total <= 0:
            return 0.0
        return float((loads / (total * self.shares())).max()) - 1

    def check(self, statistics: Statistics) -> None:
        """Reject statistics of other workers. A key may currently be on a worker that is leaving (its
        number is too high), and planners must move it. Its home must be a worker that stays."""
        if len(statistics) and statistics.home.max() >= self.workers:
            raise InputError(
                f"a key's home is worker {statistics.home.max()}, but there are {self.workers}"
            )


@dataclass(frozen=True)
class Proposal:
    """A planner's proposal: a worker for every key of the statistics, and its consequences.

    Parameters:
        statistics: the statistics it was made from.
        constraints: the constraints it had to respect.
        worker: F′(k).
        planner: the planner's name.
        details: further figures on how it was found: rounds, trials, errors.
    """

    statistics: Statistics
    constraints: Constraints
    worker: I32
    planner: str = ""
    details: dict[str, Any] = field(default_factory=dict)

    def loads(self) -> F64:
        """The predicted work of each worker, if keys cost the same again."""
        counts = np.bincount(self.worker, self.statistics.costs, self.constraints.workers)
        return counts.astype(np.float64)

    def overload(self) -> float:
        """How far the worst worker will be above its share."""
        return self.constraints.overload(self.loads())

    def moved(self) -> Booleans:
        """Δ(F, F′): which keys change their worker."""
        moved: Booleans = self.worker != self.statistics.worker
        return moved

    def migration_bytes(self) -> float:
        """M: bytes of state that move."""
        return float(self.statistics.state[self.moved()].sum())

    def listed(self) -> Booleans:
        """The keys that will be in the routing table."""
        listed: Booleans = self.worker != self.statistics.home
        return listed

    def table_size(self) -> int:
        """N_A."""
        return int(self.listed().sum())

    def table(self) -> RoutingTable:
        """A′: the explicit owners."""
        listed = self.listed()
        keys, workers = self.statistics.keys[listed].tolist(), self.worker[listed].tolist()
        return RoutingTable(dict(zip(keys, workers, strict=True)))

    def failures(self) -> list[str]:
        """The constraints that it violates, and by how much; empty if none."""
        failures = []
        theta, overload = self.constraints.theta, self.overload()
        if overload > theta + _ROUNDING:
            loads, costs = self.loads(), self.statistics.costs
            limits = self.constraints.limits(float(loads.sum()))
            worst = int(np.argmax(loads / limits))
            failures.append(
                f"worker {worst} is {overload:.1%} above its share where θmax allows {theta:.1%}"
                + _alone(float(costs.max()), float(limits.max()))
            )
        size, limit = self.table_size(), self.constraints.table_limit
        if size > limit:
            failures.append(
                f"the routing table has {size} entries, {size - limit} above its limit of {limit}"
            )
        return failures

    def feasible(self) -> bool:
        """Whether it respects all constraints."""
        return not self.failures()

    def reason(self) -> str:
        """What it does, or which constraints it violates, in words."""
        failures = self.failures()
        if failures:
            return "the best plan found does not keep all constraints: " + "; ".join(failures)
        moved = int(self.moved().sum())
        if not moved:
            return "every worker is within its limit: nothing moves"
        staying = np.minimum(self.statistics.worker, self.constraints.workers - 1)
        loads = np.bincount(staying, self.statistics.costs, self.constraints.workers)
        before = self.constraints.overload(loads.astype(np.float64))
        return (
            f"{moved} keys move with {self.migration_bytes():,.0f} bytes: the worst worker goes from "
            f"{before:.1%} to {self.overload():.1%} above its share"
        )


def _alone(largest: float, limit: float) -> str:
    """A remark if no plan could do better."""
    if largest <= limit:
        return ""
    return (
        f"; one key alone costs {largest:,.4g}, {largest / limit - 1:.1%} above any worker's limit"
    )


@runtime_checkable
class Planner(Protocol):
    """Proposes; the controller decides. Frozen, picklable configuration without state: the same
    statistics and constraints give the same proposal on every machine.

    Guarantee: a proposal has a live worker for every key of the statistics. If no plan respects all
    constraints, the best one found is returned, and `Proposal.failures` lists what it violates.
    """

    name: ClassVar[str]  #: "mixed"
    symbol: ClassVar[str]  #: the paper's own word, "Mixed"

    def plan(self, statistics: Statistics, constraints: Constraints) -> Proposal:
        """Propose a worker for each key."""
        ...
