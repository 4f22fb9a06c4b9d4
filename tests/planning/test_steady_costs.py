"""Seconds by the clock: noise moves no keys, and what a key really costs is found."""

import numpy as np
import pytest

from evenflow.model import RoutingTable
from evenflow.model.owners import owner_of
from evenflow.planning.controller import Controller, Replanning
from evenflow.planning.seen import Seen
from evenflow.planning.steady_costs import steady_costs

WORKERS, KEYS, BATCHES = 8, 1500, 24
PRINTS = np.arange(1, KEYS + 1, dtype=np.uint64)
ROW = 2e-5  # seconds


def home(prints):
    return owner_of(prints, WORKERS, 0)


def balanced_rows():
    """Rows of each key, so that every worker has as many by hash."""
    rows = np.full(KEYS, 6.0)
    homes = home(PRINTS)
    return rows * (rows.sum() / WORKERS / np.bincount(homes, rows, WORKERS))[homes]


def measured(chance, rows, row, owners, noise):
    """What each task measures: calls pause, and tasks run beside busy neighbours."""
    n = chance.poisson(rows)
    calls = row * n
    if noise:
        calls = calls * np.exp(chance.normal(0, 0.5, KEYS))
        calls[chance.random(KEYS) < 0.005] += 0.01  # a pause, fifty times as long as a call
        calls = calls * (1 + 0.8 * chance.random(WORKERS))[owners]
    tasks = []
    for worker in range(WORKERS):
        mine = (owners == worker) & (n > 0)
        tasks.append(Seen.of(PRINTS[mine], n[mine] * 1.0, calls[mine], np.full(mine.sum(), 100.0)))
    return tasks


def run(row, noise=True, costs=steady_costs, batches=BATCHES, seed=1):
    """The decisions of a controller, and the load of the worst worker at the end, over the average."""
    chance, table = np.random.default_rng(seed), RoutingTable()
    controller, rows, changes = Controller(Replanning()), balanced_rows(), 0
    for _ in range(batches):
        owners = home(PRINTS)
        for key, worker in table.entries.items():
            owners[key - 1] = worker
        tasks = measured(chance, rows, row, owners, noise)
        decision = controller.decide(
            costs(tasks, controller.memory.past), home, table, WORKERS, 3000
        )
        if decision.table is not None:
            table, changes = decision.table, changes + 1
    owners = home(PRINTS)
    for key, worker in table.entries.items():
        owners[key - 1] = worker
    loads = np.bincount(owners, rows * row, WORKERS)
    return changes, float(loads.max() / loads.mean())


@pytest.mark.parametrize("seed", range(4))
def test_noise_moves_no_key_of_an_even_stream(seed):
    changes, worst = run(np.full(KEYS, ROW), seed=seed)
    assert (changes, round(worst, 2)) == (0, 1.0)


def test_taken_as_they_are_the_same_seconds_move_keys_over_and_over():
    """What the test above would see without `steady_costs`: the noise is worth the trouble."""
    changes, worst = run(np.full(KEYS, ROW), costs=lambda tasks, past: Seen.sum(tasks))
    assert changes >= 3
    assert worst > 1


@pytest.mark.parametrize("noise", [False, True])
def test_keys_that_cost_more_for_good_are_found_and_moved(noise):
    """Forty keys of one worker are ten times as dear as others: it has more than twice its share. What
    is left of that in the end is within what a few rows of each may be by chance."""
    row = np.full(KEYS, ROW)
    row[np.flatnonzero(home(PRINTS) == 3)[:40]] *= 10
    loads = np.bincount(home(PRINTS), balanced_rows() * row, WORKERS)
    assert loads.max() / loads.mean() > 2
    changes, worst = run(row, noise)
    assert 1 <= changes <= 8
    assert worst < 1.4


def test_the_sum_of_all_costs_stays():
    tasks = measured(
        np.random.default_rng(3), balanced_rows(), np.full(KEYS, ROW), home(PRINTS), True
    )
    past = Seen.of(PRINTS, np.ones(KEYS), np.full(KEYS, ROW), np.zeros(KEYS))
    found = steady_costs(tasks, past)
    assert found.costs.sum() == pytest.approx(sum(task.costs.sum() for task in tasks))
    assert found.rows.tolist() == Seen.sum(tasks).rows.tolist()


def test_a_machine_that_is_slower_as_a_whole_changes_no_key_s_part():
    chance = np.random.default_rng(4)
    tasks = measured(chance, balanced_rows(), np.full(KEYS, ROW), home(PRINTS), True)
    past = Seen.of(PRINTS, np.ones(KEYS), chance.random(KEYS) + 0.5, np.zeros(KEYS))
    slower = [Seen(one.keys, one.rows, 3 * one.costs, one.state) for one in tasks]
    assert steady_costs(slower, past).costs == pytest.approx(3 * steady_costs(tasks, past).costs)


def test_tasks_without_rows_or_seconds_have_no_costs():
    nothing = Seen.nothing()
    assert len(steady_costs([], nothing)) == len(steady_costs([nothing], nothing)) == 0
    moved = Seen.of(PRINTS[:3], np.zeros(3), np.zeros(3), np.ones(3))
    assert steady_costs([moved], nothing).costs.tolist() == [0, 0, 0]
    some = Seen.of(PRINTS[:2], np.array([0.0, 2.0]), np.array([0.0, 1.0]), np.ones(2))
    assert steady_costs([some], nothing).costs.tolist() == [0, 1]
