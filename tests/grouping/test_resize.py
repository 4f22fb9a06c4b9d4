"""Workers join and leave: whose keys move, how many, and what is kept."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evenflow.grouping import make, schemes
from evenflow.model import Feedback, InputError, RoutingTable, Signal, Workers
from evenflow.simulator.workloads import Zipf

N = 20
ALL = Workers.numbered(N)
KEYS = np.random.default_rng(1).integers(0, 2**64, 20_000, np.uint64)

# So much room that no message overflows: what is seen is where keys belong.
ROOMY = {"epsilon": 1e6}


def routed(scheme, state, keys=KEYS):
    out = np.empty(len(keys), np.int32)
    scheme.route(state, np.ascontiguousarray(keys, np.uint64), out)
    return out


def before_and_after(scheme, workers, changed):
    """Where KEYS go before and after a change of the roster."""
    state = scheme.start(workers, seed=1)
    before = routed(scheme, state)
    return before, routed(scheme, scheme.resize(state, changed))


# --- every scheme ---------------------------------------------------------------------------------

rosters = st.lists(
    st.lists(st.integers(0, 12), min_size=1, max_size=9, unique=True), min_size=2, max_size=5
)


@pytest.mark.parametrize("name", schemes())
@settings(max_examples=15)
@given(rosters, st.integers(0, 400))
def test_only_live_workers_get_messages_after_any_changes(name, rosters, messages):
    scheme = make(name)
    keys = KEYS[:messages] % np.uint64(40)
    state = scheme.start(Workers(tuple(rosters[0])))
    for roster in rosters:
        state = scheme.resize(state, Workers(tuple(roster)))
        assert set(routed(scheme, state, keys).tolist()) <= set(roster)
        assert set(scheme.candidates(state, 7).tolist()) <= set(roster)


@pytest.mark.parametrize("name", schemes())
def test_one_worker_is_joined_by_many(name):
    scheme = make(name)
    state = scheme.start(1, seed=1)
    routed(scheme, state)
    state = scheme.resize(state, 150)
    loads = np.bincount(routed(scheme, state), minlength=150)
    assert loads.min() > 0


@pytest.mark.parametrize("name", ["partial-key", "two-choices", "greedy-d"])
def test_those_that_stay_keep_their_loads_and_newcomers_begin_at_the_average(name):
    scheme = make(name)
    state = scheme.start(Workers((4, 2, 9)), seed=1)
    routed(scheme, state, np.full(900, 5))  # one key: loads differ
    loads = dict(zip(state.ids.tolist(), state.loads.tolist(), strict=True))
    resized = scheme.resize(state, Workers((9, 7, 4)))
    assert resized.ids.tolist() == [9, 7, 4]
    assert resized.loads.tolist() == [loads[9], round((loads[9] + loads[4]) / 2), loads[4]]


@pytest.mark.parametrize("name", ["d-choices", "w-choices", "round-robin-head"])
@pytest.mark.parametrize("n", [10, 11, 40])
def test_hot_keys_and_loads_are_kept(name, n):
    scheme = make(name)
    state = scheme.start(10, seed=1)
    keys = KEYS[:4000].copy()
    keys[::2] = 7
    routed(scheme, state, keys)
    before = getattr(state, "base", state).loads
    state = scheme.resize(state, n)
    after = getattr(state, "base", state).loads
    assert after[:10].tolist() == before.tolist()
    assert set(after[10:].tolist()) <= {round(before.mean())}
    # At once, not when it has been seen 20 times again.
    assert len(set(routed(scheme, state, np.full(15, 7)).tolist())) > 5


def test_shuffle_goes_on_dealing_evenly_among_the_new_roster():
    scheme = make("shuffle")
    state = scheme.start(9, seed=1)
    routed(scheme, state, KEYS[:100])
    state = scheme.resize(state, Workers((3, 8, 1, 20)))
    loads = np.bincount(routed(scheme, state, KEYS[:103]), minlength=21)[[3, 8, 1, 20]]
    assert sorted(loads.tolist()) == [25, 26, 26, 26]


@pytest.mark.parametrize("name", ["key", "partial-key", "greedy-d"])
def test_a_new_number_of_workers_moves_many_keys_where_nothing_else_is_promised(name):
    before, after = before_and_after(make(name), ALL, N + 1)
    assert (before != after).mean() > 0.3


# --- consistent ones ------------------------------------------------------------------------------

CONSISTENT = {
    "bounded-hashing": make("bounded-hashing", points=100, **ROOMY),
    "consistent": make("consistent", **ROOMY),
    "table": make("table"),
}


@pytest.mark.parametrize("name", [*CONSISTENT, "random-choices"])
def test_a_worker_that_leaves_moves_only_the_keys_that_it_held(name):
    scheme = CONSISTENT.get(name) or make(name, **ROOMY)
    moved = []
    for gone in ALL.ids:
        before, after = before_and_after(scheme, ALL, ALL.without(gone))
        assert (before[before != after] == gone).all()
        assert gone not in after
        moved.append((before != after).mean())
    assert np.mean(moved) == pytest.approx(1 / N)  # each key has moved once
    if name != "bounded-hashing":
        assert max(moved) < 1.2 / N


@pytest.mark.parametrize("name", CONSISTENT)
def test_a_worker_that_joins_takes_its_share_and_moves_nothing_else(name):
    moved = []
    for new in range(77, 97):
        before, after = before_and_after(CONSISTENT[name], ALL, ALL.joined_by(new))
        assert (after[before != after] == new).all()
        moved.append((before != after).mean())
    assert np.mean(moved) == pytest.approx(1 / (N + 1), rel=0.2)


def test_many_points_even_out_what_bounded_hashing_moves():
    moved = [
        np.not_equal(*before_and_after(CONSISTENT["bounded-hashing"], ALL, ALL.without(w))).mean()
        for w in ALL.ids
    ]
    assert max(moved) < 1.5 / N  # of 100 random points each: 1.2 or so


def test_a_newcomer_takes_the_place_of_one_that_has_left_random_choices():
    scheme = make("random-choices", **ROOMY)
    away = scheme.resize(scheme.start(ALL, seed=1), ALL.without(4))
    before = routed(scheme, away)
    after = routed(scheme, scheme.resize(away, ALL.without(4).joined_by(77)))
    assert (after[before != after] == 77).all()


def test_bounded_hashing_moves_what_lies_before_the_points_of_the_worker_on_the_ring():
    scheme = make("bounded-hashing", **ROOMY)  # one point each: arcs differ, on average 1/n
    moved = [np.not_equal(*before_and_after(scheme, ALL, ALL.without(w))).mean() for w in ALL.ids]
    assert np.mean(moved) == pytest.approx(1 / N)
    before, after = before_and_after(scheme, ALL.without(3), ALL)
    assert (after[before != after] == 3).all()
    assert (before != after).mean() == pytest.approx(moved[3])


@pytest.mark.parametrize("name", ["bounded-hashing", "table", "consistent", "random-choices"])
def test_who_leaves_and_comes_back_gets_its_keys_back(name):
    scheme = CONSISTENT.get(name) or make(name, **ROOMY)
    state = scheme.start(ALL, seed=1)
    before = routed(scheme, state)
    away = scheme.resize(state, ALL.without(4, 11))
    after = routed(scheme, scheme.resize(away, ALL))
    if name in ("bounded-hashing", "random-choices"):  # the ring and the hash range remember
        np.testing.assert_array_equal(before, after)
    else:  # dealt out again: as many move as went to others in the meantime
        assert (before != after).mean() < 2.5 * 2 / N


def test_random_choices_sends_the_keys_of_a_worker_that_leaves_on_to_their_next_choice():
    scheme = make("random-choices", **ROOMY)
    before, after = before_and_after(scheme, ALL, ALL.without(6))
    next_choice = make("greedy-d", d=8)
    state = next_choice.start(ALL, seed=1)
    for key, worker in list(zip(KEYS, after, strict=True))[:2000]:
        choices = [w for w in next_choice.candidates(state, int(key)).tolist() if w != 6]
        assert worker == choices[0]
    assert 0.5 / N < (before == 6).mean() < 2 / N


@pytest.mark.parametrize("name", ["random-choices", "bounded-hashing"])
def test_capacities_hold_for_what_is_sent_after_a_change(name):
    epsilon = 0.05
    scheme = make(name, epsilon=epsilon)
    [keys] = Zipf(exponent=1.4, keys=1000, messages=40_000, seed=1).chunks(40_000)
    state = scheme.start(10, seed=1)
    routed(scheme, state, keys)
    for before, roster in ((1, Workers.numbered(10).without(3, 4)), (2, Workers.numbered(11))):
        state = scheme.resize(state, roster)
        sent = int(state.loads.sum())
        assert 0 <= before * len(keys) - sent < 22  # what was sent, dealt out evenly, rounded off
        out = routed(scheme, state, keys)
        # It may catch up what the slack left free before, and no more.
        for worker in roster.ids:
            most = (1 + epsilon) * (sent + len(out)) / len(roster) - sent / len(roster) + 2
            assert (out == worker).sum() <= most


# --- weights --------------------------------------------------------------------------------------

WEIGHTED = [name for name, scheme in schemes().items() if scheme.weighted]


def proportions(out, workers):
    shares = np.array([(out == w).mean() for w in workers.ids])
    return shares / (np.array(workers.weights) / sum(workers.weights))


@pytest.mark.parametrize("name", WEIGHTED)
def test_loads_are_in_proportion_to_weights_at_the_start_and_after_every_change(name):
    scheme = make(name, virtual=30) if name == "consistent" else make(name)
    workers = Workers((5, 1, 9), weights=(1.0, 2.0, 5.0))
    state = scheme.start(workers, seed=1)
    np.testing.assert_allclose(proportions(routed(scheme, state), workers), 1, atol=0.08)
    for changed in (
        Workers((5, 1, 9), weights=(4.0, 2.0, 2.0)),
        Workers((5, 9), weights=(4.0, 2.0)),
        Workers((5, 9, 30), weights=(4.0, 2.0, 3.0)),
    ):
        state = scheme.resize(state, changed)
        np.testing.assert_allclose(proportions(routed(scheme, state), changed), 1, atol=0.08)


@pytest.mark.parametrize("name", sorted(schemes().keys() - set(WEIGHTED)))
def test_weights_that_would_be_ignored_are_refused(name):
    scheme = make(name)
    with pytest.raises(InputError, match="cannot follow weights"):
        scheme.start(Workers.numbered(2, [1, 2]))
    with pytest.raises(InputError, match="cannot follow weights"):
        scheme.resize(scheme.start(2), Workers.numbered(2, [1, 2]))


# --- what consistent grouping has learned, and what a table holds ---------------------------------


def learned(held):
    """Consistent grouping after signals have given each worker so many virtual workers."""
    scheme = make("consistent", virtual=sum(held) // len(held), time_slot=0.0)
    state, now = scheme.start(len(held), seed=1), 0.0
    while (have := list(scheme.virtual_workers(state).values())) != held:
        signals = {
            w: Signal(np.sign(held[w] - have[w])) for w in range(len(held)) if held[w] != have[w]
        }
        scheme.observe(state, Feedback(time=(now := now + 1), signals=signals))
    return scheme, state


def test_learned_virtual_workers_survive_a_join():
    scheme, state = learned([4, 16, 30, 30])
    held = scheme.virtual_workers(scheme.resize(state, 5))
    assert held == {0: 3, 1: 13, 2: 24, 3: 24, 4: 16}  # four fifths of what each had


def test_learned_virtual_workers_survive_a_removal():
    scheme, state = learned([4, 16, 30, 30])
    held = scheme.virtual_workers(scheme.resize(state, Workers((0, 1, 2))))
    assert held == {0: 6, 1: 26, 2: 48}  # times 80 / 50


def test_the_time_slot_of_those_that_stay_goes_on_through_a_join():
    scheme = make("consistent", virtual=8, time_slot=10.0)
    state = scheme.start(3, seed=1)
    signals = {0: Signal.DECREASE, 1: Signal.INCREASE}
    scheme.observe(state, Feedback(time=0.0, signals=signals))
    state = scheme.resize(state, 4)
    before = scheme.virtual_workers(state)
    scheme.observe(state, Feedback(time=1.0, signals=signals))
    assert scheme.virtual_workers(state) == before


def test_queues_of_those_that_stay_go_on_in_their_order_through_a_join():
    scheme = make("consistent", virtual=8)
    state = scheme.start(4, seed=1)

    def say(now, **signals):
        named = {int(name[1:]): signal for name, signal in signals.items()}
        scheme.observe(state, Feedback(time=float(now), signals=named))
        return scheme.virtual_workers(state)

    busy = Signal.DECREASE
    say(0, w3=busy, w0=busy, w2=busy, w1=busy)  # nobody is left to take anything
    state = scheme.resize(state, Workers((0, 1, 3, 5)))
    held = scheme.virtual_workers(state)
    for now, first in ((3, 3), (4, 0), (5, 1)):
        after = say(now, w5=Signal.INCREASE)
        assert {w for w in after if after[w] < held[w]} == {first}
        held = after


def test_keys_of_consistent_grouping_keep_their_virtual_workers():
    scheme, state = learned([4, 16, 30, 30])
    sizes = [len(scheme.resize(state, n).placement.ids) for n in (3, 5, 80)]
    assert sizes == [80, 80, 80]
    resized = scheme.resize(state, 5)
    assert resized.placement.salt == state.placement.salt
    moved = (resized.placement.ids != state.placement.ids).sum()
    assert moved == 16  # what the newcomer got


def test_more_workers_than_virtual_workers_start_anew():
    scheme = make("consistent", virtual=3)
    state = scheme.start(4, seed=5)
    routed(scheme, state)
    anew = scheme.resize(state, 13)
    assert scheme.virtual_workers(anew) == dict.fromkeys(range(13), 3)
    np.testing.assert_array_equal(routed(scheme, anew), routed(scheme, scheme.start(13, seed=5)))


def test_changed_weights_of_the_same_workers_count_more_than_what_was_learned():
    scheme, state = learned([4, 16, 30, 30])
    resized = scheme.resize(state, Workers.numbered(4, [1, 1, 1, 5]))
    assert scheme.virtual_workers(resized) == {0: 10, 1: 10, 2: 10, 3: 50}


def test_entries_for_workers_that_have_left_are_dropped_and_all_others_kept():
    scheme = make("table")
    state = scheme.start(5)
    scheme.observe(state, Feedback(plan=RoutingTable({1: 4, 2: 3, 2**64 - 1: 4, 0: 0})))
    resized = scheme.resize(state, Workers((0, 4, 8)))
    assert scheme.table(resized) == {1: 4, 2**64 - 1: 4, 0: 0}
    assert scheme.table(state) == {1: 4, 2: 3, 2**64 - 1: 4, 0: 0}
