"""The interval loop in virtual time: what plans are made from, and what is measured of them."""

from dataclasses import dataclass, field
from itertools import count
from typing import Any, ClassVar

import numpy as np
import pytest

import naive_replanning
from evenflow.model import InputError
from evenflow.planning import make_planner
from evenflow.planning.protocol import Constraints, Proposal
from evenflow_lab.simulators.replanning import hashed_loads, replan, skewness
from evenflow_lab.workloads import Fluctuating

WORKERS = 5


def stream(fluctuation=1.0, seed=1, keys=400, workers=WORKERS):
    return Fluctuating(0.85, keys, fluctuation, 10 * keys, workers, 10 * keys, seed)


@dataclass(frozen=True)
class Listening:
    """A planner that keeps what it is given and moves nothing."""

    name: ClassVar[str] = "listening"
    symbol: ClassVar[str] = "L"

    heard: list[Any] = field(default_factory=list)

    def plan(self, statistics, constraints):
        if constraints.workers == WORKERS:  # not what it is warmed up with
            self.heard.append(statistics)
        return Proposal(statistics, constraints, statistics.worker, self.name)


@pytest.mark.parametrize("planner", ["mixed", "min-table", "min-mig", "readj"])
@pytest.mark.parametrize(("window", "fluctuation"), [(1, 1.0), (3, 0.3)])
def test_replan_agrees_with_its_twin(planner, window, fluctuation):
    constraints = Constraints(WORKERS, theta=0.1, table_limit=40)
    made = make_planner(planner)
    run = replan(made, stream(fluctuation), constraints, window, intervals=8)
    slow = naive_replanning.replan_slowly(made, stream(fluctuation), constraints, window, 8)
    assert len(run.intervals) == 8
    for one, twin in zip(run.intervals, slow, strict=True):
        figures = (one.migrated, one.table_size, one.before, one.expected, one.skewness)
        assert one.planned is twin[0]
        assert figures == pytest.approx(twin[1:])


def test_all_but_seconds_depends_on_the_arguments_alone():
    ticks = count()
    runs = [
        replan("mixed", stream(), Constraints(WORKERS), 2, 6),
        replan("mixed", stream(), Constraints(WORKERS), 2, 6, clock=lambda: float(next(ticks))),
    ]
    without = [[one._replace(seconds=0.0) for one in run.intervals] for run in runs]
    assert without[0] == without[1]
    assert [one.seconds for one in runs[1].intervals] == [
        float(one.planned) for one in runs[1].intervals
    ]
    other = replan("mixed", stream(seed=2), Constraints(WORKERS), 2, 6)
    assert [one.skewness for one in other.intervals] != [one.skewness for one in runs[0].intervals]


def test_a_plan_is_made_exactly_where_the_overload_is_above_theta():
    run = replan("mixed", stream(0.1, keys=2_000), Constraints(WORKERS, theta=0.08), 1, 40)
    assert {one.planned for one in run.intervals} == {True, False}
    for one in run.intervals:
        assert one.planned is (one.before > 1.08)
        if not one.planned:
            assert (one.seconds, one.migrated, one.moved) == (0.0, 0.0, 0)
            assert one.expected == one.before


def test_nothing_of_a_later_interval_is_in_a_plan():
    listening = Listening()
    run = replan(listening, stream(), Constraints(WORKERS, theta=0.0), window=3, intervals=6)
    counts = naive_replanning.counts_of(stream(), 7)
    assert len(listening.heard) == len(run.plans) == 6
    for i, seen in enumerate(listening.heard, start=1):
        for place, key in enumerate(seen.keys.tolist()):
            assert seen.costs[place] == counts[i - 1][key]
            assert seen.state[place] == sum(one[key] for one in counts[max(i - 3, 0) : i])
    # Nothing moved, so every interval is what hashing makes of it.
    assert [one.skewness for one in run.intervals[:-1]] == [
        one.by_hash for one in run.intervals[1:]
    ]
    assert run.to_dict()["migration_cost"] == 0


def test_a_longer_run_begins_as_a_shorter_one():
    short, long = (replan("mixed", stream(), Constraints(WORKERS), 1, n) for n in (3, 6))
    for one, other in zip(short.intervals, long.intervals, strict=False):
        assert one._replace(seconds=0.0) == other._replace(seconds=0.0)


def test_the_load_that_jumps_is_that_of_a_worker():
    """A key's home is the generator's task: with f = 1 some worker's load by hash changes by the
    average in every interval, but for the chance in drawn messages."""
    loads = hashed_loads(stream(1.0, keys=20_000, workers=15), intervals=6)
    assert loads.mean(axis=1) == pytest.approx(np.ones(6))
    assert np.abs(np.diff(loads, axis=0)).max(axis=1).min() > 0.95


def test_hashed_loads_are_those_of_the_stream():
    one = Fluctuating(0.85, 1_000, 1.0, 1_000_000, WORKERS, 1_000_000, seed=4)
    assert hashed_loads(one, 3) == pytest.approx(one.loads(3) * WORKERS, abs=0.02)


def test_it_ends_after_so_many_plans():
    run = replan("min-mig", stream(), Constraints(WORKERS), intervals=50, plans=4)
    assert len(run.plans) == 4
    assert run.intervals[-1].planned


def test_the_summary_is_of_plans_and_of_intervals():
    run = replan("mixed", stream(0.1, keys=2_000), Constraints(WORKERS, theta=0.08), 1, 40)
    figures = run.to_dict()
    plans = [one for one in run.intervals if one.planned]
    assert (figures["intervals"], figures["plans"]) == (40, len(plans))
    assert figures["migration_cost"] == pytest.approx(
        100 * np.mean([one.migrated for one in plans])
    )
    assert figures["migration_cost_max"] == pytest.approx(100 * max(one.migrated for one in plans))
    assert figures["generation_ms"] == pytest.approx(
        1e3 * np.median([one.seconds for one in plans])
    )
    assert figures["table_size"] == pytest.approx(
        np.mean([one.table_size for one in run.intervals])
    )
    assert figures["skewness_expected_max"] == max(one.expected for one in plans)
    assert figures["load_error"] is None


def test_without_plans_nothing_is_said_of_them():
    figures = replan("mixed", stream(0.0), Constraints(WORKERS, theta=9.0), intervals=3).to_dict()
    assert figures["plans"] == 0
    assert figures["migration_cost"] is figures["generation_ms"] is figures["feasible"] is None
    assert figures["table_size"] == 0


def test_skewness_of_even_loads_is_one():
    assert skewness(np.array([0, 1, 2]), np.array([4.0, 4.0, 4.0]), 3) == 1.0
    assert skewness(np.array([0, 0, 0]), np.array([4.0, 4.0, 4.0]), 3) == 3.0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"constraints": Constraints(7)}, "5 tasks as homes, but there are 7 workers"),
        ({"window": 0}, "the window must be a whole number of at least 1"),
        ({"intervals": 0}, "the number of intervals must be a whole number of at least 1"),
        ({"planner": "mixd"}, "mixd"),
    ],
)
def test_mistakes_are_named(change, message):
    given = {"planner": "mixed", "stream": stream(), "constraints": Constraints(WORKERS)}
    with pytest.raises(InputError, match=message):
        replan(**{**given, **change})
