"""What is read out of a batch's measurements, and how full partitions would be."""

import numpy as np
import pytest

from evenflow.grouping import make
from evenflow.model import KeyCounts
from evenflow.model.owners import owner_of
from evenflow.planning.batch_costs import Load, Observed, Prices, at_once
from evenflow.planning.key_loads import KeyLoads


def observed(rows, work, calls):
    rows, work, calls = (np.array(one, np.float64) for one in (rows, work, calls))
    load = Load(float(rows.sum()), float(rows.max()))
    return Observed(load, 1.0, rows, work, calls, np.zeros(0), 4.0)


def test_a_row_costs_what_tasks_with_more_of_them_take_longer():
    rows = [100, 200, 700]
    work = [0.5 + 0.001 * n for n in rows]  # half a second whatever the rows
    assert observed(rows, work, [0.0, 0.0, 0.0]).row() == pytest.approx(0.001, rel=0.02)


def test_of_equal_tasks_the_operator_s_own_calls_count_alone():
    found = observed([100] * 4, [0.51, 0.5, 0.49, 0.5], [0.1] * 4)
    assert found.row() == pytest.approx(0.001, rel=0.2)


def test_a_row_never_costs_more_than_all_or_less_than_the_calls():
    assert observed([100, 900], [0.0, 9.0], [0.0, 0.0]).row() <= 9.0 / 1000
    assert observed([100, 900], [1.0, 1.0], [0.1, 0.9]).row() >= 0.001
    assert observed([0, 0], [1.0, 1.0], [0.0, 0.0]).row() == 0.0


def test_tasks_that_wait_for_a_slot_are_not_at_once():
    began = np.array([0.0, 0.1, 1.0, 1.1])
    assert at_once(began, np.full(4, 0.9)) == 2
    assert at_once(np.zeros(0), np.zeros(0)) == 1


def test_more_tasks_than_slots_take_turns():
    prices = Prices(row=0.01, slots=2)
    assert prices.seconds(Load(800, 100)) == pytest.approx(4.0)
    assert prices.seconds(Load(800, 500)) == pytest.approx(5.0)


def zipf(exponent, keys=2000, rows=20_000, partitions=8):
    chance = np.random.default_rng(5)
    shares = np.arange(1, keys + 1) ** -exponent
    prints = chance.integers(1, 2**63, keys).astype(np.uint64)
    drawn = prints[chance.choice(keys, rows, p=shares / shares.sum())]
    known, counts = np.unique(drawn, return_counts=True)
    top = np.argsort(-counts)[:512]
    hot = dict(zip(known[top].tolist(), counts[top].tolist(), strict=True))
    return drawn, KeyLoads(KeyCounts(hot, rows), len(known), partitions)


@pytest.mark.parametrize("partitions", [4, 8, 16])
@pytest.mark.parametrize("exponent", [0.0, 0.8, 1.2, 1.8])
def test_predicted_loads_are_those_of_the_schemes(exponent, partitions):
    drawn, loads = zipf(exponent, partitions=partitions)
    hashed = np.bincount(owner_of(drawn, partitions, 0), minlength=partitions).max()
    assert loads.hashed().fullest == pytest.approx(hashed, rel=0.15)
    for name, choices in (("partial-key", 2), ("d-choices", None)):
        scheme = make(name)
        out = np.empty(len(drawn), np.int32)
        scheme.route(scheme.start(partitions, 0), drawn, out)
        routed = np.bincount(out, minlength=partitions).max()
        predicted = loads.split(choices)
        # The pairs of choices are others: a hot pair may share a partition here and not there.
        assert predicted.fullest == pytest.approx(routed, rel=0.25 if choices else 0.1)
        pairs = len(np.unique(drawn * np.uint64(31) + out.astype(np.uint64)))
        # Light keys avoid a partition with a hot one, so that some have one part instead of two.
        assert 0.8 * pairs <= predicted.parts <= 1.75 * pairs


def test_a_table_is_as_good_as_the_counts_that_it_is_made_from():
    chance = np.random.default_rng(1)
    prints = chance.integers(1, 2**63, 60).astype(np.uint64).tolist()
    old = KeyCounts(dict.fromkeys(prints[:20], 300), 10_000)
    new = KeyCounts(dict.fromkeys(prints[40:], 300), 10_000)
    known = KeyLoads(new, 1000, 8, before=new).planned().fullest
    stale = KeyLoads(new, 1000, 8, before=old).planned().fullest
    by_hash = KeyLoads(new, 1000, 8).hashed().fullest
    assert known < 0.85 * by_hash
    assert stale > 0.95 * by_hash
