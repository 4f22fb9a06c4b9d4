"""`partitions="auto"`: enough partitions for the load, few changes, none of them by chance."""

import json
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evenflow.model import InputError
from evenflow.planning.scaling import (
    Interval,
    Scaling,
    ScalingMemory,
    decide_partitions,
    scaling_of,
)

COST, OVERHEAD = 0.001, 0.3  # seconds per row, and of every batch
POLICY = Scaling(most=64)


def stream(load, policy=POLICY, start=4, seconds=600.0, noise=0.0, seed=0, every=0.0, **machine):
    """A query in virtual time: (moment, partitions, rows, lag, decision) of each batch.

    Lag is how long the oldest row of a batch has waited when the batch is done.
    """
    chance = np.random.default_rng(seed)
    cores, hottest = machine.get("cores", 10**6), machine.get("hottest", 0.0)
    memory, partitions, found = ScalingMemory(), start, []
    before, now = 0.0, 1.0
    while now < seconds:
        moments = np.linspace(before, now, 7)
        mean = float(np.mean([load(t) for t in moments])) * (now - before)
        rows = max(0, round(mean * np.exp(noise * chance.standard_normal())))
        share = max(1 / partitions, hottest) * max(1.0, partitions / cores)
        fullest = rows * COST * share * np.exp(noise * chance.standard_normal())
        seen = Interval(rows, now - before, rows * COST, fullest, hottest=hottest if rows else 0.0)
        decision, memory = decide_partitions(policy, memory, partitions, seen)
        memory = ScalingMemory.from_json(json.loads(json.dumps(memory.to_json())))
        end = now + OVERHEAD + fullest
        found.append((now, partitions, rows, end - before, decision))
        before, now, partitions = now, max(end, now + every), decision.partitions
    return found


def sizes(found):
    return [partitions for _, partitions, *_ in found]


def changes(found):
    return [(a, b) for a, b in pairwise(sizes(found)) if a != b]


def turns(found):
    """How often a step up is followed by one down, or the other way round."""
    up = [b > a for a, b in changes(found)]
    return sum(a != b for a, b in pairwise(up))


def doubling(t):
    """2000 rows per second, 4000, 8000, 4000, 2000 and again, two minutes each."""
    return 2000 * (1, 2, 4, 2, 1, 2, 4, 2, 1)[min(int(t / 120), 8)]


@pytest.mark.parametrize("every", [0.0, 2.0])
@pytest.mark.parametrize("noise", [0.0, 0.05])
def test_a_load_that_doubles_and_halves_has_bounded_lag_and_no_oscillation(noise, every):
    found = stream(doubling, seconds=1080, noise=noise, every=every)
    assert turns([one for one in found if one[0] > 60]) == 3  # as often as the load itself turns
    assert len(changes(found)) <= 14  # eight changes of the load, one step or two for each
    lag = [lag for _, _, _, lag, _ in found]
    assert max(lag) < 8 + 2 * every
    assert np.median(lag) < 2.5 + 2 * every
    for begin in range(0, 1080, 120):
        settled = [n for t, n, *_ in found if begin + 90 <= t < begin + 120]
        needed = doubling(begin) * COST
        assert needed / 0.85 <= np.mean(settled) <= needed / 0.4, begin


def test_a_fixed_number_would_fall_behind_or_waste_most_of_its_partitions():
    """What the policy is for: the same load with the number that is right at the beginning."""
    fixed = stream(doubling, Scaling(least=3, most=3), start=3, seconds=480)
    assert max(lag for *_, lag, _ in fixed) > 60


@given(
    st.integers(0, 10**6), st.floats(100, 50_000), st.integers(1, 64), st.sampled_from([0.0, 1.0])
)
@settings(max_examples=60, deadline=None)
def test_noise_does_not_move_partitions(seed, rate, start, every):
    found = stream(lambda t: rate, start=start, seconds=300, noise=0.05, seed=seed, every=every)
    settled = [one for one in found if one[0] > 120]
    assert turns(found) <= 1
    assert len(changes(settled)) <= 1  # a number at the edge may be put right once


@given(st.integers(0, 10**6), st.floats(500, 40_000))
@settings(max_examples=40, deadline=None)
def test_one_step_or_two_are_enough_however_far_the_load_jumps(seed, rate):
    found = stream(lambda t: rate, start=1, noise=0.02, seed=seed)
    assert len(changes(found)) <= 3
    busy = min(64, rate * COST / 0.7)
    assert sizes(found)[-1] == pytest.approx(busy, rel=0.25, abs=1)


