"""What each scheme's docstring promises, one test a sentence."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evenflow.checks.streams import standard_streams
from evenflow.grouping import make, schemes
from evenflow.grouping.optimal_choices import find_optimal_choices
from evenflow.grouping.protocol import choices_of
from evenflow.kernels.mixing import salt
from evenflow.model import Feedback, InputError, RoutingTable, Workers
from evenflow.simulator.workloads import Zipf

quick = settings(max_examples=30)
UNEVEN = Workers((3, 8, 1, 6), weights=(1.0, 2.0, 3.0, 4.0))
HEAD_SCHEMES = ("d-choices", "w-choices", "round-robin-head")


def routed(scheme, state, keys):
    out = np.empty(len(keys), np.int32)
    scheme.route(state, np.ascontiguousarray(keys, np.uint64), out)
    return out


def zipf(exponent, messages, keys=10_000, seed=1):
    [stream] = Zipf(exponent, keys, messages, seed).chunks(messages)
    return stream


def loads_after_every_message(out, ids):
    """Row m − 1 has the loads of the workers `ids` after m messages."""
    return np.cumsum(out[:, np.newaxis] == np.array(ids), axis=0)


def workers_of(keys, out):
    """Key → the workers it has been sent to."""
    found = {}
    for key, worker in zip(keys.tolist(), out.tolist(), strict=True):
        found.setdefault(key, set()).add(worker)
    return found


# --- schemes that do not look for hot keys --------------------------------------------------------


@quick
@given(st.integers(1, 9), st.integers(0, 50), st.lists(st.integers(0, 30), max_size=5))
def test_shuffle_never_differs_by_two_messages(n, source, batches):
    scheme = make("shuffle")
    state = scheme.start(n, seed=1, source=source)
    out = np.concatenate([routed(scheme, state, np.zeros(b)) for b in [*batches, 3 * n + 1]])
    assert np.ptp(loads_after_every_message(out, range(n)), axis=1).max() <= 1


@pytest.mark.parametrize("name", ["shuffle", "w-choices", "round-robin-head"])
def test_sources_do_not_all_begin_with_the_same_worker(name):
    scheme, one_key = make(name), np.full(300, 7)
    last = {int(routed(scheme, scheme.start(10, 1, source), one_key)[-1]) for source in range(30)}
    assert len(last) > 5


def test_key_grouping_puts_all_of_the_most_frequent_key_on_one_worker():
    workload = Zipf(exponent=2.0, keys=10_000, messages=100_000, seed=1)
    out = routed(make("key"), make("key").start(100, seed=1), zipf(2.0, 100_000))
    imbalance = np.bincount(out).max() / len(out) - 1 / 100
    p1 = workload.probabilities()[0]
    assert p1 - 0.02 < imbalance + 1 / 100 < p1 + 0.05


@pytest.mark.parametrize("z", [1.2, 1.6, 2.0])
def test_partial_key_is_as_unbalanced_as_its_lower_bound(z):
    p1 = Zipf(exponent=z, keys=10_000).probabilities()[0]
    out = routed(make("partial-key"), make("partial-key").start(100, seed=1), zipf(z, 200_000))
    imbalance = np.bincount(out).max() / len(out) - 1 / 100
    assert p1 / 2 - 1 / 100 - 0.005 <= imbalance <= p1 / 2 + 0.05


def test_partial_key_is_balanced_while_no_key_has_more_than_a_fifth_of_a_share():
    scheme, n = make("partial-key"), 10
    p1 = Zipf(exponent=0.5, keys=10_000).probabilities()[0]
    assert p1 <= 1 / (5 * n)
    out = routed(scheme, scheme.start(n, seed=1), zipf(0.5, 200_000))
    assert np.bincount(out).max() - len(out) / n < 10  # messages, of 20 000


@pytest.mark.parametrize(("name", "most"), [("partial-key", 2), ("greedy-d:d=5", 5), ("key", 1)])
def test_no_key_is_on_more_workers_than_it_has_choices(name, most):
    scheme = make(name)
    for stream in standard_streams(2000):
        out = routed(scheme, scheme.start(40, seed=2), stream.keys)
        assert max(map(len, workers_of(stream.keys, out).values())) <= most
    assert most == max(map(len, workers_of(stream.keys, out).values())), "the bound is reached"


def test_greedy_d_keeps_keys_whole_for_1_and_is_partial_key_for_2():
    keys, one, two, same = (
        zipf(1.4, 5000),
        make("greedy-d:d=1"),
        make("greedy-d:d=2"),
        make("partial-key"),
    )
    both = routed(two, two.start(30, seed=5), keys)
    np.testing.assert_array_equal(both, routed(same, same.start(30, seed=5), keys))
    whole = routed(one, one.start(30, seed=5), keys)
    assert set(map(len, workers_of(keys, whole).values())) == {1}
    first = [
        choices_of(key, np.array([salt(5)]), np.arange(30, dtype=np.int32), 1)[0] for key in keys
    ]
    np.testing.assert_array_equal(whole, first)


def test_two_choices_stays_within_a_few_messages_however_long_the_stream():
    scheme, n = make("two-choices"), 100
    out = routed(scheme, scheme.start(n, seed=1), np.zeros(1_000_000))
    for m in (10_000, 100_000, 1_000_000):
        assert np.bincount(out[:m], minlength=n).max() - m / n < 5  # ln ln n / ln 2 is 2.2


def test_two_choices_does_not_look_at_keys():
    scheme = make("two-choices")
    ours, theirs = (
        routed(scheme, scheme.start(9, seed=1), k) for k in (zipf(1, 999), zipf(2, 999))
    )
    np.testing.assert_array_equal(ours, theirs)


# --- capacities -----------------------------------------------------------------------------------


@pytest.mark.parametrize("spec", ["random-choices", "bounded-hashing", "bounded-hashing:points=9"])
@pytest.mark.parametrize("patience", [0, 16])
@pytest.mark.parametrize("epsilon", [0.01, 0.5])
def test_nobody_exceeds_epsilon_above_its_fair_share_at_any_prefix(spec, patience, epsilon):
    scheme = make(spec, epsilon=epsilon, patience=patience)
    for workers in (Workers.numbered(7), UNEVEN):
        weights = np.array(workers.weights or [1.0] * len(workers))
        for stream in standard_streams(1500):
            loads = loads_after_every_message(
                routed(scheme, scheme.start(workers, seed=1), stream.keys), workers.ids
            )
            m = np.arange(1, len(loads) + 1)[:, np.newaxis]
            most = (1 + epsilon) * m * weights / weights.sum()
            assert (loads <= np.ceil(most - 1e-9) + 1e-9).all(), stream


def test_random_choices_stays_within_epsilon_of_the_average_over_a_long_stream():
    epsilon, n = 0.01, 100
    scheme = make("random-choices", epsilon=epsilon)
    loads = np.bincount(routed(scheme, scheme.start(n, seed=1), zipf(2.0, 300_000)))
    assert loads.max() / 300_000 - 1 / n <= epsilon / n + 1 / 300_000


def test_random_choices_leaves_rare_keys_on_their_first_worker():
    scheme, keys = make("random-choices", epsilon=0.5), zipf(0.3, 30_000, keys=1000)
    first = routed(make("greedy-d:d=1"), make("greedy-d:d=1").start(10, seed=1), keys)
    out = routed(scheme, scheme.start(10, seed=1), keys)
    assert (out[1000:] == first[1000:]).mean() > 0.999  # at first capacities are a few messages


def test_random_choices_spreads_a_hot_key_over_as_many_workers_as_it_needs():
    scheme, n = make("random-choices", epsilon=0.25), 100
    keys = np.arange(50_000, dtype=np.uint64)
    keys[keys % np.uint64(4) == 0] = 0  # a quarter: at least 20 workers with 1/80 each
    out = routed(scheme, scheme.start(n, seed=1), keys)
    late = np.bincount(out[25_000::4], minlength=n) / 6250
    assert 20 <= (late > 0.001).sum() <= 40


def test_patience_saves_replicas():
    keys = zipf(1.4, 100_000)
    replicas = [
        sum(map(len, workers_of(keys, routed(s, s.start(10, seed=1), keys)).values()))
        for s in (make("random-choices", patience=p) for p in (0, 16))
    ]
    assert replicas[1] < 0.95 * replicas[0]


def test_bounded_hashing_takes_the_first_worker_clockwise_that_has_room():
    scheme, n = make("bounded-hashing", epsilon=1.0, patience=0), 8
    state = scheme.start(n, seed=1)
    ring = [state.ids[w] for w in state.owners.tolist()]
    out = routed(scheme, state, np.full(8000, 42))
    # One key: as many workers as it needs at twice the average, neighbours on the ring.
    used = [worker for worker in ring if (out == worker).sum() > 10]
    assert len(used) == n // 2
    order = "".join("x" if worker in used else "-" for worker in ring)
    assert "x" * len(used) in order + order


# --- hot keys -------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", HEAD_SCHEMES)
@pytest.mark.parametrize("parameters", [{}, {"counters": 2}, {"sightings": 13}, {"theta": 0.05}])
@pytest.mark.parametrize("crowd", [1, 7, 60, 400])
def test_rare_keys_stay_on_two_workers(name, parameters, crowd):
    """Keys that come `seen` times each, `crowd` of them at a time, with a hot one in between."""
    scheme, n = make(name, **parameters), 8
    seen = int(np.ceil(scheme.sightings / 2)) - 1
    crowds = np.arange(12_000 // crowd, dtype=np.uint64)[:, np.newaxis, np.newaxis] * 1000
    rare = (crowds + np.arange(crowd, dtype=np.uint64) + np.zeros((seen, 1), np.uint64)).ravel()
    keys = np.full(16_000, 10**9, np.uint64)
    keys[::2] = rare[:8000]
    found = workers_of(keys, routed(scheme, scheme.start(n, seed=1), keys))
    assert len(found.pop(10**9)) > 2
    assert max(map(len, found.values())) == 2


@pytest.mark.parametrize("name", HEAD_SCHEMES)
def test_one_hot_key_is_spread_over_all_workers_evenly(name):
    scheme, n = make(name), 10
    out = routed(scheme, scheme.start(n, seed=1), np.full(10_000, 42))
    assert len(set(out[:19].tolist())) <= 2  # not seen 20 times yet
    assert np.ptp(np.bincount(out[19:])) <= (1 if name == "round-robin-head" else 10)
    assert np.ptp(np.bincount(out)) <= (11 if name == "round-robin-head" else 1)


def test_round_robin_head_deals_hot_messages_to_all_in_turn_whatever_the_loads():
    scheme, n = make("round-robin-head"), 6
    keys = np.arange(6000, dtype=np.uint64)
    keys[::2] = 10**9
    out = routed(scheme, scheme.start(n, seed=1), keys)
    turns = out[::2][100:]
    np.testing.assert_array_equal(turns, (turns[0] + np.arange(len(turns))) % n)


def test_w_choices_is_balanced_to_within_a_few_messages():
    scheme, n = make("w-choices"), 50
    for z in (1.0, 1.4, 2.0):
        out = routed(scheme, scheme.start(n, seed=1), zipf(z, 100_000))
        for m in (30_000, 60_000, 100_000):
            assert np.bincount(out[:m]).max() - m / n <= 5, z


def test_d_choices_uses_as_few_workers_as_balance_allows_where_w_choices_uses_all():
    keys = np.arange(100_000, dtype=np.uint64) + np.uint64(10**9)
    keys[::5] = 1  # a fifth: 20 of 100 workers at the least
    used = {}
    for name in ("d-choices", "w-choices"):
        scheme = make(name)
        state = scheme.start(100, seed=1)
        out = routed(scheme, state, keys)
        used[name] = len(set(out[50_000::5].tolist()))
        assert np.bincount(out).max() / len(out) - 1 / 100 < 5e-4
    assert 20 <= used["d-choices"] <= 30
    assert used["w-choices"] == 100


def test_d_choices_finds_d_anew_soon_after_a_key_has_become_hot():
    scheme, n = make("d-choices"), 50
    memory, right = scheme.limits(n).half_life, find_optimal_choices(np.array([0.2]), n)
    keys = np.arange(10 * memory, dtype=np.uint64) + np.uint64(10**9)
    keys[4 * memory :: 5] = 7
    state = scheme.start(n, seed=1)
    routed(scheme, state, keys[: 4 * memory])
    assert scheme.describe(state)["d"] == 2
    routed(scheme, state, keys[4 * memory :][: memory // 5])
    assert scheme.describe(state)["d"] >= 10  # a fifth of the workers
    routed(scheme, state, keys[4 * memory :][memory // 5 :])
    assert scheme.describe(state)["d"] == pytest.approx(right, abs=2)


@pytest.mark.parametrize("name", HEAD_SCHEMES)
def test_a_key_stops_being_hot_soon_after_its_messages_stop(name):
    scheme, n = make(name), 20
    memory = scheme.limits(n).half_life
    keys = np.arange(12 * memory, dtype=np.uint64) + np.uint64(10**9)
    keys[: 4 * memory : 10] = 7  # ten times as many as a hot key needs
    state = scheme.start(n, seed=1)
    routed(scheme, state, keys[: 4 * memory])
    assert scheme.describe(state)["hot_keys"] == 1
    assert scheme.describe(state)["hot_share"] == pytest.approx(0.1, rel=0.1)
    assert len(scheme.candidates(state, 7)) > 2
    routed(scheme, state, keys[4 * memory : 10 * memory])
    assert scheme.describe(state)["hot_keys"] == 0
    assert len(set(routed(scheme, state, np.full(9, 7)).tolist())) == 2


@pytest.mark.parametrize("name", HEAD_SCHEMES)
def test_a_key_that_has_not_been_seen_has_two_candidates(name):
    scheme = make(name)
    state = scheme.start(50, seed=1)
    routed(scheme, state, np.arange(100_000))  # nothing is hot
    assert len(scheme.candidates(state, 10**9)) == 2


@pytest.mark.parametrize("name", HEAD_SCHEMES)
def test_candidates_foresee_the_message_that_makes_a_key_hot(name):
    scheme = make(name)  # 20 sightings make a key hot
    state = scheme.start(50, seed=1)
    routed(scheme, state, np.full(18, 7))
    assert len(scheme.candidates(state, 7)) == 2
    routed(scheme, state, np.full(1, 7))
    assert len(scheme.candidates(state, 7)) > 2


@pytest.mark.parametrize("excess", [1.01, 1.2])
def test_estimated_shares_that_add_up_to_more_than_1_do_not_ask_for_all_workers(excess):
    shares = np.full(92, 1 / 92)
    assert find_optimal_choices(excess * shares, 100) <= find_optimal_choices(shares, 100) + 3


# --- tables, and what is refused ------------------------------------------------------------------


def test_table_entries_win_over_the_hash_until_a_new_table_comes():
    scheme = make("table")
    state, keys = scheme.start(10, seed=1), np.arange(100)
    by_hash = routed(scheme, state, keys)
    elsewhere = {key: int(by_hash[key] + 1) % 10 for key in range(50)}
    scheme.observe(state, Feedback(plan=RoutingTable(elsewhere)))
    assert (routed(scheme, state, keys) != by_hash).tolist() == [True] * 50 + [False] * 50
    scheme.observe(state, Feedback(time=1.0))  # no plan: the table stays
    assert scheme.describe(state) == {"table_size": 50}
    scheme.observe(state, Feedback(plan=RoutingTable()))
    np.testing.assert_array_equal(routed(scheme, state, keys), by_hash)


@pytest.mark.parametrize(
    ("entries", "said"), [({1: 0, 2: 0, 3: 0}, "3 entries, above the limit of 2"), ({1: 9}, "9")]
)
def test_a_refused_table_changes_nothing(entries, said):
    scheme = make("table", limit=2)
    state = scheme.start(4)
    scheme.observe(state, Feedback(plan=RoutingTable({5: 3})))
    with pytest.raises(InputError, match=said):
        scheme.observe(state, Feedback(plan=RoutingTable(entries)))
    assert scheme.table(state) == {5: 3}


@pytest.mark.parametrize(
    "spec",
    [
        *("greedy-d:d=0", "greedy-d:d=1.5", "w-choices:theta=0", "w-choices:theta=1.5"),
        *("w-choices:counters=0", "w-choices:sightings=0", "d-choices:epsilon=0"),
        *(
            "random-choices:epsilon=-0.1",
            "random-choices:epsilon=nan",
            "random-choices:patience=-1",
        ),
        *("bounded-hashing:points=0", "consistent:virtual=0", "consistent:time_slot=-1"),
        *("w-choices:literal=2", "random-choices:literal=1", "d-choices:distinct=0"),
        "table:limit=-1",
    ],
)
def test_parameters_out_of_range_are_refused(spec):
    with pytest.raises(InputError, match="must"):
        make(spec)


@pytest.mark.parametrize("name", schemes())
def test_no_workers_are_refused(name):
    with pytest.raises(InputError, match="at least 1"):
        make(name).start(0)


@pytest.mark.parametrize("name", schemes())
def test_any_64_bits_are_a_seed(name):
    scheme = make(name)
    assert set(routed(scheme, scheme.start(3, seed=2**64 - 1), np.arange(40))) == {0, 1, 2}
