"""Power laws, the stand-ins fitted with them, and the generators of the papers."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import naive
from evenflow.kernels.mixing import salt
from evenflow.model import InputError
from evenflow.simulator.workloads import HOURLY
from evenflow.simulator.workloads.drawing import DRAW, HOME, IDENTITY, PERMUTE, SWAP, alias_table
from evenflow_lab.workloads import Cashtags, Fluctuating, Smalops, Twitter, Wikipedia
from evenflow_lab.workloads.power_law import PowerLaw, draw, fitted, with_top_share

pytestmark = pytest.mark.slow

modest = settings(max_examples=40, deadline=None)

exponents = st.sampled_from([0.0, 0.5, 0.92, 1.0, 1.0 + 1e-12, 1.07, 1.1, 2.0, 6.0])
shifts = st.sampled_from([-0.5, 0.0, 1.72, 40.0])


def whole(workload, size=1 << 20):
    return np.concatenate(list(workload.chunks(size)))


def counts_of(stream):
    return np.unique(stream, return_counts=True)


# --- power laws ----------------------------------------------------------------------------------


@modest
@given(exponents, st.sampled_from([1, 2, 1_024, 1_025, 5_000]), shifts, st.integers(1, 10**6))
def test_power_law_sums_agree_with_their_twins(exponent, ranks, shift, messages):
    law = PowerLaw(exponent, ranks, shift)
    expected = naive.power_law(exponent, ranks, shift)
    assert law.p1 == pytest.approx(expected[0], rel=1e-11)
    assert law.distinct(messages) == pytest.approx(
        naive.expected_distinct(expected, messages), rel=1e-6
    )


@modest
@given(
    exponents, st.sampled_from([1, 2, 3, 40, 300]), shifts, st.integers(1, 50), st.integers(0, 99)
)
def test_power_law_draw_agrees_with_its_twin(exponent, ranks, shift, table, seed):
    law = PowerLaw(exponent, ranks, shift)
    out = np.empty(40, np.uint64)
    draws, position = salt(seed, DRAW), 1_000 * seed
    sampler = law.sampler(table)
    draw(sampler, draws, np.uint64(7), position, out)
    accept, alias = sampler.accept.tolist(), sampler.alias.tolist()
    ranks_drawn = [
        naive.power_law_rank(
            int(draws), position + i, exponent, ranks, shift, sampler.table, accept, alias
        )
        for i in range(40)
    ]
    assert out.tolist() == [naive.mix(7 + rank) for rank in ranks_drawn]


@pytest.mark.parametrize("exponent", [0.0, 0.9, 1.0, 2.5])
@pytest.mark.parametrize("table", [1, 30, 300])
def test_power_law_frequencies_follow_the_law(exponent, table):
    """Also for the first ranks of the tail, where bars and area differ most."""
    messages, ranks = 400_000, 300
    out = np.empty(messages, np.uint64)
    draw(PowerLaw(exponent, ranks, 0.5).sampler(table), salt(11), np.uint64(0), 0, out)
    keys, counts = counts_of(out)
    by_key = dict(zip(keys.tolist(), counts.tolist(), strict=True))
    observed = np.array([by_key.pop(naive.mix(rank), 0) for rank in range(ranks)])
    assert not by_key, "a key that no rank has"
    law = np.array(naive.power_law(exponent, ranks, 0.5))
    common = int((messages * law >= 25).sum())
    observed, law = (np.append(v[:common], v[common:].sum()) for v in (observed, law))
    observed, law = observed[law > 0], law[law > 0]
    deviation = (observed - messages * law) / np.sqrt(messages * law * (1 - law))
    assert np.abs(deviation).max() < 5
    assert abs((deviation**2).sum() - len(law)) < 5 * math.sqrt(2 * len(law))


def test_power_law_of_a_million_million_ranks_is_drawn_without_a_table():
    sampler = PowerLaw(0.5, 10**12).sampler()
    assert len(sampler.accept) < 10_000
    out = np.empty(10_000, np.uint64)
    draw(sampler, salt(1), np.uint64(0), 0, out)
    assert len(set(out.tolist())) > 9_990


@modest
@given(st.floats(0.001, 0.9), st.integers(2, 10**9))
def test_with_top_share_gives_the_top_key_its_share(p1, ranks):
    if p1 * ranks < 1:
        with pytest.raises(InputError, match="cannot have the share"):
            with_top_share(p1, ranks)
    else:
        assert with_top_share(p1, ranks).p1 == pytest.approx(p1, rel=1e-12)


@pytest.mark.parametrize(
    ("numbers", "complaint"),
    [
        ((0.1, 100, 99), "no stream of 99 messages has 100 keys"),
        ((0.001, 100, 1_000), "of which one has the share 0.001"),
        ((1.0, 100, 1_000), "of which one has the share 1.0"),
        ((0.6, 900, 1_000), "no power law with p1 = 0.6 shows 900 different keys"),
    ],
)
def test_fitted_refuses_what_no_stream_can_show(numbers, complaint):
    with pytest.raises(InputError, match=complaint):
        fitted(*numbers)


@pytest.mark.parametrize(
    "law", [{"exponent": math.nan, "ranks": 5}, {"exponent": 1, "ranks": 2**51}, {"ranks": 0}]
)
def test_power_law_refuses_what_is_none(law):
    with pytest.raises(InputError):
        PowerLaw(**({"exponent": 1.0} | law))
    with pytest.raises(InputError, match="above -1"):
        PowerLaw(1.0, 5, shift=-1.0)


# --- stand-ins -----------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [Wikipedia, Twitter])
def test_stand_in_has_the_published_p1_and_expects_the_published_keys(kind):
    stream = kind()
    assert stream.law.p1 == pytest.approx(stream.published.p1, rel=1e-12)
    assert stream.law.distinct(stream.length()) == pytest.approx(stream.published.keys, rel=1e-6)


@pytest.mark.parametrize("kind", [Wikipedia, Twitter])
@pytest.mark.parametrize("seed", [0, 1])
def test_stand_in_shows_p1_and_the_keys_of_its_beginning(kind, seed):
    messages = 300_000
    stream = kind(messages=messages, seed=seed)
    keys, counts = counts_of(whole(stream))
    p1 = stream.published.p1
    assert counts.max() == pytest.approx(messages * p1, abs=5 * math.sqrt(messages * p1))
    assert keys[counts.argmax()] == naive.mix(int(salt(seed, IDENTITY)))
    # A number of distinct keys varies by less than the square root of itself.
    expected = stream.law.distinct(messages)
    assert len(keys) == pytest.approx(expected, abs=5 * math.sqrt(expected))


@pytest.mark.parametrize("seed", [0, 1])
def test_cashtags_have_the_published_p1_and_keys(seed):
    stream = Cashtags(seed=seed)
    keys, counts = counts_of(whole(stream))
    assert len(keys) == stream.published.keys == 2_900
    of_a_week = stream.published.p1 * 30 / 7
    assert stream.probabilities()[0] == pytest.approx(of_a_week, rel=1e-12)
    assert stream.probabilities().sum() == pytest.approx(1.0)
    expected = stream.length() * stream.published.p1
    assert counts.max() == pytest.approx(expected, abs=5 * math.sqrt(expected))


def test_the_top_cashtag_of_a_week_has_14_percent_of_it_and_nothing_of_other_weeks():
    stream = Cashtags(seed=2)
    keys = whole(stream)
    weeks = np.split(keys, range(stream.drift, len(keys), stream.drift))
    assert [len(week) for week in weeks] == [161_000] * 4 + [46_000]
    tops = [stream.keys_of_week(number)[0] for number in range(5)]
    assert len(set(tops)) == 5
    for number, week in enumerate(weeks):
        for other, top in enumerate(tops):
            share = (week == top).mean()
            assert share == (pytest.approx(0.141, abs=0.005) if other == number else 0)


def test_most_popular_cashtags_of_one_week_are_rare_in_the_next():
    stream = Cashtags(seed=3)
    first, second = (stream.keys_of_week(number)[1:21] for number in (0, 1))
    assert len(np.intersect1d(first, second)) <= 2


def test_cashtags_agree_with_their_twin():
    stream = Cashtags(messages=200, seed=5, drift=70)
    accept, alias = (table.tolist() for table in alias_table(stream.probabilities()))
    names = [naive.mix((int(salt(5, IDENTITY)) + rank) % 2**64) for rank in range(2_900)]
    draws = int(salt(5, DRAW))
    expected = []
    for position in range(200):
        week = position // 70
        others = naive.shuffled(int(salt(5, PERMUTE, week)), names[5:])
        expected.append([names[week], *others][naive.zipf_rank(draws, position, accept, alias)])
    assert whole(stream).tolist() == expected


# --- generators of the papers --------------------------------------------------------------------


def test_smalops_has_the_number_of_keys_that_the_paper_counted():
    """28 M messages use 3.2 M of 28 M keys."""
    assert Smalops().law.distinct(28_000_000) == pytest.approx(3.2e6, rel=0.01)
    expected = np.array(naive.power_law(1.1, 50, 1.72))
    assert expected[7] / expected[0] == pytest.approx(((2.72 + 7) / 2.72) ** -1.1)
    assert Smalops(keys=50).law.p1 == pytest.approx(expected[0])


def test_smalops_has_the_hot_keys_that_the_paper_counted():
    """1 to 1.5 k keys with 100 messages in a window; 14 k in one or another of 14 minutes."""
    stream = Smalops(messages=2 * 2_000_000 - 1, seed=1)
    hot = []
    for minute in (slice(0, 2_000_000), slice(2_000_000, None)):
        keys, counts = counts_of(whole(stream)[minute])
        hot.append(set(keys[counts >= 100].tolist()))
        assert 1_000 <= len(hot[-1]) <= 1_500
    new = len(hot[1] - hot[0])
    assert len(hot[0]) + 13 * new == pytest.approx(14_000, rel=0.1)


def test_smalops_shifts_the_keys_every_minute():
    stream = Smalops(messages=60_000, keys=1_000, seed=4, minute=20_000, shift=3)
    first = int(salt(4, IDENTITY))
    keys = [
        {naive.mix((first + minute * 3 + k) % 2**64): k for k in range(1_000)}
        for minute in (0, 1, 2)
    ]
    for minute, numbers in enumerate(keys):
        drawn = np.array(
            [numbers[key] for key in whole(stream)[minute * 20_000 :][:20_000].tolist()]
        )
        assert (drawn == 0).mean() == pytest.approx(stream.law.p1, rel=0.1)
    static = Smalops(messages=60_000, keys=1_000, seed=4, minute=20_000, shift=0)
    assert set(whole(static).tolist()) <= keys[0].keys()


@pytest.mark.parametrize(
    ("exponent", "keys", "fluctuation"),
    [
        (0.85, 5_000, 1.0),
        (0.85, 10_000, 2.0),
        (0.5, 5_000, 0.1),
        (1.0, 20_000, 1.0),
        (2.0, 500, 2.0),
    ],
)
def test_fluctuating_load_of_a_task_changes_by_f_in_every_interval(exponent, keys, fluctuation):
    stream = Fluctuating(exponent, keys, fluctuation, seed=3)
    loads = stream.loads(9)
    assert loads.sum(axis=1) == pytest.approx(np.ones(9))
    change = np.abs(np.diff(loads, axis=0)).max(axis=1) * stream.tasks
    assert change.min() >= fluctuation * (1 - 1e-9)
    # No further than wanted: the last swap at most.
    assert change.max() <= fluctuation + stream.probabilities()[0] * stream.tasks


@pytest.mark.parametrize(("exponent", "fluctuation"), [(0.0, 1.0), (0.85, 0.0)])
def test_fluctuating_stays_as_it_is_where_nothing_can_or_shall_change(exponent, fluctuation):
    loads = Fluctuating(exponent, 300, fluctuation).loads(4)
    assert (loads == loads[0]).all()


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_fluctuating_swaps_agree_with_their_twin(seed):
    stream = Fluctuating(1.0, keys=60, fluctuation=0.7, tasks=4, seed=seed)
    home = int(salt(seed, HOME))

    def task_of(key):
        return (naive.mix(home ^ key) >> 32) * 4 >> 32

    intervals = stream.intervals()
    keys = next(intervals).tolist()
    for number in range(1, 6):
        swaps = int(salt(seed, SWAP, number))
        keys = naive.raise_load(
            swaps, swaps % 4, 0.7 / 4, 200 * 60, stream.probabilities().tolist(), keys, task_of
        )
        assert next(intervals).tolist() == keys


def test_fluctuating_stream_has_the_frequencies_of_its_intervals():
    stream = Fluctuating(1.0, keys=50, interval=100_000, messages=300_000, seed=1)
    law = stream.probabilities()
    for number, (keys, _) in enumerate(zip(stream.intervals(), range(3), strict=False)):
        part = whole(stream)[number * 100_000 :][:100_000]
        observed = np.array([(part == key).sum() for key in keys])
        assert np.abs((observed - 100_000 * law) / np.sqrt(100_000 * law)).max() < 5


def test_hourly_curve_is_a_day_around_its_mean():
    assert len(HOURLY) == 24
    assert sum(HOURLY) == pytest.approx(24, abs=1e-12)
    # A cluster that is busy for 80 % on average can serve the busiest hour.
    assert 0 < min(HOURLY) < 1 < max(HOURLY) <= 1.25
