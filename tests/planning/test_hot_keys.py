"""The hot-key policy of SMALOPS against its slow twin, and its guarantees."""

import json
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import naive_hot_keys
from evenflow.grouping import make
from evenflow.model import Feedback, InputError
from evenflow.planning.hot_keys import HotKeys, Moves, Reason
from evenflow.simulator.workloads import Zipf


def as_rows(moves):
    columns = (moves.keys, moves.source, moves.target, moves.reason)
    return [
        (k, a, b, Reason(r).name) for k, a, b, r in zip(*(c.tolist() for c in columns), strict=True)
    ]


def u64(keys):
    return np.array(keys, np.uint64)


def stream(messages, exponent=1.2, keys=1_000, seed=0):
    return np.concatenate(list(Zipf(exponent, keys, messages, seed).chunks(1 << 16)))


policies = st.builds(
    HotKeys,
    partitions=st.integers(1, 6),
    threshold=st.sampled_from([0.0, 0.05, 0.2]),
    least=st.sampled_from([1, 3]),
    coverage=st.sampled_from([0.0, 0.4]),
    limit=st.sampled_from([2, 5, 100]),
    epsilon=st.sampled_from([None, 0.02]),
    theta=st.sampled_from([0.0, 0.2]),
    cooling=st.sampled_from([1.0, 0.5]),
    others=st.just(False),
    message_seconds=st.sampled_from([None, 1.0]),
    state_seconds=st.sampled_from([0.0, 0.5]),
    seed=st.integers(0, 3),
)
steps = st.lists(
    st.lists(st.integers(0, 12).map(lambda n: 12 - int((156 - 12 * n) ** 0.5)), max_size=60)
    | st.sampled_from(["detect", "detect_early", "decide"]),
    max_size=12,
)


@given(policies, steps)
def test_the_policy_does_what_its_twin_does(policy, calls):
    state, twin = policy.start(), naive_hot_keys.HotKeys(policy)
    for call in calls:
        if isinstance(call, list):
            state = policy.count(state, u64(call))
            twin.count(call)
        else:
            state, moves = getattr(policy, call)(state)
            assert as_rows(moves) == getattr(twin, call)()
        assert dict(zip(state.keys.tolist(), state.partition.tolist(), strict=True)) == twin.where
        assert dict(zip(state.keys.tolist(), state.sizes.tolist(), strict=True)) == twin.size


@given(st.integers(1, 6), st.lists(st.lists(st.integers(0, 9), max_size=60), max_size=4))
def test_the_other_keys_are_counted_where_they_are_at_home(partitions, windows):
    policy = HotKeys(partitions, threshold=0.2, others=True)
    state, twin = policy.start(), naive_hot_keys.HotKeys(policy)
    for keys in windows:
        twin.count(keys)
        state, moves = policy.detect(policy.count(state, u64(keys)))
        assert as_rows(moves) == twin.detect()
        assert state.rest.tolist() == twin.rest
        sizes = [twin.partition_size(p) for p in range(partitions)]
        assert policy.sizes(state).tolist() == sizes


def test_best_fit_with_the_other_keys_evens_out_what_partitions_have_in_all():
    """One hot key beside the load of others: without them it seems to be well where it is."""
    blind, seeing = (HotKeys(2, threshold=0.1, others=others) for others in (False, True))
    home = blind.homes(np.arange(4_000, dtype=np.uint64))
    light = np.flatnonzero(home == 0)[:1_000]  # all at home on partition 0
    hot = np.flatnonzero(home == 0)[1_000:1_002]
    keys = u64([*light, *np.repeat(hot, [300, 290])])
    ends = []
    for policy in (blind, seeing):
        state, _ = policy.detect(policy.count(policy.start(), keys))
        state, _ = policy.decide(state)
        ends.append(int(state.sizes[state.partition == 1].sum()))
    assert ends[1] == 590  # both go to the empty partition
    assert ends[0] < 590  # one each


# --- guarantees -----------------------------------------------------------------------------------


@pytest.mark.parametrize("threshold", [0.001, 0.01, 0.1])
def test_guarantee_every_key_above_the_threshold_is_hot_and_none_below_it_by_more_than_epsilon(
    threshold,
):
    keys = stream(50_000)
    policy = HotKeys(8, threshold)
    state, _ = policy.detect(policy.count(policy.start(), keys))
    names, counts = np.unique(keys, return_counts=True)
    assert set(names[counts >= threshold * len(keys)]) <= set(state.keys)
    assert set(state.keys) <= set(names[counts >= 0.9 * threshold * len(keys)])


def test_guarantee_no_more_keys_than_the_limit_are_hot_and_those_are_the_heaviest():
    keys = stream(50_000)
    policy = HotKeys(8, threshold=0.001, limit=5)
    state, _ = policy.detect(policy.count(policy.start(), keys))
    names, counts = np.unique(keys, return_counts=True)
    assert set(state.keys) == set(names[np.argsort(-counts)][:5])


