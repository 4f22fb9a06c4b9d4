"""Every sketch against its twin and against the true, real-valued counts."""

import math
import pickle
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import naive
from evenflow import sketches
from evenflow.model import InputError
from evenflow.sketches.exact import Exact
from evenflow.sketches.lossy_counting import LossyCounting
from evenflow.sketches.space_saving import SpaceSaving

quick = settings(max_examples=40)

# Few enough keys that they meet again; 0 and the largest word are fingerprints like others.
KEYS = np.array([0, 1, 2**64 - 1, 2**63, *range(100, 108)], np.uint64)
NEVER_SEEN = np.array([77], np.uint64)
ASKED = np.concatenate([KEYS, NEVER_SEEN])

SKETCHES = [
    SpaceSaving(capacity=1),
    SpaceSaving(capacity=3),
    SpaceSaving(capacity=40),
    LossyCounting(epsilon=1.0),
    LossyCounting(epsilon=0.3),
    LossyCounting(epsilon=0.1),
    Exact(),
]
of_every_sketch = pytest.mark.parametrize("sketch", SKETCHES, ids=repr)

AGE = "age"
batches = st.lists(st.integers(0, len(KEYS) - 1), max_size=30)
programs = st.lists(st.one_of(batches, st.just(AGE)), max_size=8)


def twin_of(sketch):
    if isinstance(sketch, SpaceSaving):
        return naive.SpaceSaving(sketch.capacity, sketch.half_life)
    return naive.LossyCounting(sketch.width if isinstance(sketch, LossyCounting) else math.inf)


def run(sketch, program, *counters, state=None):
    """The state after a program of batches and ageings; `counters` are led through it too."""
    state = sketch.start() if state is None else state
    for step in program:
        if step == AGE:
            sketch.age(state)
            for counter in counters:
                counter.age()
        else:
            state = sketch.update(state, KEYS[step])
            for key in KEYS[step].tolist():
                for counter in counters:
                    counter.add(key)
    return state


def skewed(n, seed, distinct=50_000):
    return (np.random.default_rng(seed).zipf(1.3, n) % distinct).astype(np.uint64)


def counted(sketch, keys):
    return sketch.update(sketch.start(), keys)


def assert_bounds_hold(sketch, state, truth):
    lower, upper = sketch.bounds(state, ASKED)
    for key, low, high in zip(ASKED.tolist(), lower.tolist(), upper.tolist(), strict=True):
        assert 0 <= low <= truth.of(key) <= high


def assert_is_twin(sketch, state, twin):
    lower, upper = sketch.bounds(state, ASKED)
    assert list(zip(lower.tolist(), upper.tolist(), strict=True)) == [
        twin.bounds(key) for key in ASKED.tolist()
    ]
    everything = sketch.hot(state, 0.0)
    assert dict(zip(everything.keys.tolist(), everything.born.tolist(), strict=True)) == (
        twin.tracked()
    )


# --- every sketch ---------------------------------------------------------------------------------


def test_all_sketches_are_tested_here():
    assert {type(sketch).name for sketch in SKETCHES} == set(sketches.sketches())


@of_every_sketch
@quick
@given(program=programs)
def test_a_sketch_is_its_twin(sketch, program):
    twin = twin_of(sketch)
    state = run(sketch, program, twin)
    assert_is_twin(sketch, state, twin)


@of_every_sketch
@quick
@given(program=programs)
def test_lower_is_at_most_the_true_count_is_at_most_upper(sketch, program):
    truth = naive.TrueCounts()
    state = run(sketch, program, truth)
    assert_bounds_hold(sketch, state, truth)
    assert sketch.total(state) == math.ceil(truth.total())


@of_every_sketch
@quick
@given(parts=st.lists(programs, min_size=1, max_size=4), more=programs)
def test_merging_keeps_the_bounds_and_is_its_twin(sketch, parts, more):
    truths = [naive.TrueCounts() for _ in parts]
    twins = [twin_of(sketch) for _ in parts]
    states = [run(sketch, *three) for three in zip(parts, truths, twins, strict=True)]
    truth, twin = naive.TrueCounts.merged(truths), twins[0].merged(twins)
    before = pickle.dumps(states)

    union = sketch.merge(states)
    assert_is_twin(sketch, union, twin)
    assert_bounds_hold(sketch, union, truth)
    assert truth.total() <= sketch.total(union) < truth.total() + len(parts)

    union = run(sketch, more, truth, twin, state=union)
    assert_is_twin(sketch, union, twin)
    assert_bounds_hold(sketch, union, truth)
    assert pickle.dumps(states) == before, "merging changed, or shares memory with, its parts"


@of_every_sketch
def test_splitting_a_stream_into_batches_changes_nothing(sketch):
    keys = skewed(3000, seed=1)
    whole, split = counted(sketch, keys), sketch.start()
    for batch in np.split(keys, [0, 1, 2, 9, 9, 10, 300, 301, 2000]):
        split = sketch.update(split, batch)
    for of_whole, of_split in zip(whole, split, strict=True):
        np.testing.assert_array_equal(of_whole, of_split)


