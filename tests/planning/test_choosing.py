"""`auto` as a pure function of what batches cost: which scheme, when it changes, what noise does."""

import json
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evenflow.model import KeyCounts
from evenflow.planning.batch_costs import UNKNOWN_ROW, Load, Observed, Prices, usual_stage
from evenflow.planning.choosing import LEAST, MARGIN, choose, choose_first, loads_of, pays
from evenflow.planning.experience import Experience
from evenflow.planning.key_loads import KeyLoads

PARTITIONS = 8
ROWS = 8000
SPLIT = ("partial-key", "d-choices")


def keys_of(hottest, keys=1000):
    """Counts of keys, the hottest of which has this share."""
    hot = int(ROWS * hottest)
    rest = (ROWS - hot) // (keys - 1)
    counts = {1: hot} | {2 + i: rest for i in range(500)}
    return KeyLoads(KeyCounts(counts, ROWS), keys, PARTITIONS)


def seen(load, true, noise=None, merging=0.0):
    """What is measured of a batch with these true prices, on a machine that disturbs its tasks."""
    noise = np.ones(PARTITIONS) if noise is None else noise
    rest = (load.rows - load.fullest) / (PARTITIONS - 1)
    rows = np.array([load.fullest, *[rest] * (PARTITIONS - 1)])
    calls = rows * true.row * noise
    work = calls + 0.02 * noise
    owners = np.zeros(0)
    if load.parts:
        owners = np.full(PARTITIONS, true.merge * load.parts / PARTITIONS)
    seconds = true.fixed + true.extra(load) + float(calls.max())
    return Observed(load, seconds, rows, work, calls, owners, float(PARTITIONS))


def query(loads_of_batch, true, batches, noise=lambda batch: None, known=None, scheme="key"):
    """The schemes of a query, batch by batch; what was learned goes through JSON after each."""
    known = known or Experience()
    chosen = []
    for batch in range(batches):
        loads = dict(loads_of_batch(batch))
        known = known.after(seen(loads[scheme], true, noise(batch)), None, PARTITIONS)
        prices = known.known(None, PARTITIONS)
        choice, known = choose(scheme, loads, prices, PARTITIONS, known)
        known = Experience.from_json(json.loads(json.dumps(known.to_json())))
        chosen.append(choice)
        scheme = choice.scheme
    return chosen


def steady(loads):
    return lambda batch: loads


SKEWED = loads_of(keys_of(0.4), mergeable=True)
EVEN = loads_of(keys_of(0.003), mergeable=True)
HEAVY = Prices(row=1e-3, slots=PARTITIONS, fixed=0.3, merge=1e-5, stage=0.2)


def test_heavy_work_on_a_hot_key_is_split_and_the_reason_has_the_figures():
    chosen = query(steady(SKEWED), HEAVY, 6)
    assert chosen[-1].scheme in SPLIT
    assert len({choice.scheme for choice in chosen}) == 1, "the first batch has shown it"
    change = chosen[0].reason
    for figure in ("times its share", "a row costs 1.0 ms", f"{chosen[0].scheme} should take"):
        assert figure in change
    assert ", key 4." in change


def test_the_same_keys_with_cheap_work_stay_where_they_are():
    cheap = replace(HEAVY, row=1e-7)
    assert {choice.scheme for choice in query(steady(SKEWED), cheap, 6)} == {"key"}


def test_work_that_cannot_be_split_gets_a_table_where_several_keys_share_a_partition():
    counts = dict.fromkeys(range(20), 300)
    keys = KeyLoads(KeyCounts(counts, ROWS), 500, PARTITIONS)
    loads = loads_of(keys, mergeable=False)
    assert set(loads) == {"key", "table"}
    assert loads["key"].fullest > 1.3 * ROWS / PARTITIONS > loads["table"].fullest
    assert query(steady(loads), HEAVY, 4)[-1].scheme == "table"


def test_a_merge_that_turns_out_to_be_dear_is_given_up_and_not_tried_again():
    dear = replace(HEAVY, merge=0.02)
    schemes = [choice.scheme for choice in query(steady(SKEWED), dear, 60)]
    assert schemes[0] in SPLIT, "nobody knew"
    back = schemes.index(next(one for one in schemes if one not in SPLIT))
    assert back <= 2
    assert not set(SPLIT) & set(schemes[back:])


