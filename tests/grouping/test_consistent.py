"""Consistent grouping: who gives a virtual worker to whom, when, and what that does to loads."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import naive
from evenflow.grouping import make
from evenflow.model import Feedback, Signal, Workers

IDLE, BUSY, NEITHER = Signal.INCREASE, Signal.DECREASE, Signal.NEITHER


def grouping(workers, **parameters):
    scheme = make("consistent", **parameters)
    return scheme, scheme.start(workers, seed=1)


def tell(scheme, state, now, **signals):
    """`w0=BUSY` is worker 0's signal; virtual workers per worker afterwards."""
    named = {int(name[1:]): signal for name, signal in signals.items()}
    scheme.observe(state, Feedback(time=now, signals=named))
    return scheme.virtual_workers(state)


def owners(state):
    return state.placement.ids.tolist()


moments = st.lists(
    st.tuples(
        st.sampled_from([0.0, 0.5, 1.0, 2.5]),  # time since the last one
        st.dictionaries(st.integers(0, 6), st.sampled_from(Signal), min_size=1, max_size=6),
    ),
    max_size=12,
)


@settings(max_examples=80)
@given(st.integers(1, 6), st.integers(1, 4), st.sampled_from([0.0, 1.0, 2.0]), moments)
def test_moves_are_those_of_the_twin(n, virtual, time_slot, moments):
    scheme, state = grouping(n, virtual=virtual, time_slot=time_slot)
    twin = naive.ConsistentGrouping(owners(state), 0, None, time_slot)
    now = 0.0
    for later, signals in moments:
        now += later
        scheme.observe(state, Feedback(time=now, signals=signals))
        twin.observe(now, signals.items())
        assert owners(state) == twin.ids
        assert min(scheme.virtual_workers(state).values()) >= 1
        assert sum(scheme.virtual_workers(state).values()) == n * virtual


def test_a_virtual_worker_moves_only_from_a_busy_worker_to_one_that_is_not():
    scheme, state = grouping(3, virtual=4)
    assert tell(scheme, state, 1, w0=BUSY, w1=BUSY, w2=BUSY) == {0: 4, 1: 4, 2: 4}
    assert tell(scheme, state, 2) == {0: 4, 1: 4, 2: 4}
    assert tell(scheme, state, 3, w2=IDLE) == {0: 3, 1: 4, 2: 5}
    scheme, state = grouping(3, virtual=4)
    assert tell(scheme, state, 1, w1=IDLE, w2=IDLE) == {0: 4, 1: 4, 2: 4}


def test_one_virtual_worker_moves_per_pair_of_signals():
    scheme, state = grouping(4, virtual=4)
    assert tell(scheme, state, 1, w0=BUSY, w1=IDLE, w2=BUSY, w3=IDLE) == {0: 3, 1: 5, 2: 3, 3: 5}
    # Signals are used up by the move.
    assert tell(scheme, state, 9) == {0: 3, 1: 5, 2: 3, 3: 5}


def test_queues_are_served_first_come_first_served():
    scheme, state = grouping(5, virtual=4)
    tell(scheme, state, 1, w3=BUSY, w1=BUSY, w0=BUSY, w2=BUSY, w4=BUSY)
    tell(scheme, state, 3, w3=BUSY)  # said again: its place in the queue stays
    assert tell(scheme, state, 4, w4=IDLE) == {0: 4, 1: 4, 2: 4, 3: 3, 4: 5}
    assert tell(scheme, state, 5, w4=IDLE) == {0: 4, 1: 3, 2: 4, 3: 3, 4: 6}
    assert tell(scheme, state, 6, w4=IDLE) == {0: 3, 1: 3, 2: 4, 3: 3, 4: 7}


def test_a_contradicting_signal_takes_the_earlier_one_back_and_goes_to_the_end_of_its_queue():
    scheme, state = grouping(4, virtual=4)
    tell(scheme, state, 1, w0=BUSY, w1=BUSY, w2=BUSY, w3=BUSY)
    assert tell(scheme, state, 2, w0=IDLE) == {0: 5, 1: 3, 2: 4, 3: 4}
    tell(scheme, state, 9, w0=BUSY)
    tell(scheme, state, 11, w1=IDLE, w3=IDLE)
    assert scheme.virtual_workers(state) == {0: 4, 1: 4, 2: 3, 3: 5}


