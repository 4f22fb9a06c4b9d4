"""Interval after interval: what the last one has shown → a plan → what the next one makes of it.

This is the loop of "Parallel stream processing against workload skewness and variance", §II to §IV, in
virtual time: nothing is sent or stored, the keys' messages are counted. A plan is made at the beginning
of an interval, from the intervals before alone, if the last of them had a worker above (1 + θmax) times
its share.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from statistics import fmean, median
from time import process_time
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from evenflow.model import InputError
from evenflow.model.validation import check_whole
from evenflow.planning import make_planner
from evenflow.planning.protocol import F64, I32, Constraints, Planner, Statistics
from evenflow_lab.workloads.fluctuating import Fluctuating

I64 = npt.NDArray[np.int64]

_ROUNDING = 1e-9


class Interval(NamedTuple):
    """One interval: the plan at its beginning, and its own load.

    Skewness is the largest load of a worker over the average, max L(d) ÷ L̄.

    Parameters:
        planned: whether the interval before asked for a plan.
        seconds: in the planner alone, by the clock that was given; 0 without a plan.
        migrated: the state that moved, as a share of all state.
        moved: keys that moved.
        table_size: entries of the routing table, from now on.
        feasible: whether the plan keeps all constraints, by what it was made from.
        by_hash: skewness of the interval before, had all keys been at home.
        before: skewness of the interval before, as it was.
        expected: skewness of the interval before, had this interval's table been in use.
        skewness: of this interval.
        details: what the planner says about its plan.
    """

    planned: bool
    seconds: float
    migrated: float
    moved: int
    table_size: int
    feasible: bool
    by_hash: float
    before: float
    expected: float
    skewness: float
    details: dict[str, Any]


@dataclass(frozen=True)
class Replanned:
    """What a planner did over some intervals.

    Parameters:
        planner: its name.
        symbol: the paper's word for it.
        intervals: one after another; that before the first plan is not among them.
    """

    planner: str
    symbol: str
    intervals: tuple[Interval, ...]

    @property
    def plans(self) -> tuple[Interval, ...]:
        """The intervals that began with a plan."""
        return tuple(one for one in self.intervals if one.planned)

    def to_dict(self) -> dict[str, Any]:
        """The run in plain numbers. What is said of plans is None if there was none."""
        plans, all_of_them = self.plans, self.intervals
        costs = [100 * one.migrated for one in plans]
        errors = [one.details["load_error"] for one in plans if "load_error" in one.details]
        return {
            "intervals": len(all_of_them),
            "plans": len(plans),
            "feasible": fmean(one.feasible for one in plans) if plans else None,
            "generation_ms": 1e3 * median(one.seconds for one in plans) if plans else None,
            "migration_cost": fmean(costs) if costs else None,
            "migration_cost_min": min(costs, default=None),
            "migration_cost_max": max(costs, default=None),
            "moved": fmean(one.moved for one in plans) if plans else None,
            "table_size": fmean(one.table_size for one in all_of_them),
            "table_size_max": max(one.table_size for one in all_of_them),
            "skewness_by_hash": fmean(one.by_hash for one in all_of_them),
            "skewness_before": fmean(one.before for one in plans) if plans else None,
            "skewness_expected": fmean(one.expected for one in plans) if plans else None,
            "skewness_expected_max": max((one.expected for one in plans), default=None),
            "skewness": fmean(one.skewness for one in all_of_them),
            "load_error": fmean(errors) if errors else None,
            "load_error_max": max(errors, default=None),
        }


def replan(
    planner: str | Planner,
    stream: Fluctuating,
    constraints: Constraints,
    window: int = 1,
    intervals: int = 20,
    *,
    plans: int | None = None,
    clock: Callable[[], float] = process_time,
) -> Replanned:
    """Runs a planner over the intervals of a stream.

    The first interval is served by hash. Before each of the next ones, the messages c(k) that each key
    had in the last interval and those that it had in the last `window` ones, its state S(k, w), make
    the statistics; all keys of the domain are in them. A key's home is the generator's own task, so
    that the load that jumps is that of a worker.

    Guarantee: all but `seconds` depends on the arguments alone. A plan is made exactly where the
    overload of the interval before is above θmax, and nothing of a later interval is in it.

    Parameters:
        planner: itself, or its name with parameters after a colon.
        stream: its `tasks` must be the constraints' workers. Messages of a key are drawn, `interval`
            of them each time (multinomial), with the stream's seed.
        constraints: what plans must keep.
        window: w.
        intervals: how many there are after the first.
        plans: end earlier, after so many plans.
        clock: for `seconds`; processor time if not given, which other work on the machine does not add
            to.

    Example:
        >>> run = replan("mixed", Fluctuating(keys=5_000, tasks=5), Constraints(5), intervals=4)
        >>> [one.planned for one in run.intervals], all(one.expected <= 1.08 for one in run.plans)
        ([True, True, True, True], True)

    Paper: "Parallel stream processing against workload skewness and variance", §II-B and §IV.
    """
    check_whole("the window", window, 1)
    check_whole("the number of intervals", intervals, 1)
    if stream.tasks != constraints.workers:
        raise InputError(
            f"the stream's keys have {stream.tasks} tasks as homes, but there are "
            f"{constraints.workers} workers; give both the same number"
        )
    chosen = make_planner(planner) if isinstance(planner, str) else planner
    _warm_up(chosen)
    keys, counts = _counts(stream)
    home = stream.tasks_of(keys)
    worker, seen, done = home, _Window(window), list[Interval]()
    seen.add(next(counts))
    planned = 0
    while len(done) < intervals and (plans is None or planned < plans):
        costs, state = seen.last(), seen.state()
        statistics = Statistics(keys, costs, state, worker, home)
        loads = statistics.loads(constraints.workers)
        seconds, details, feasible = 0.0, dict[str, Any](), True
        overloaded = constraints.overload(loads) > constraints.theta + _ROUNDING
        if overloaded:
            began = clock()
            proposal = chosen.plan(statistics, constraints)
            seconds = clock() - began
            worker, details, feasible = proposal.worker, proposal.details, proposal.feasible()
        seen.add(next(counts))
        moved = worker != statistics.worker
        done.append(
            Interval(
                planned=overloaded,
                seconds=seconds,
                migrated=float(state[moved].sum() / state.sum()),
                moved=int(moved.sum()),
                table_size=int((worker != home).sum()),
                feasible=feasible,
                by_hash=skewness(home, costs, constraints.workers),
                before=float(loads.max() / loads.mean()),
                expected=skewness(worker, costs, constraints.workers),
                skewness=skewness(worker, seen.last(), constraints.workers),
                details=details,
            )
        )
        planned += overloaded
    return Replanned(chosen.name, chosen.symbol, tuple(done))


def hashed_loads(stream: Fluctuating, intervals: int) -> F64:
    """The load of each worker (column) in each interval (row), over the average, if keys stay at home.

    Parameters:
        stream: as in `replan`; its tasks are the workers.
        intervals: how many.

    Example:
        >>> hashed_loads(Fluctuating(keys=5_000, tasks=5), intervals=3).mean(axis=1).round(9).tolist()
        [1.0, 1.0, 1.0]

    Paper: "Parallel stream processing against workload skewness and variance", §V, Figure 7.
    """
    check_whole("the number of intervals", intervals, 1)
    keys, counts = _counts(stream)
    home = stream.tasks_of(keys)
    loads = np.array([np.bincount(home, next(counts), stream.tasks) for _ in range(intervals)])
    relative: F64 = loads / loads.mean(axis=1, keepdims=True)
    return relative


def skewness(worker: I32, costs: F64, workers: int) -> float:
    """max L(d) ÷ L̄: 1 is perfectly even.

    Example:
        >>> skewness(np.array([0, 0, 1]), np.array([2.0, 1.0, 1.0]), 2)
        1.5
    """
    loads = np.bincount(worker, costs, workers)
    return float(loads.max() / loads.mean())


class _Window:
    """The messages of each key in the last w intervals."""

    def __init__(self, length: int) -> None:
        self._counts: deque[I64] = deque()
        self._length = length
        self._sum: I64 | None = None

    def add(self, counts: I64) -> None:
        self._counts.append(counts)
        self._sum = counts.copy() if self._sum is None else self._sum + counts
        if len(self._counts) > self._length:
            self._sum -= self._counts.popleft()

    def last(self) -> F64:
        """c(k)."""
        return self._counts[-1].astype(np.float64)

    def state(self) -> F64:
        """S(k, w)."""
        assert self._sum is not None
        return self._sum.astype(np.float64)


def _counts(stream: Fluctuating) -> tuple[npt.NDArray[np.uint64], Iterator[I64]]:
    """The keys by ascending name, and how often each comes in one interval after another."""
    random = np.random.default_rng(stream.seed)
    probabilities = stream.probabilities()
    snapshots = stream.intervals()
    first = next(snapshots)

    def drawn() -> Iterator[I64]:
        ranked = first
        while True:
            counts = random.multinomial(stream.interval, probabilities)
            yield counts[np.argsort(ranked)]
            ranked = next(snapshots)

    return np.sort(first), drawn()


def _warm_up(planner: Planner) -> None:
    """A plan that nobody waits for, so that compiling is not measured."""
    tiny = Statistics.of([7, 4, 5, 2, 1, 1], worker=[0, 0, 0, 1, 1, 1], home=[0, 0, 1, 0, 1, 1])
    planner.plan(tiny, Constraints(2, theta=0.1, table_limit=2))
    planner.plan(tiny, Constraints(2, theta=0.0, table_limit=0))
