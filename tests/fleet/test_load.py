"""Loads of queries, from the batches that Spark reports."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenflow.fleet.load import BusyTime, arrived, load_series


@given(
    st.lists(st.tuples(st.floats(0, 50), st.floats(0, 8), st.floats(0, 20)), max_size=20),
    st.sampled_from([0.5, 1.0, 2.0]),
)
def test_the_bins_of_a_batch_add_up_to_its_busy_seconds(batches, sample):
    busy = BusyTime(sample, keep=1000)
    for began, lasted, seconds in batches:
        busy.add(began, began + lasted, seconds)
    assert sum(busy.bins.values()) * sample == pytest.approx(sum(batch[2] for batch in batches))


def test_ideal_loads_exceed_a_full_node_and_busy_time_does_not():
    """Two queries share a core and need 0.6 and 0.9 of it: their batches take turns and grow longer."""
    needs, clock = {"a": 0.6, "b": 0.9}, 100.0
    ideal, busy = ({name: BusyTime(1.0, keep=10_000) for name in needs} for _ in range(2))
    taken = dict.fromkeys(needs, 99.0)  # the trigger before
    for _ in range(12):
        for name, need in needs.items():
            rows = clock - taken[name]  # one a second
            seconds = need * rows
            first, last = arrived(clock, seconds, int(1000 * rows), 1000.0)
            ideal[name].add(first, last, seconds)
            busy[name].add(clock, clock + seconds, seconds)
            taken[name], clock = clock, clock + seconds
    until = range(110, int(min(taken.values())))
    for name, need in needs.items():
        assert np.mean([ideal[name].bins[at] for at in until]) == pytest.approx(need, rel=0.02)
    shared = [sum(busy[name].bins.get(at, 0.0) for name in needs) for at in until]
    assert max(shared) <= 1 + 1e-9
    assert sum(needs.values()) > 1


def test_without_a_trigger_before_it_a_batch_is_its_own_time():
    for rows, rate in ((10, 0.0), (0, 5.0), (10, float("inf")), (10, float("nan"))):
        assert arrived(50.0, 2.0, rows, rate) == (50.0, 52.0)


def test_old_bins_are_dropped():
    busy = BusyTime(1.0, keep=3)
    busy.add(0.0, 2.0, 2.0)
    busy.add(9.0, 10.5, 1.0)
    assert set(busy.bins) == {9, 10}


def test_loads_of_a_query_that_moved_come_from_both_nodes():
    series = load_series({"q": [{1: 0.5, 2: 0.5}, {2: 0.25, 3: 1.0}]}, ["q", "r"], 3, 3)
    assert series.tolist() == [[0.5, 0.75, 1.0], [0.0, 0.0, 0.0]]