def test_a_saving_within_the_margin_never_changes_the_scheme():
    loads = {
        "key": Load(ROWS, 1.12 * ROWS / PARTITIONS),
        "table": Load(ROWS, 1.02 * ROWS / PARTITIONS),
    }
    chosen = query(steady(loads), replace(HEAVY, fixed=0.0), 50)
    assert {choice.scheme for choice in chosen} == {"key"}
    assert "is not worth a change" in chosen[-1].reason


def test_a_small_saving_beyond_the_margin_changes_it_after_some_batches_a_large_one_at_once():
    def first_change(saving):
        loads = {"key": Load(ROWS, ROWS), "table": Load(ROWS, ROWS * (1 - saving))}
        prices = Prices(row=1e-3, slots=PARTITIONS)
        known, scheme, batches = Experience(), "key", 0
        while scheme == "key" and batches < 100:
            (scheme, reason), known = choose("key", loads, prices, PARTITIONS, known)
            batches += 1
            assert scheme == "table" or "not yet for long enough" in reason
        return batches

    assert first_change(0.5) == 1
    assert 2 < first_change(MARGIN + 0.03) < 10


def test_state_that_would_have_to_move_delays_a_change():
    loads = {"key": Load(ROWS, ROWS), "table": Load(ROWS, ROWS * 0.7, moved=100)}
    prices = Prices(row=1e-3, slots=PARTITIONS)
    light, _ = choose("key", loads, prices, PARTITIONS, Experience())
    heavy, known = choose("key", loads, replace(prices, state=1e9), PARTITIONS, Experience())
    assert (light.scheme, heavy.scheme) == ("table", "key")
    batches = 1
    while heavy.scheme == "key":
        heavy, known = choose("key", loads, replace(prices, state=1e9), PARTITIONS, known)
        batches += 1
    assert 50 < batches < 150, (
        "125 seconds of moving, at 1.6 seconds saved per batch beyond the margin"
    )


def test_nobody_changes_a_scheme_for_a_few_milliseconds():
    tiny = {"key": Load(100, 100), "table": Load(100, 13)}
    prices = Prices(row=LEAST / 100, slots=PARTITIONS)
    choice, _ = choose("key", tiny, prices, PARTITIONS, Experience())
    assert choice.scheme == "key"
    assert choose_first(tiny, prices, PARTITIONS).scheme == "key"


def test_a_batch_without_rows_teaches_nothing():
    known = Experience(prices={"row": (1.0,)})
    empty = {"key": Load(0, 0), "table": Load(0, 0)}
    choice, after = choose("key", empty, Prices(0.0, PARTITIONS), PARTITIONS, known)
    assert (choice.scheme, after) == ("key", known)
    assert known.after(seen(Load(0, 0), HEAVY), None, PARTITIONS) is known


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    spread=st.floats(0.0, 0.4),
    hottest=st.sampled_from([0.003, 0.1, 0.2, 0.4]),
    row=st.sampled_from([1e-6, 3e-5, 1e-4, 1e-3]),
)
def test_noise_does_not_make_the_scheme_go_back_and_forth(seed, spread, hottest, row):
    """Tasks take longer by chance, each for itself, and now and then one takes three times as long."""
    loads = loads_of(keys_of(hottest), mergeable=True)
    chance = np.random.default_rng(seed)

    def noise(batch):
        slower = np.exp(np.abs(chance.normal(0, spread, PARTITIONS)))
        slower[chance.integers(PARTITIONS)] *= 3.0 if chance.random() < 0.1 else 1.0
        return slower

    schemes = [one.scheme for one in query(steady(loads), replace(HEAVY, row=row), 60, noise)]
    kinds = ["split" if scheme in SPLIT else scheme for scheme in ["key", *schemes]]
    assert sum(a != b for a, b in pairwise(kinds)) <= 3


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 10_000))
def test_an_even_stream_keeps_key_grouping_whatever_the_noise(seed):
    chance = np.random.default_rng(seed)

    def noise(batch):
        return np.exp(np.abs(chance.normal(0, 0.3, PARTITIONS)))

    schemes = {choice.scheme for choice in query(steady(EVEN), HEAVY, 40, noise)}
    assert schemes == {"key"}