def test_a_worker_that_is_neither_any_more_leaves_its_queue():
    scheme, state = grouping(3, virtual=4)
    tell(scheme, state, 1, w1=IDLE, w2=IDLE)
    tell(scheme, state, 2, w1=NEITHER)
    assert tell(scheme, state, 3, w0=BUSY) == {0: 3, 1: 4, 2: 5}
    scheme, state = grouping(3, virtual=4)
    tell(scheme, state, 1, w0=BUSY, w1=BUSY, w2=BUSY)
    tell(scheme, state, 2, w0=NEITHER, w1=NEITHER, w2=NEITHER)
    assert tell(scheme, state, 3, w1=IDLE) == {0: 4, 1: 4, 2: 4}


def test_while_nobody_is_idle_one_that_was_never_overloaded_gets_it_or_else_longest_ago():
    scheme, state = grouping(4, virtual=4)
    everybody = tell(scheme, state, 1, w1=BUSY, w2=BUSY, w0=BUSY)
    assert everybody == {0: 4, 1: 3, 2: 4, 3: 5}  # worker 3 has never been
    tell(scheme, state, 2, w0=NEITHER, w1=NEITHER, w2=NEITHER, w3=BUSY)
    assert scheme.virtual_workers(state) == {0: 4, 1: 4, 2: 4, 3: 4}  # longest ago it was 1
    tell(scheme, state, 3, w2=BUSY, w1=IDLE)
    assert scheme.virtual_workers(state) == {0: 4, 1: 5, 2: 3, 3: 4}  # an idle one comes first


def test_a_worker_that_is_overloaded_gets_nothing():
    scheme, state = grouping(3, virtual=4, time_slot=0.0)
    for now in range(5):
        assert tell(scheme, state, now, w0=BUSY, w1=BUSY, w2=BUSY) == {0: 4, 1: 4, 2: 4}


def test_nobody_moves_twice_within_a_time_slot():
    scheme, state = grouping(3, virtual=9, time_slot=10.0)
    moves = []
    before = scheme.virtual_workers(state)
    for now in range(0, 60, 2):
        after = tell(scheme, state, now, w0=BUSY, w1=IDLE)
        if after != before:
            moves.append(now)
        before = after
    assert moves == [0, 10, 20, 30, 40, 50]


def test_a_signal_that_comes_within_the_time_slot_waits_for_its_end():
    scheme, state = grouping(3, virtual=9, time_slot=10.0)
    tell(scheme, state, 0, w0=BUSY, w1=IDLE)
    assert tell(scheme, state, 1, w0=BUSY, w1=IDLE) == {0: 8, 1: 10, 2: 9}
    assert tell(scheme, state, 9.9, w2=IDLE) == {0: 8, 1: 10, 2: 9}
    assert tell(scheme, state, 10, w2=IDLE) == {0: 7, 1: 11, 2: 9}


def test_time_alone_is_enough_for_those_that_wait():
    scheme, state = grouping(2, virtual=9, time_slot=10.0)
    tell(scheme, state, 0, w0=BUSY, w1=IDLE)
    tell(scheme, state, 1, w0=BUSY, w1=IDLE)
    assert tell(scheme, state, 10) == {0: 7, 1: 11}


def test_a_time_slot_binds_the_two_that_moved_and_nobody_else():
    scheme, state = grouping(4, virtual=4, time_slot=10.0)
    tell(scheme, state, 0, w0=BUSY, w1=IDLE)
    assert tell(scheme, state, 1, w0=BUSY, w1=IDLE, w2=BUSY) == {0: 3, 1: 5, 2: 4, 3: 4}
    assert tell(scheme, state, 1, w3=IDLE) == {0: 3, 1: 5, 2: 3, 3: 5}


def test_a_worker_keeps_its_last_virtual_worker():
    scheme, state = grouping(2, virtual=3, time_slot=0.0)
    for now in range(10):
        tell(scheme, state, now, w0=BUSY, w1=IDLE)
    assert scheme.virtual_workers(state) == {0: 1, 1: 5}
    # It does not hold up those behind it in the queue.
    scheme, state = grouping(3, virtual=1, time_slot=0.0)
    tell(scheme, state, 0, w0=BUSY)
    state.placement.ids[2] = 1  # worker 1 has two now, worker 2 none
    assert tell(scheme, state, 1, w1=BUSY, w2=IDLE) == {0: 1, 1: 1, 2: 1}


def test_the_virtual_worker_that_was_had_longest_moves():
    scheme, state = grouping(3, virtual=3, time_slot=0.0)
    assert owners(state) == [0, 0, 0, 1, 1, 1, 2, 2, 2]
    tell(scheme, state, 1, w0=BUSY, w1=IDLE)
    assert owners(state) == [1, 0, 0, 1, 1, 1, 2, 2, 2]
    tell(scheme, state, 2, w1=BUSY, w2=IDLE)  # not number 0, which worker 1 has just got
    assert owners(state) == [1, 0, 0, 2, 1, 1, 2, 2, 2]
    for now in (3, 4, 5):
        tell(scheme, state, now, w1=BUSY, w0=IDLE)
    assert owners(state) == [1, 0, 0, 2, 0, 0, 2, 2, 2]


