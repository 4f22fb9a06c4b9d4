"""FISH, Dalton and the key isolator: what only they do, and what they guarantee."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import naive
import naive_rivals
from evenflow.grouping import KeyIsolator, make
from evenflow.grouping.key_isolator import room_for
from evenflow.grouping.protocol import most_workers_of_a_key
from evenflow.model import Feedback, InputError, KeyCounts, RoutingTable, Workers
from evenflow.simulator.workloads import Zipf
from grouping.test_schemes import dalton, fish, routed

keys_of_a_stream = st.integers(0, 2**64 - 1)


def drifting(messages, stretch, exponent=1.4, keys=300, seed=1):
    [stream] = Zipf(exponent, keys, messages, seed, drift=stretch).chunks(messages)
    return stream


def tenth_hot(key, n=10_000, of=10):
    """A tenth of a stream of distinct keys is one key."""
    return np.where(np.arange(n) % of, np.arange(n) + (1 << 40), key).astype(np.uint64)


# --- fish -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "spec", ["fish:epoch=200,counters=60,interval=150", "fish:alpha=1.0,epoch=90"]
)
def test_fish_is_its_twin_on_a_long_drifting_stream(spec):
    scheme, workers = make(spec), Workers(tuple(range(100, 112)))
    keys = drifting(3000, 700)
    twin = fish(scheme, workers, 3, 1)
    got = routed(scheme, scheme.start(workers, seed=3, source=1), keys)
    assert got == [twin.route(k) for k in keys.tolist()]
    assert len(twin.keys) == len(set(twin.keys))


def test_fish_starts_from_the_hot_keys_of_all_sources():
    scheme, out = make("fish"), np.empty(100, np.int32)
    keys = np.full(100, 7, np.uint64)
    alone, informed = scheme.start(40), scheme.start(40)
    scheme.observe(informed, Feedback(hot=KeyCounts({7: 30_000, 8: 10}, total=100_000)))
    scheme.route(alone, keys[:1], out[:1])
    assert set(scheme.candidates(alone, 7).tolist()) < set(scheme.candidates(informed, 7).tolist())
    scheme.route(informed, keys, out)
    assert len(set(out.tolist())) == 40


def test_fish_forgets_a_key_that_is_no_longer_hot():
    scheme = make("fish", epoch=100, counters=500)
    state, out = scheme.start(8), np.empty(5000, np.int32)
    scheme.route(state, np.full(5000, 7, np.uint64), out)
    assert len(scheme.candidates(state, 7)) == 8
    scheme.route(state, np.arange(1000, 6000, dtype=np.uint64), out)
    assert len(scheme.candidates(state, 7)) == 2


def test_fish_gives_a_key_half_as_hot_half_of_the_workers():
    scheme, out = make("fish"), np.empty(12_000, np.int32)
    keys = np.resize(np.array([1, 1, 1, 2, 100], np.uint64), 12_000)
    keys[4::5] = np.arange(2400) + 1000
    state = scheme.start(64)
    scheme.observe(state, Feedback(hot=KeyCounts({1: 6000, 2: 2000}, total=10_000)))
    scheme.route(state, keys, out)
    assert [len(set(scheme.candidates(state, key).tolist())) for key in (1, 2)] == [64, 32]
    assert set(out[keys == 2].tolist()) <= set(scheme.candidates(state, 2).tolist())


def test_fish_sends_in_proportion_to_weights():
    scheme, workers = make("fish"), Workers.numbered(4, [1, 1, 2, 4])
    out = np.empty(40_000, np.int32)
    scheme.route(scheme.start(workers), np.resize(np.arange(3), 40_000).astype(np.uint64), out)
    shares = np.bincount(out) / len(out)
    assert np.abs(shares - np.array([1, 1, 2, 4]) / 8).max() < 0.01


# --- dalton ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "spec", ["dalton:slide=120", "dalton:slide=60,slides=1,epsilon=0.9", "dalton:slide=40,slides=9"]
)
def test_dalton_is_its_twin_on_a_long_drifting_stream(spec):
    scheme, workers = make(spec), Workers(tuple(range(100, 112)))
    keys = drifting(3000, 700)
    twin = dalton(scheme, workers, 3, 1)
    state = scheme.start(workers, seed=3, source=1)
    got = routed(scheme, state, keys)
    assert got == [twin.route(k) for k in keys.tolist()]
    seen = {"hot_keys": len(twin.q), "split": twin.max_split}
    assert scheme.describe(state) == seen
    assert twin.max_split > 2, "too easy a stream"


def test_dalton_keeps_a_key_with_at_most_its_share_of_a_slide_on_one_worker():
    scheme = make("dalton", slide=100)
    for keys in (tenth_hot(7), np.arange(10_000, dtype=np.uint64) % np.uint64(40)):
        out = np.empty(len(keys), np.int32)
        scheme.route(scheme.start(10), keys, out)
        assert most_workers_of_a_key(keys, out) == 1


def test_dalton_learns_to_split_what_is_hotter():
    scheme, out = make("dalton"), np.empty(20_000, np.int32)
    keys = tenth_hot(7, 20_000, of=2)
    scheme.route(scheme.start(10), keys, out)
    late = np.bincount(out[10_000:], minlength=10).max() / 10_000
    assert late < 0.35  # by hash, one worker would have 0.55 of the stream


def test_dalton_starts_with_the_hot_keys_of_all_sources():
    scheme = make("dalton")
    state = scheme.start(10)
    scheme.observe(state, Feedback(hot=KeyCounts({7: 300, 8: 100, 9: 20}, total=1000)))
    assert scheme.describe(state) == {"hot_keys": 1, "split": 2}
    assert len(scheme.candidates(state, 7)) == 10
    assert len(scheme.candidates(state, 8)) == 1


# --- key isolator ---------------------------------------------------------------------------------


@settings(max_examples=60)
@given(
    st.dictionaries(keys_of_a_stream, st.integers(1, 1000), min_size=1, max_size=40),
    st.dictionaries(keys_of_a_stream, st.integers(0, 4), max_size=5),
    st.integers(0, 5000),
    st.sampled_from([0.5, 1.0, 2.0, 4.0]),
    st.integers(0, 9),
)
def test_key_isolator_is_its_twin(hot, entries, others, heavy_per_worker, seed):
    ids = (30, 10, 20, 50, 40)
    scheme = KeyIsolator(heavy_per_worker=heavy_per_worker)
    state = scheme.start(Workers(ids), seed)
    before = {key: ids[number] for key, number in entries.items()}
    scheme.observe(state, Feedback(plan=RoutingTable(before)))
    buckets = state.buckets.tolist()

    def owner(key, explicit):
        by_hash = naive.KeyGrouping(buckets, seed).route(key)
        return ids.index(before.get(key, by_hash) if explicit else by_hash)

    total = sum(hot.values()) + others
    table, room = naive_rivals.isolate(hot, total, 5, heavy_per_worker, 0.001, 3000, owner)
    scheme.observe(state, Feedback(hot=KeyCounts(hot, total)))
    assert scheme.table(state) == {key: ids[number] for key, number in table.items()}
    held = [state.buckets.tolist().count(worker) for worker in ids]
    assert all(
        abs(h - len(buckets) * share) < 1 + 1e-9 for h, share in zip(held, room, strict=True)
    )


@given(
    st.lists(st.floats(0, 1), min_size=1, max_size=9),
    st.floats(1e-6, 1),
)
def test_room_for_fills_all_workers_to_one_level(sizes, rest):
    room = room_for(np.array(sizes), rest)
    after = np.array(sizes) + rest * room
    assert room.sum() == pytest.approx(1)
    assert after[room > 0].max() - after[room > 0].min() < 1e-9 + 1e-6 * rest
    assert after[room == 0].min(initial=np.inf) >= after[room > 0].max() - 1e-9


def test_key_isolator_has_one_worker_per_key_until_new_counts_arrive():
    scheme, keys = make("key-isolator"), drifting(20_000, 20_000)
    found, counts = np.unique(keys, return_counts=True)
    hot = KeyCounts(dict(zip(found.tolist(), counts.tolist(), strict=True)), len(keys))
    outs = []
    for source in (0, 1):
        state = scheme.start(10, seed=4, source=source)
        scheme.route(state, keys[source::2], np.empty(10_000, np.int32))
        scheme.observe(state, Feedback(hot=hot))
        out = np.empty(len(keys), np.int32)
        scheme.route(state, keys, out)
        outs.append(out)
    assert (outs[0] == outs[1]).all()
    assert most_workers_of_a_key(keys, outs[0]) == 1
    by_hash = np.empty(len(keys), np.int32)
    scheme.route(scheme.start(10, seed=4), keys, by_hash)
    # The hottest key has a third of the stream, and a worker of its own.
    assert np.bincount(outs[0]).max() == counts.max() < np.bincount(by_hash).max()


def test_key_isolator_changes_nothing_while_counts_stay_the_same():
    scheme, hot = make("key-isolator"), KeyCounts({1: 300, 2: 100, 3: 50}, 1000)
    state = scheme.start(4)
    scheme.observe(state, Feedback(hot=hot))
    before = (scheme.table(state), state.buckets.tolist())
    scheme.observe(state, Feedback(hot=hot))
    assert (scheme.table(state), state.buckets.tolist()) == before


@pytest.mark.parametrize(
    "spec", ["fish:alpha=0", "fish:epoch=0", "fish:utilisation=2", "dalton:slide=0", "dalton:epsilon=0",
             "key-isolator:heavy_per_worker=0", "key-isolator:slack=-1"],
)  # fmt: skip
def test_values_that_make_no_sense_are_refused(spec):
    with pytest.raises(InputError, match="must"):
        make(spec)