def test_guarantee_only_hot_keys_are_away_from_home_and_nothing_is_kept_of_the_others():
    policy, where = HotKeys(8, threshold=0.01), {}
    state = policy.start()
    for minute in range(5):
        state = policy.count(state, stream(20_000, seed=minute))
        for step in (policy.detect, policy.decide):
            state, moves = step(state)
            for key, source, target, _ in as_rows(moves):
                home = int(policy.homes(u64([key]))[0])
                assert where.get(key, home) == source != target
                where[key] = target
        home = policy.homes(state.keys)
        away = state.keys[state.partition != home].tolist()
        assert {k for k, p in where.items() if p != policy.homes(u64([k]))[0]} == set(away)
        assert len(state.keys) < 30


def test_guarantee_every_move_of_best_fit_shrinks_the_load_distance_of_its_two_partitions():
    decided = 0
    for seed in range(20):
        policy = HotKeys(6, threshold=0.002)
        state, _ = policy.detect(
            policy.count(policy.start(), stream(20_000, exponent=0.9, seed=seed))
        )
        sizes = policy.sizes(state)
        average = sizes.mean()
        overloaded = sizes > average
        size = dict(zip(state.keys.tolist(), state.sizes.tolist(), strict=True))
        state, moves = policy.decide(state)
        assert overloaded[moves.source].all()
        assert len(set(moves.keys.tolist())) == len(moves)
        decided += len(moves)
        # By source, the fullest first, as best fit goes; within one, moves come lightest first.
        fullest = sorted(set(moves.source.tolist()), key=lambda p: -sizes[p])
        for source in fullest:
            for key, a, b, _ in as_rows(moves):
                if a == source:
                    before = abs(sizes[a] - sizes[b])
                    sizes[a] -= size[key]
                    sizes[b] += size[key]
                    assert abs(sizes[a] - sizes[b]) < before
        assert sizes.tolist() == policy.sizes(state).tolist()
    assert decided > 50


def test_guarantee_a_state_that_was_written_down_goes_on_as_if_nothing_had_happened():
    policy = HotKeys(8, threshold=0.003, cooling=0.5, others=True)
    one, other = policy.start(), policy.start()  # what is counted is counted in place
    for minute in range(4):
        keys = stream(20_000, seed=minute)
        calls = []
        for state in (one, other):
            state, early = policy.detect_early(policy.count(state, keys[:9_000]))
            state = policy.count(state, keys[9_000:])
            state, found = policy.detect(state)
            state = policy.count(state, keys[:100])
            state, decided = policy.decide(state)
            calls.append((state, [as_rows(moves) for moves in (early, found, decided)]))
        (one, moves), (other, the_same) = calls
        assert moves == the_same
        assert sum(len(part) for part in moves) > 0
        plain = {name: array.tolist() for name, array in policy.to_arrays(other).items()}
        arrays = policy.to_arrays(other)
        again = {
            name: np.array(values, arrays[name].dtype)
            for name, values in json.loads(json.dumps(plain)).items()
        }
        other = policy.from_arrays(pickle.loads(pickle.dumps(again)))


# --- what else ------------------------------------------------------------------------------------


def test_counts_stand_for_messages_one_after_another(monkeypatch):
    monkeypatch.setattr("evenflow.planning.hot_keys_state._PIECE", 7)
    policy = HotKeys(3, threshold=0.1, epsilon=0.05, others=True)
    keys, counts = u64([5, 6, 7, 5, 8]), np.array([10, 0, 3, 29, 1])
    one = policy.count(policy.start(), keys, counts)
    other = policy.count(policy.start(), np.repeat(keys, counts))
    for name, array in policy.to_arrays(one).items():
        assert array.tolist() == policy.to_arrays(other)[name].tolist()


def test_messages_of_keys_that_are_not_listed_count_for_the_total_alone():
    policy = HotKeys(3, threshold=0.1)
    state = policy.count(policy.start(), u64([5]), np.array([99]), unlisted=901)
    assert not len(policy.detect(state)[0].keys)
    state = policy.count(policy.start(), u64([5]), np.array([100]), unlisted=900)
    assert policy.detect(state)[0].keys.tolist() == [5]


def test_a_table_of_hot_keys_routes_them_and_hash_routes_the_rest_as_key_grouping_does():
    policy = HotKeys(8, threshold=0.002, seed=3)
    keys = stream(20_000)
    state, _ = policy.detect(policy.count(policy.start(), keys))
    state, _ = policy.decide(state)
    table, by_hash = np.empty(len(keys), np.int32), np.empty(len(keys), np.int32)
    scheme = make("table", limit=10_000)
    routing = scheme.start(8, seed=3)
    scheme.observe(routing, Feedback(plan=policy.table(state)))
    scheme.route(routing, keys, table)
    key = make("key")
    key.route(key.start(8, seed=3), keys, by_hash)
    assert policy.homes(keys).tolist() == by_hash.tolist()
    hot = np.isin(keys, state.keys)
    assert (table[~hot] == by_hash[~hot]).all()
    where = dict(zip(state.keys.tolist(), state.partition.tolist(), strict=True))
    assert table[hot].tolist() == [where[k] for k in keys[hot].tolist()]
    assert (table[hot] != by_hash[hot]).any()