@given(
    st.lists(st.floats(0, 1e5), min_size=5, max_size=60),
    st.integers(1, 8),
    st.integers(8, 40),
    st.integers(1, 200),
)
@settings(deadline=None)
def test_the_limits_always_hold(rates, least, most, start):
    policy = Scaling(least=least, most=most)
    memory, partitions = ScalingMemory(), start
    for rate in rates:
        seen = Interval(round(rate), 1.0, rate * COST, rate * COST / partitions)
        decision, memory = decide_partitions(policy, memory, partitions, seen)
        partitions = decision.partitions
        assert least <= partitions <= most
        assert decision.reason


def test_more_partitions_are_not_asked_for_beyond_what_the_hottest_key_leaves_of_use():
    found = stream(lambda t: 8000.0, hottest=0.2)
    assert max(sizes(found)) == 5
    assert "its hottest key has 20.0% of the rows, more would not help" in found[-1][4].reason


def test_where_tasks_share_processors_growing_stops():
    found = stream(lambda t: 9000.0, cores=8, start=4, seconds=120)
    assert max(sizes(found)) < 30
    assert "more would not help: their tasks share processors" in found[-1][4].reason


def test_rows_that_wait_at_the_source_count_and_keep_partitions():
    calm = Interval(1000, 10.0, 1.0, 0.25)
    policy, memory = Scaling(most=16), ScalingMemory()
    for _ in range(5):
        decision, memory = decide_partitions(policy, memory, 4, calm._replace(waiting=5000))
        assert decision.partitions == 4
    decision, _ = decide_partitions(policy, memory, 4, calm._replace(waiting=400_000))
    assert decision.partitions > 4
    assert "400,000 wait" in decision.reason


def test_a_pause_does_not_take_the_partitions_away_that_are_needed_after_it():
    found = stream(lambda t: 5000.0 if t < 60 or t > 660 else 0.0, seconds=720)
    memory, partitions = ScalingMemory(), 8
    busy = Interval(5000, 1.0, 5.0, 0.65)
    for seen in (busy, busy, busy, busy._replace(seconds=3600.0), busy, busy):
        decision, memory = decide_partitions(POLICY, memory, partitions, seen)
        assert decision.partitions == 8
    assert sizes(found)[-1] >= 6


def test_a_query_that_must_not_shrink_does_not():
    found = stream(lambda t: 500.0, Scaling(most=16, shrinks=False), start=8, seconds=60)
    assert set(sizes(found)) == {8}


def test_an_interval_that_says_nothing_changes_nothing():
    memory = ScalingMemory((Interval(10, 1.0, 0.9, 0.9),), 1)
    decision, after = decide_partitions(POLICY, memory, 4, None)
    assert (decision.partitions, after) == (4, memory)


def test_a_decision_follows_from_memory_and_batch_alone():
    """A driver that reads the memory of another one decides as that one would have."""
    found = stream(doubling, seconds=400, noise=0.05)
    assert found == stream(doubling, seconds=400, noise=0.05)


def test_the_rate_is_that_of_the_time_at_work():
    decision, _ = decide_partitions(
        POLICY, ScalingMemory(), 4, Interval(8000, 10.0, busy=8.0, fullest=2.0)
    )
    assert decision.true_rate == 1000  # not 200, which wall-clock time would give
    assert decision.load == pytest.approx(0.2)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("auto:least=0", "at least 1"),
        ("auto:least=8,most=4", "fewer than least"),
        ("auto:target=0.9", "target < high"),
        ("auto:top=3", "no parameter 'top'"),
        ("many", "'many'"),
    ],
)
def test_what_is_no_policy_is_refused(text, words):
    with pytest.raises(InputError, match=words):
        scaling_of(text)


@pytest.mark.parametrize(
    "plain",
    [{"seen": []}, {"seen": [[1, 2]], "quiet": 0, "before": None},
     {"seen": [], "quiet": 0, "before": [0, 1], "calm": [0, 0]},
     {"seen": [], "quiet": 0, "before": None, "calm": [0]},
     {"seen": [[1, 0, 1, 1, 0, 0]], "quiet": 0, "before": None, "calm": [0, 0]}],
)  # fmt: skip
def test_damaged_memory_is_refused(plain):
    with pytest.raises(InputError, match="not what is known of past batches"):
        ScalingMemory.from_json(plain)