def test_it_changes_its_mind_when_the_keys_change():
    dear = replace(HEAVY, stage=0.5)
    chosen = query(lambda batch: EVEN if batch < 10 or batch > 40 else SKEWED, dear, 80)
    schemes = [choice.scheme for choice in chosen]
    assert schemes[5] == "key"
    assert schemes[20] in SPLIT
    assert schemes[-1] == "key"


def test_a_partition_that_is_slow_for_long_counts_although_its_rows_do_not_say_so():
    """Its keys cost more per row than others."""
    loads = {
        "key": Load(ROWS, ROWS / PARTITIONS),
        "table": Load(ROWS, 1.05 * ROWS / PARTITIONS, in_python=True),
    }
    slow = np.ones(PARTITIONS)
    slow[3] = 2.5
    known = Experience()
    for _ in range(8):
        known = known.after(seen(loads["key"], HEAVY, slow), None, PARTITIONS)
    assert known.slow() > 1.5
    once = Experience()
    for batch in range(8):
        noise = slow if batch == 5 else None
        once = once.after(seen(loads["key"], HEAVY, noise), None, PARTITIONS)
    assert once.slow() == 1.0


def test_what_is_known_survives_a_restart_and_strangers_are_refused():
    known = Experience()
    for scheme in ("key", "d-choices", "d-choices"):
        known = known.after(seen(SKEWED[scheme], HEAVY), None, PARTITIONS)
    plain = json.loads(json.dumps(known.to_json()))
    assert Experience.from_json(plain) == known
    assert Experience.from_json({}) == Experience()
    for broken in ({"prices": {}}, {**plain, "patience": "much"}, {**plain, "saved": {"key": -1}}):
        with pytest.raises(ValueError, match="not what `auto` has learned"):
            Experience.from_json(broken)


def test_prices_are_those_that_were_measured_and_one_disturbed_batch_changes_them_little():
    known = Experience()
    for _ in range(5):
        known = known.after(seen(SKEWED["key"], HEAVY), None, PARTITIONS)
    assert known.known(None, PARTITIONS).row == pytest.approx(HEAVY.row, rel=0.05)
    assert known.known(None, PARTITIONS).fixed == pytest.approx(HEAVY.fixed, rel=0.1)
    disturbed = known.after(seen(SKEWED["key"], HEAVY, np.full(8, 5.0)), None, PARTITIONS)
    assert disturbed.known(None, PARTITIONS).row == pytest.approx(HEAVY.row, rel=0.05)
    known = replace(disturbed, since=0)
    for _ in range(3):
        known = known.after(seen(SKEWED["d-choices"], HEAVY), None, PARTITIONS)
    prices = known.known(None, PARTITIONS)
    assert prices.merge == pytest.approx(HEAVY.merge, rel=0.05)
    assert prices.seconds(SKEWED["d-choices"]) == pytest.approx(
        HEAVY.seconds(SKEWED["d-choices"]), rel=0.1
    )


def test_what_every_batch_takes_is_not_put_down_to_the_scheme_that_came_first():
    """A query that began under a table does not leave it for a `key` that only seems to cost less."""
    counts = dict.fromkeys(range(20), 300)
    loads = loads_of(KeyLoads(KeyCounts(counts, ROWS), 500, PARTITIONS), mergeable=False)
    slow = replace(HEAVY, fixed=3.0)
    chosen = query(steady(loads), slow, 30, scheme="table")
    assert {choice.scheme for choice in chosen} == {"table"}


def test_until_something_was_measured_the_usual_prices_count():
    prices = Experience().known(None, 4)
    assert (prices.row, prices.stage, prices.slots) == (UNKNOWN_ROW, usual_stage(4), 4)
    assert Experience().known(2e-7, 4).row == 2e-7


def test_the_first_batch_is_split_where_unknown_work_has_a_hot_key():
    prices = Experience().known(None, PARTITIONS)
    many = replace(keys_of(0.4), counts=KeyCounts({1: 40_000}, 100_000))
    assert choose_first(loads_of(many, True), prices, PARTITIONS).scheme in SPLIT
    assert choose_first(EVEN, prices, PARTITIONS).scheme == "key"


def test_keys_are_not_looked_at_where_no_keys_could_make_it_pay():
    assert not pays(Experience().known(3e-7, 2))
    assert pays(Experience().known(3e-7, 64))
    assert pays(Experience().known(None, 2))
