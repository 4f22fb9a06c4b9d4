"""The controller: planners propose; it decides, limits and gives its reason."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from evenflow.model import InputError, RoutingTable
from evenflow.model.validation import check_not_negative, check_positive
from evenflow.planning import make_planner
from evenflow.planning.memory import Memory
from evenflow.planning.protocol import F64, I32, U64, Constraints, Planner, Proposal
from evenflow.planning.seen import Seen

Place = Callable[[U64], I32]  #: fingerprints → workers


@dataclass(frozen=True)
class Replanning:
    """When a routing table is replanned, by which planner, and what that may cost.

    Parameters:
        planner: a planner's name, with its parameters after a colon (`evenflow plan --help`).
        theta: θmax: a worker with more than (1 + θmax) times its share has too much.
        margin: a plan aims at (1 − margin) · θmax, so that the next small change does not overload a
            worker again; and it must gain at least margin · θmax.
        certainty: how many standard deviations beyond θmax an overload must be. Arrivals are random:
            √n more or fewer rows of a key with n rows say nothing about the next interval.
        memory: the weight of an interval relative to the next one. An overload that is not yet certain
            becomes certain if it persists.
        budget: the fraction of the known state that one change may move.
    """

    planner: str = "mixed"
    theta: float = 0.08
    margin: float = 0.25
    certainty: float = 4.0
    memory: float = 0.9
    budget: float = 1.0

    def __post_init__(self) -> None:
        make_planner(self.planner)
        check_positive("θmax", self.theta)
        check_not_negative("the certainty", self.certainty)
        check_positive("the migration budget", self.budget)
        for what, value in (("the margin", self.margin), ("the memory", self.memory)):
            if not 0 <= value < 1:
                raise InputError(f"{what} must lie in [0, 1), got {value}")


class Decision(NamedTuple):
    """The controller's decision after an interval.

    Parameters:
        table: the new routing table; None to keep the current one.
        reason: the reason, in words.
        overload: how far the worst worker was above its share in this interval.
        expected: how far it was predicted to be, if the table was new in this interval.
        predicted: how far it is predicted to be with the new table.
        moved: keys that change their worker.
        bytes: the size of their states, as far as known.
    """

    table: RoutingTable | None
    reason: str
    overload: float
    expected: float | None = None
    predicted: float | None = None
    moved: int = 0
    bytes: float = 0.0

    def to_dict(self) -> dict[str, Any]:
        """As plain JSON, without the table."""
        return {"changed": self.table is not None, **self._replace(table=None)._asdict()} | {
            "table_size": None if self.table is None else len(self.table.entries)
        }


class _Overload(NamedTuple):
    """How far the worst worker is above its share, and how much of that may be chance."""

    worker: int
    size: float
    chance: float  #: one standard deviation

    def certain(self, policy: Replanning) -> bool:
        return self.size > policy.theta + policy.certainty * self.chance


@dataclass
class Controller:
    """Decides between intervals whether keys move, from the statistics of past intervals.

    Guarantee: nothing moves while no worker is above (1 + θmax) times its share by more than chance
    explains. On a stream whose keys do not change, no key moves once the table has settled. A change is
    made only if the plan is predicted to gain, respects the table's limit and stays within the budget.
    After a sudden change, only the last interval counts; earlier ones are discarded. A controller that
    begins with the `memory` of another one decides as that one would.

    Parameters:
        policy: when to replan, and at what cost.
        memory: what is known of earlier intervals; replaced by each decision.

    Example:
        >>> import numpy as np
        >>> controller = Controller(Replanning(theta=0.1))
        >>> keys = np.arange(4, dtype=np.uint64)
        >>> seen = Seen.of(keys, np.full(4, 1e6), np.full(4, 1e6), np.full(4, 100.0))
        >>> home = lambda prints: (prints >= 3).astype(np.int32)
        >>> decision = controller.decide(seen, home, RoutingTable(), workers=2, table_limit=10)
        >>> len(decision.table.entries), round(decision.overload, 2), decision.predicted
        (1, 0.5, 0.0)

    Paper: the controller of "Parallel stream processing against workload skewness and variance", §IV.
    Margin, certainty, memory and budget are our additions.
    """

    policy: Replanning = field(default_factory=Replanning)
    memory: Memory = field(default_factory=Memory)

    def __post_init__(self) -> None:
        self._planner: Planner = make_planner(self.policy.planner)

    def decide(
        self, seen: Seen, home: Place, table: RoutingTable, workers: int, table_limit: int
    ) -> Decision:
        """Decide after an interval.

        Parameters:
            seen: the statistics of the interval.
            home: the hash.
            table: the current routing table.
            workers: the number of workers.
            table_limit: the maximum number of entries in a table.
        """
        place = _Placed(home, table)
        recent = seen.after(self.memory.past, self.policy.memory)
        last = _overload(seen, place, workers)
        lasting = _overload(recent, place, workers)
        if last.certain(self.policy):
            kept = seen
            decision = self._plan(seen, last, place, workers, table_limit, "in the last interval")
        elif lasting.certain(self.policy):
            kept = recent
            decision = self._plan(recent, lasting, place, workers, table_limit, "for some time")
        else:
            kept = recent
            decision = Decision(None, _calm(last, self.policy), last.size)
        expected = self.memory.predicted
        self.memory = Memory.of(kept, place(kept.keys), workers, decision.predicted)
        return decision._replace(overload=last.size, expected=expected)

    def _plan(
        self,
        seen: Seen,
        now: _Overload,
        place: _Placed,
        workers: int,
        table_limit: int,
        since: str,
    ) -> Decision:
        policy = self.policy
        finding = f"worker {now.worker} was {now.size:.1%} above its share {since}"
        seen = seen.with_keys(place.listed)
        statistics = seen.statistics(place(seen.keys), place.home(seen.keys))
        allowed = policy.budget * float(seen.state.sum())
        theta = policy.theta * (1 - policy.margin)
        proposal = self._proposed(statistics, workers, theta, table_limit)
        while proposal.migration_bytes() > allowed and theta < now.size:
            theta *= 2
            proposal = self._proposed(statistics, workers, theta, table_limit)
        gain = now.size - proposal.overload()
        if proposal.table_size() > table_limit:
            why = f"a plan would need {proposal.table_size()} entries in a table of {table_limit}"
        elif proposal.migration_bytes() > allowed:
            why = f"a plan would move {proposal.migration_bytes():,.0f} bytes, above the budget"
        elif gain < policy.margin * policy.theta + now.chance:
            why = f"no plan was found that gains enough ({proposal.reason()})"
        else:
            return Decision(
                proposal.table(),
                f"{finding}: {proposal.reason()}",
                now.size,
                predicted=proposal.overload(),
                moved=int(proposal.moved().sum()),
                bytes=proposal.migration_bytes(),
            )
        return Decision(None, f"{finding}, but {why}", now.size)

    def _proposed(self, statistics: Any, workers: int, theta: float, table_limit: int) -> Proposal:
        return self._planner.plan(statistics, Constraints(workers, theta, table_limit))


class _Placed:
    """The current worker of each key."""

    def __init__(self, home: Place, table: RoutingTable) -> None:
        self.home = home
        keys = np.fromiter(table.entries, np.uint64, len(table.entries))
        workers = np.fromiter(table.entries.values(), np.int32, len(table.entries))
        order = np.argsort(keys)
        self.listed: U64 = keys[order]
        self._workers: I32 = workers[order]

    def __call__(self, keys: U64) -> I32:
        workers = self.home(keys).astype(np.int32)
        if len(self.listed):
            at = np.minimum(np.searchsorted(self.listed, keys), len(self.listed) - 1)
            hit = self.listed[at] == keys
            workers[hit] = self._workers[at[hit]]
        return workers


def _overload(seen: Seen, place: Place, workers: int) -> _Overload:
    worker = place(seen.keys)
    loads: F64 = np.bincount(worker, seen.costs, workers).astype(np.float64)
    share = float(loads.sum()) / workers
    if share <= 0:
        return _Overload(0, 0.0, 0.0)
    worst = int(np.argmax(loads))
    chance = float(seen.deviation(worker, workers)[worst])
    return _Overload(worst, float(loads[worst]) / share - 1, chance / share)


def _calm(last: _Overload, policy: Replanning) -> str:
    if last.size <= policy.theta:
        return (
            f"the worst worker is {last.size:.1%} above its share, within θmax = {policy.theta:.1%}"
        )
    return (
        f"the worst worker is {last.size:.1%} above its share, which may be chance "
        f"(θmax = {policy.theta:.1%}, one standard deviation is {last.chance:.1%})"
    )
