"""Keys of a join that several tasks share: every pair still comes exactly once."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evenflow.engine import splitting
from evenflow.engine.in_process import run_stream
from evenflow.engine.job import Job
from evenflow.engine.joined_rows import JoinedRows
from evenflow.engine.key_parts import part_of, parts_of, spread
from evenflow.engine.output import Tables
from evenflow.engine.splitting import ALL, JoinCost, with_split_keys
from evenflow.model import Plan
from evenflow.model.owners import Owners
from evenflow.model.split_keys import Split, SplitKeys
from evenflow.storage.memory import MemoryStorage
from joined_tables import BOTH, both_table, pairs_of, two_sided
from naive_windows import NaiveJoin


def job_of(within, delay, partitions=3, how="inner"):
    return Job(("k",), BOTH, JoinedRows(two_sided(within, delay, how)), None, partitions)


ROWS = st.tuples(
    st.sampled_from(["a", "a", "a", "b", None]),
    st.one_of(st.none(), st.integers(0, 60)),
    st.integers(0, 2),
    st.integers(0, 1),
)
BATCHES = st.lists(st.lists(ROWS, max_size=14), min_size=2, max_size=7)


@settings(max_examples=25)
@given(
    within=st.integers(0, 40),
    delay=st.integers(0, 40),
    batches=BATCHES,
    partitions=st.lists(st.sampled_from([1, 3, 4]), min_size=3, max_size=3),
)
def test_every_pair_of_a_split_key_comes_exactly_once(within, delay, batches, partitions):
    """In the batch in which its later row arrives, while keys are split, parts are added and their
    number of partitions changes."""
    assert_rows(within, delay, batches, partitions, "inner")


@settings(max_examples=40)
@given(
    within=st.integers(0, 30),
    delay=st.integers(0, 20),
    batches=BATCHES,
    partitions=st.lists(st.sampled_from([1, 3, 4]), min_size=3, max_size=3),
    how=st.sampled_from(["left", "right", "full"]),
)
def test_a_row_without_a_partner_comes_out_once_when_none_can_come(
    within, delay, batches, partitions, how
):
    """In the first batch whose watermark has passed the last moment of a partner, with nulls for it;
    rows with a null key, too; and while keys are split."""
    assert_rows(within, delay, batches, partitions, how)


def assert_rows(within, delay, batches, partitions, how):
    storage, sink, naive = MemoryStorage(), Tables(), NaiveJoin(within, delay, 2)
    kept = {"left": [0], "right": [1], "full": [0, 1], "inner": []}[how]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(splitting, "_LITTLE", 3)
        patch.setattr(splitting, "_MUCH", 0.4)
        for number, rows in enumerate([*batches, [("z", 500, 0, 0), ("z", 500, 0, 1)], [], []]):
            job = job_of(within, delay, partitions[min(number * 3 // len(batches), 2)], how)
            done = list(run_stream(job, storage, [both_table(rows)], sink, first=number))
            pairs, late = naive.batch(rows, kept)
            pairs += naive.unmatched(how)
            assert pairs_of(sink.tables[number]) == Counter(pairs)
            assert [one["late_rows"] for one in done] == [late]


def test_a_key_with_a_third_of_both_sides_leaves_the_fullest_task_below_1_3_times_the_average():
    rng = np.random.default_rng(7)
    job, sink, storage = job_of(20, 10, partitions=8), Tables(), MemoryStorage()
    shares = []
    for number in range(6):
        n = 6000
        hot = rng.random(n) < 0.3
        keys = np.where(hot, "hot", np.char.add("k", rng.integers(0, 2000, n).astype(str)))
        times = rng.integers(number * 400, number * 400 + 400, n)
        rows = list(
            zip(
                keys.tolist(), times.tolist(), range(n), rng.integers(0, 2, n).tolist(), strict=True
            )
        )
        (metrics,) = run_stream(job, storage, [both_table(rows)], sink, first=number)
        shares.append(metrics["max_over_average"])
    assert shares[0] > 2  # before anything was known of the keys
    assert max(shares[2:]) <= 1.3


@given(
    st.lists(st.tuples(st.integers(0, 4), st.booleans()), max_size=40),
    st.lists(st.tuples(st.integers(2, 5), st.booleans()), min_size=1, max_size=3),
)
def test_rows_of_both_sides_meet_in_exactly_one_part(rows, split):
    entries = {i: Split(right, ((parts, 0),)) for i, (parts, right) in enumerate(split)}
    prints = np.array([key for key, _ in rows], np.uint64)
    side = np.array([right for _, right in rows], bool)
    turns = np.zeros(len(entries), np.int64)
    parts, sources = spread(SplitKeys(entries), prints, side, turns)
    places = [set(parts[sources == i].tolist()) for i in range(len(rows))]
    for i, j in np.ndindex(len(rows), len(rows)):
        if side[i] < side[j]:
            assert len(places[i] & places[j]) == (prints[i] == prints[j])
    stand_for = parts_of(SplitKeys(entries), parts)
    assert stand_for.keys.tolist() == prints[sources].tolist()


def test_split_rows_take_turns_key_by_key():
    split = SplitKeys({1: Split(False, ((4, 0),)), 2: Split(True, ((2, 0),))})
    prints = np.array([1, 2] * 8, np.uint64)
    left = np.zeros(16, bool)
    parts, sources = spread(split, prints, left, np.zeros(2, np.int64))
    counts = Counter(parts[prints[sources] == 1].tolist())
    assert sorted(counts.values()) == [2, 2, 2, 2]


def test_the_parts_of_a_key_only_grow_and_know_since_when():
    split = Split(True, ((2, 5),)).grown_to(3, 8).grown_to(2, 9)
    assert split == Split(True, ((2, 5), (3, 8)))
    assert split.born() == [5, 5, 8]


def test_new_parts_are_placed_one_partition_after_the_other():
    plan = with_split_keys(
        Plan("table", 4), {ALL: JoinCost(0, 0, 20_000), 7: JoinCost(9, 10, 8_000)}, 3, 100
    )
    assert plan.split.entries == {7: Split(True, ((4, 3),))}
    parts = part_of(np.full(4, 7, np.uint64), np.arange(4))
    assert sorted(Owners.of(plan)(parts).tolist()) == [0, 1, 2, 3]
    assert Plan.from_dict(plan.to_dict()) == plan


def test_a_plan_with_parts_that_make_no_sense_is_refused():
    plain = with_split_keys(
        Plan("table", 4), {ALL: JoinCost(0, 0, 20_000), 7: JoinCost(9, 10, 8_000)}, 3, 100
    ).to_dict()
    for grown in ([], [[1, 2]], [[3, 2], [2, 5]], [[3]], [["a", 1]]):
        plain["split"]["7"]["grown"] = grown
        with pytest.raises(ValueError, match="grown"):
            Plan.from_dict(plain)


def test_a_join_that_is_small_or_even_is_not_split():
    even = {ALL: JoinCost(0, 0, 80_000), **{i: JoinCost(1, 1, 3000) for i in range(1, 9)}}
    assert not with_split_keys(Plan("table", 8), even, 1, 100).split
    small = {ALL: JoinCost(9, 9, 900), 7: JoinCost(9, 9, 800)}
    assert not with_split_keys(Plan("table", 8), small, 1, 100).split