def test_two_choices_alone_are_more_even_than_hashing():
    policy = HotKeys(20, threshold=0.0005)
    keys = stream(200_000, exponent=0.5, keys=1_000)
    state, moves = policy.detect(policy.count(policy.start(), keys))
    by_hash = np.bincount(policy.homes(state.keys), state.sizes, 20)
    assert np.ptp(policy.sizes(state)) < 0.5 * np.ptp(by_hash)
    assert {Reason(code) for code in moves.reason} == {Reason.HOT}


def test_a_hundred_messages_make_a_key_hot_before_its_first_window_is_over():
    policy = HotKeys(4, threshold=0.0, least=100)
    state = policy.count(policy.start(), u64([1] * 99 + [2] * 100))
    state, _ = policy.detect_early(state)
    assert state.keys.tolist() == [2]


def test_in_the_midst_of_a_window_a_key_needs_what_made_one_hot_in_the_whole_last_window():
    policy = HotKeys(4, threshold=0.1)
    state = policy.count(policy.start(), u64([1] * 60))
    assert not len(policy.detect_early(state)[0].keys)  # no window is over yet
    state, _ = policy.detect(policy.count(state, u64(range(2, 42))))
    assert state.keys.tolist() == [1]
    state = policy.count(state, u64([7] * 9))
    assert policy.detect_early(state)[0].keys.tolist() == [1]
    state = policy.count(state, u64([7]))
    state, _ = policy.detect_early(state)
    assert state.keys.tolist() == [1, 7]
    assert state.sizes.tolist() == [60.0, 100.0]  # ten of ten so far: a hundred of a hundred


def test_as_few_keys_are_hot_as_have_the_wanted_share_together():
    keys = u64([1] * 40 + [2] * 30 + [3] * 20 + [4] * 10)
    for coverage, hot in ((0.4, [1]), (0.41, [1, 2]), (0.7, [1, 2]), (1.0, [1, 2, 3, 4])):
        policy = HotKeys(4, threshold=0.0, coverage=coverage)
        state, _ = policy.detect(policy.count(policy.start(), keys))
        assert state.keys.tolist() == hot


def test_a_cooling_below_one_keeps_keys_near_the_threshold():
    near = u64([7] * 9 + list(range(10, 101)))
    for cooling, hot in ((1.0, []), (0.9, [7]), (0.5, [7])):
        policy = HotKeys(4, threshold=0.1, epsilon=0.001, cooling=cooling)
        state, _ = policy.detect(policy.count(policy.start(), u64([7] * 10)))
        assert state.keys.tolist() == [7]
        state, _ = policy.detect(policy.count(state, near))
        assert state.keys.tolist() == hot


def test_equation_4_with_costly_state_lets_no_key_go():
    keys = stream(20_000)
    free = HotKeys(6, threshold=0.002)
    gated = HotKeys(6, threshold=0.002, message_seconds=1e-3, state_seconds=10.0)
    for policy, some in ((free, True), (gated, False)):
        state, _ = policy.detect(policy.count(policy.start(), keys))
        assert bool(len(policy.decide(state)[1])) == some


def test_moves_know_how_many_they_are():
    assert len(Moves(u64([1, 2]), *(np.zeros(2, t) for t in (np.int32, np.int32, np.int8)))) == 2


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"partitions": 0}, "number of partitions"),
        ({"partitions": 4, "threshold": 1.5}, "threshold of hot keys"),
        ({"partitions": 4, "coverage": -0.1}, "coverage of hot keys"),
        ({"partitions": 4, "least": 0}, "least number of messages"),
        ({"partitions": 4, "cooling": 0}, "cooling"),
        ({"partitions": 4, "threshold": 0.01, "epsilon": 0.1}, "a tenth of the threshold"),
        ({"partitions": 4, "epsilon": 0.0}, "epsilon"),
        ({"partitions": 4, "theta": -1}, "θ"),
        ({"partitions": 4, "message_seconds": -1.0}, "time of a message"),
        ({"partitions": 4, "state_seconds": -1.0}, "state's move"),
        ({"partitions": 4, "window_seconds": 0}, "time of a window"),
    ],
)
def test_bad_settings_are_refused(given, message):
    with pytest.raises(InputError, match=message):
        HotKeys(**given)


def test_counts_that_do_not_fit_and_states_of_other_partitions_are_refused():
    policy = HotKeys(4)
    with pytest.raises(InputError, match="2 fingerprints, but 1 counts"):
        policy.count(policy.start(), u64([1, 2]), np.array([1]))
    with pytest.raises(InputError, match="at least 0"):
        policy.count(policy.start(), u64([1]), np.array([-1]))
    with pytest.raises(InputError, match="has 4 partitions, not 5"):
        HotKeys(5).from_arrays(policy.to_arrays(policy.start()))