def test_signals_of_unknown_workers_are_ignored():
    scheme, state = grouping(Workers((3, 5)), virtual=2)
    assert tell(scheme, state, 1, w3=BUSY, w5=BUSY, w7=IDLE, w0=IDLE) == {3: 2, 5: 2}
    assert tell(scheme, state, 2, w4=BUSY, w5=IDLE) == {3: 1, 5: 3}


def test_a_move_takes_the_keys_of_one_virtual_worker_along_and_no_others():
    scheme, state = grouping(4, virtual=5, epsilon=10.0)  # so much room that nothing overflows
    keys, out = np.arange(4000, dtype=np.uint64), np.empty((2, 4000), np.int32)
    scheme.route(state, keys, out[0])
    tell(scheme, state, 1, w0=BUSY, w1=IDLE)
    scheme.route(state, keys, out[1])
    moved = out[0] != out[1]
    assert 0.03 < moved.mean() < 0.07  # 1 of 20
    assert set(out[0][moved]) == {0}
    assert set(out[1][moved]) == {1}


def test_virtual_workers_stay_within_epsilon_of_the_average_while_they_change_hands():
    epsilon, virtual = 0.1, 5
    scheme, state = grouping(4, virtual=virtual, epsilon=epsilon, time_slot=0.0)
    rng = np.random.default_rng(1)
    out = np.empty(100, np.int32)
    sent, due = 0, np.zeros(4)
    got = np.zeros(4, np.int64)
    for now in range(100):
        keys = rng.zipf(1.5, 100).astype(np.uint64)
        scheme.route(state, keys, out)
        sent += len(out)
        got += np.bincount(out, minlength=4)
        due += [100 * v / (4 * virtual) for v in scheme.virtual_workers(state).values()]
        loads = state.placement.loads
        assert loads.sum() == sent
        assert loads.max() <= (1 + epsilon) * sent / len(loads) + 1
        a, b = rng.permutation(4)[:2]
        tell(scheme, state, now, **{f"w{a}": BUSY, f"w{b}": IDLE})
    assert scheme.describe(state)["moves"] > 50
    assert np.abs(got / due - 1).max() < 0.2


def test_load_follows_the_virtual_workers_as_the_guarantee_says():
    scheme, state = grouping(Workers.numbered(3), virtual=10, epsilon=0.05, time_slot=0.0)
    for now in range(5):
        tell(scheme, state, now, w0=BUSY, w1=IDLE)
    held = scheme.virtual_workers(state)
    assert held == {0: 5, 1: 15, 2: 10}
    out = np.empty(20_000, np.int32)
    scheme.route(state, np.random.default_rng(2).zipf(1.5, len(out)).astype(np.uint64), out)
    for m in (100, 1000, 20_000):
        for worker, v in held.items():
            assert (out[:m] == worker).sum() <= v * (1.05 * m / 30 + 1)


@pytest.mark.parametrize(
    ("weights", "held"), [([1, 1], [10, 10]), ([1, 3], [5, 15]), ([1, 1000], [1, 19])]
)
def test_virtual_workers_are_dealt_out_by_weight_at_least_one_each(weights, held):
    scheme, state = grouping(Workers.numbered(2, weights), virtual=10)
    assert list(scheme.virtual_workers(state).values()) == held


def test_a_faster_worker_ends_up_with_more_of_the_stream():
    """The loop of the paper: workers compare their queue with two thresholds and say so."""
    speeds = np.array([1.0, 1.0, 2.0, 4.0])
    scheme, state = grouping(4, virtual=10, time_slot=1.0)
    rng = np.random.default_rng(3)
    out = np.empty(800, np.int32)
    shares = []
    for now in range(200):
        scheme.route(state, rng.zipf(1.5, len(out)).astype(np.uint64), out)
        share = np.bincount(out, minlength=4) / len(out)
        wanted = speeds / speeds.sum()
        signals = {w: BUSY for w in range(4) if share[w] > 1.1 * wanted[w]}
        signals |= {w: IDLE for w in range(4) if share[w] < 0.9 * wanted[w]}
        scheme.observe(state, Feedback(time=float(now), signals=signals))
        shares.append(share)
    np.testing.assert_allclose(np.mean(shares[-50:], axis=0), speeds / speeds.sum(), rtol=0.2)