@of_every_sketch
def test_pickling_mid_stream_changes_nothing(sketch):
    keys = skewed(3000, seed=2)
    thawed_sketch, thawed = pickle.loads(pickle.dumps((sketch, counted(sketch, keys[:1700]))))
    assert thawed_sketch == sketch
    resumed = sketch.update(thawed, keys[1700:])
    for of_one, of_other in zip(counted(sketch, keys), resumed, strict=True):
        np.testing.assert_array_equal(of_one, of_other)


@of_every_sketch
def test_hot_keys_are_those_of_at_least_that_share_most_frequent_first(sketch):
    state = counted(sketch, skewed(3000, seed=3))
    everything, total = sketch.hot(state, 0.0), sketch.total(state)
    assert total == 3000
    for share in (0.001, 0.01, 0.1, 1.0):
        hot = sketch.hot(state, share)
        assert set(hot.keys) == set(everything.keys[everything.upper >= share * total])
        order = list(zip((-hot.upper).tolist(), hot.keys.tolist(), strict=True))
        assert order == sorted(order)
        lower, upper = sketch.bounds(state, hot.keys)
        np.testing.assert_array_equal(hot.lower, lower)
        np.testing.assert_array_equal(hot.upper, upper)


@of_every_sketch
def test_born_is_the_position_of_the_message_that_brought_the_key_in(sketch):
    keys = skewed(3000, seed=4)
    state = sketch.update(counted(sketch, keys[:1000]), keys[1000:])
    everything = sketch.hot(state, 0.0)
    np.testing.assert_array_equal(keys[everything.born], everything.keys)


# --- SpaceSaving ----------------------------------------------------------------------------------


@pytest.mark.parametrize("capacity", [1, 10, 100])
def test_space_saving_bounds_are_at_most_total_over_capacity_apart(capacity):
    keys, sketch = skewed(20_000, seed=5), SpaceSaving(capacity)
    state = counted(sketch, keys)
    distinct, counts = np.unique(keys, return_counts=True)
    lower, upper = sketch.bounds(state, distinct)
    assert (upper - lower).max() <= len(keys) / capacity
    assert ((lower <= counts) & (counts <= upper)).all()
    frequent = distinct[counts >= len(keys) / capacity]
    assert set(frequent) <= set(sketch.hot(state, 0.0).keys)
    assert len(frequent) > 0 or capacity == 1


@quick
@given(stream=st.lists(st.integers(0, len(KEYS) - 1), max_size=80), half_life=st.integers(1, 9))
def test_half_life_halves_after_every_so_many_messages(stream, half_life):
    sketch = SpaceSaving(capacity=4, half_life=half_life)
    twin, truth = twin_of(sketch), naive.TrueCounts()
    state = run(sketch, [stream], twin)
    for position, i in enumerate(stream):
        if position > 0 and position % half_life == 0:
            truth.age()
        truth.add(int(KEYS[i]))
    assert_is_twin(sketch, state, twin)
    assert_bounds_hold(sketch, state, truth)
    assert sketch.total(state) == math.ceil(truth.total())


# --- Lossy Counting -------------------------------------------------------------------------------


@pytest.mark.parametrize("epsilon", [1.0, 0.3, 0.01, 0.001])
def test_lossy_counting_bounds_are_at_most_epsilon_n_apart(epsilon):
    keys, sketch = skewed(20_000, seed=6), LossyCounting(epsilon)
    state, done = sketch.start(), 0
    for end in (1, sketch.width - 1, sketch.width, sketch.width + 1, 19_999, 20_000):
        if end < done:
            continue
        state, done = sketch.update(state, keys[done:end]), end
        distinct, counts = np.unique(keys[:end], return_counts=True)
        lower, upper = sketch.bounds(state, distinct)
        assert (upper - lower).max(initial=0) <= epsilon * end
        assert ((lower <= counts) & (counts <= upper)).all()
        assert set(distinct[counts > epsilon * end]) <= set(sketch.hot(state, 0.0).keys)


def test_an_untracked_key_may_have_counted_one_a_finished_window():
    sketch = LossyCounting(epsilon=0.25)
    state = sketch.start()
    for n in range(1, 30):
        state = sketch.update(state, np.array([n], np.uint64))
        lower, upper = sketch.bounds(state, np.array([0], np.uint64))
        assert (lower[0], upper[0]) == (0, n // 4)


@pytest.mark.parametrize("sources", [1, 3])
@quick
@given(data=st.data())
def test_ageing_widens_lossy_bounds_by_at_most_2_a_source(sources, data):
    sketch = LossyCounting(epsilon=0.2)
    truths = [naive.TrueCounts() for _ in range(sources)]
    states = [run(sketch, data.draw(programs), truth) for truth in truths]
    union = sketch.merge(states)
    lower, upper = sketch.bounds(union, ASKED)
    allowed = Fraction(1, 5) * naive.TrueCounts.merged(truths).total() + 2 * sources
    assert (upper - lower).max() <= allowed


def test_merged_lossy_bounds_without_ageing_are_at_most_epsilon_n_apart():
    sketch = LossyCounting(epsilon=0.01)
    streams = [skewed(n, seed=n) for n in (1, 99, 100, 4050, 7077)]
    union = sketch.merge([counted(sketch, stream) for stream in streams])
    together = np.concatenate(streams)
    lower, upper = sketch.bounds(union, np.unique(together))
    assert (upper - lower).max() <= 0.01 * len(together)


def as_many_alive_as_can_be(width, windows):
    """The window that lies i windows before the end gives each of its keys just enough messages to
    live until then."""
    stream = []
    for i in range(windows, 0, -1):
        keys = [1000 * i + number for number in range(width // i)]
        stream += keys * i + keys[:1] * (width - len(keys) * i)
    return np.array(stream, np.uint64)


def shares_of_the_memory_bound(sketch, keys):
    """Keys held, as a share of the most that there may be, after every seventh message."""
    state, shares = sketch.start(), []
    for end in range(7, len(keys), 7):
        state = sketch.update(state, keys[end - 7 : end])
        window = math.ceil(end / sketch.width)
        bound = sketch.width * sum(1 / i for i in range(1, window + 1))
        shares.append(len(sketch.hot(state, 0.0).keys) / bound)
    return shares


@pytest.mark.parametrize(
    "keys", [skewed(20_000, seed=7), np.arange(20_000, dtype=np.uint64)], ids=["skewed", "distinct"]
)
def test_lossy_counting_holds_at_most_width_times_harmonic_number_keys(keys):
    assert max(shares_of_the_memory_bound(LossyCounting(epsilon=0.02), keys)) <= 1


def test_no_adversary_exceeds_the_memory_bound_of_lossy_counting_though_one_comes_near():
    keys = as_many_alive_as_can_be(width=50, windows=20)
    shares = shares_of_the_memory_bound(LossyCounting(epsilon=0.02), keys)
    assert max(shares) <= 1
    assert shares[-1] >= 0.9


def test_lossy_counting_drops_and_grows_as_its_twin_does():
    keys, sketch = skewed(12_000, seed=8), LossyCounting(epsilon=1 / 500)
    twin, state = twin_of(sketch), sketch.start()
    room = len(state.keys)
    for begin in range(0, len(keys), 700):
        state = sketch.update(state, keys[begin : begin + 700])
        for key in keys[begin : begin + 700].tolist():
            twin.add(key)
        assert_is_twin(sketch, state, twin)
    assert len(state.keys) > 2 * room, "the stream should have made it grow"


# --- the exact counter ----------------------------------------------------------------------------


def test_exact_counts_are_exact_however_many_keys():
    keys, sketch = skewed(50_000, seed=9), Exact()
    state = counted(sketch, keys)
    distinct, counts = np.unique(keys, return_counts=True)
    assert len(distinct) > 2000
    lower, upper = sketch.bounds(state, distinct)
    np.testing.assert_array_equal(lower, counts)
    np.testing.assert_array_equal(upper, counts)
    assert len(sketch.hot(state, 0.0).keys) == len(distinct)


@quick
@given(program=programs)
def test_aged_exact_counts_are_the_true_ones_rounded_down_and_up(program):
    sketch, truth = Exact(), naive.TrueCounts()
    state = run(sketch, program, truth)
    lower, upper = sketch.bounds(state, ASKED)
    assert list(zip(lower.tolist(), upper.tolist(), strict=True)) == [
        truth.bounds(key) for key in ASKED.tolist()
    ]


@quick
@given(parts=st.lists(programs, min_size=1, max_size=4))
def test_merged_exact_bounds_are_at_most_the_number_of_states_apart(parts):
    sketch = Exact()
    union = sketch.merge([run(sketch, part) for part in parts])
    lower, upper = sketch.bounds(union, ASKED)
    assert (upper - lower).max() <= len(parts)


# --- bad input ------------------------------------------------------------------------------------


@pytest.mark.parametrize("epsilon", [0.0, -0.1, 1.5, math.nan, math.inf, 1e-12])
def test_lossy_counting_refuses_an_epsilon_that_is_no_share(epsilon):
    with pytest.raises(InputError, match="epsilon"):
        LossyCounting(epsilon)


@pytest.mark.parametrize("capacity", [0, -3])
def test_space_saving_refuses_to_have_no_counters(capacity):
    with pytest.raises(InputError, match="at least 1"):
        SpaceSaving(capacity)


@pytest.mark.parametrize("sketch", [LossyCounting(0.1), Exact(), SpaceSaving(3)], ids=repr)
@pytest.mark.parametrize("share", [-0.1, 1.1, math.nan])
def test_a_share_outside_0_to_1_is_refused(sketch, share):
    with pytest.raises(InputError, match="share"):
        sketch.hot(sketch.start(), share)
