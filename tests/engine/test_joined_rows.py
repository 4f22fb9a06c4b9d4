"""Interval joins: every pair exactly once, and the rows that are kept for it."""

from collections import Counter

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import evenflow as ef
from evenflow.engine.job import Job
from evenflow.engine.joined_rows import JoinedRows
from evenflow.operators import IntervalJoin
from evenflow.operators.pairing import pairs_across, pairs_within
from evenflow.storage.memory import MemoryStorage
from joined_tables import BOTH, both_table, pairs_of, two_sided
from naive_windows import ROWS, NaiveJoin, table_of, tables
from windowed_run import LocalRun

SELF = IntervalJoin(
    ("ts", "ts"),
    5,
    (("ts", "left_ts"), ("v", "left_v")),
    (("ts", "right_ts"), ("v", "right_v")),
)


def one_sided(within, delay):
    return IntervalJoin(SELF.times, within, SELF.left, SELF.right, None, delay)


join_rows = st.tuples(
    st.sampled_from(["a", "b", None]),
    st.one_of(st.none(), st.integers(0, 60)),
    st.integers(0, 2),
    st.integers(0, 1),
)


@settings(max_examples=60)
@given(
    within=st.integers(0, 20),
    delay=st.integers(0, 20),
    sides=st.integers(1, 2),
    batches=st.lists(st.lists(join_rows, max_size=12), min_size=1, max_size=6),
    workers=st.lists(st.sampled_from([1, 2, 3, 3, 3]), min_size=6, max_size=6),
    tables=tables,
    tries=st.integers(1, 2),
)
def test_every_pair_comes_exactly_once(within, delay, sides, batches, workers, tables, tries):
    """In the batch in which its later row arrives, unless that row is late; also if the number of
    workers changes, keys move, and batches are run again."""
    join = (two_sided if sides == 2 else one_sided)(within, delay)
    job = Job(("k",), BOTH if sides == 2 else ROWS, JoinedRows(join), None, 3)
    run = LocalRun(job, MemoryStorage())
    naive = NaiveJoin(within, delay, sides)
    for batch, n, homes in zip(batches, workers, tables, strict=False):
        batch = [(*row[:3], row[3] if sides == 2 else 0) for row in batch]
        table = both_table(batch) if sides == 2 else table_of(batch)
        found, metrics = run.batch(table, n, tries=tries, table=homes)
        pairs, late = naive.batch(batch)
        assert pairs_of(found) == Counter(pairs)
        assert metrics["late_rows"] == late
        assert metrics["pairs"] == len(pairs)
        kept = [s for s in run.segments if naive.over is not None and s.expires[1] <= naive.over]
        assert not kept


def test_the_state_of_a_join_is_the_rows_that_may_still_find_a_partner():
    run = LocalRun(Job(("k",), ROWS, JoinedRows(one_sided(5, 2)), None, 2), MemoryStorage())
    sizes = []
    for batch in range(40):
        _, metrics = run.batch(table_of([("a", 10 * batch + i, i) for i in range(10)]), 2)
        sizes.append(metrics["state_rows"])
    assert max(sizes) <= 40
    assert max(sizes[20:]) <= max(sizes[:20])


@given(
    rows=st.lists(st.tuples(st.integers(0, 2), st.integers(0, 15), st.booleans(), st.booleans())),
    within=st.integers(0, 20),
    block=st.integers(1, 7),
)
def test_pairing_is_trying_all_pairs(rows, within, block):
    group, times, fresh, right = (np.array([row[i] for row in rows], int) for i in range(4))
    fresh, right = fresh.astype(bool), right.astype(bool)
    fits = [
        (i, j)
        for i in range(len(rows))
        for j in range(len(rows))
        if group[i] == group[j] and abs(times[i] - times[j]) <= within and (fresh[i] or fresh[j])
    ]
    across = list(pairs_across(group, times, within, fresh, right, block))
    found = [pair for lefts, rights in across for pair in zip(lefts, rights, strict=True)]
    assert sorted(found) == [(i, j) for i, j in fits if not right[i] and right[j]]
    assert all(len(lefts) <= block for lefts, _ in across)
    own = [
        pair
        for lefts, rights in pairs_within(group, times, within, fresh, lambda rows: rows, block)
        for pair in zip(lefts, rights, strict=True)
    ]
    assert sorted(own) == [(i, j) for i, j in fits if (times[i], i) < (times[j], j)]


def test_which_row_is_on_the_left_does_not_depend_on_which_came_first():
    tie = [("a", 7, 2), ("a", 7, 1)]
    for batches in [[tie], [tie[::-1]], [tie[:1], tie[1:]], [tie[1:], tie[:1]]]:
        run = LocalRun(Job(("k",), ROWS, JoinedRows(SELF), None, 1), MemoryStorage())
        found = [pair for batch in batches for pair in pairs_of(run.batch(table_of(batch), 1)[0])]
        assert found == [("a", 7, 1, 7, 2)]


def test_a_join_may_ask_more_of_its_pairs():
    join = IntervalJoin(
        SELF.times,
        5,
        SELF.left,
        SELF.right,
        where=lambda p: pa.compute.less(p["left_v"], p["right_v"]),
    )
    table = table_of(
        [("a", 1, 5), ("a", 2, 7), ("a", 3, 6), ("b", 1, 0), (None, 1, 1), (None, 1, 2)]
    )
    found = pairs_of(join.on_table(table, "k"))
    assert set(found) == {("a", 1, 5, 2, 7), ("a", 1, 5, 3, 6)}
    for wrong in (lambda p: [True], lambda p: p["left_v"], lambda p: np.ones(1, bool)):
        broken = IntervalJoin(SELF.times, 5, SELF.left, SELF.right, where=wrong)
        with pytest.raises(ef.InputError, match="one boolean for each"):
            broken.on_table(table, "k")


def test_joins_that_make_no_sense_are_refused():
    with pytest.raises(ef.InputError, match="not be negative"):
        IntervalJoin(SELF.times, -1, SELF.left, SELF.right)
    with pytest.raises(ef.InputError, match=r"two columns 'left_ts'.*prefixes"):
        IntervalJoin(SELF.times, 1, SELF.left, SELF.left)
    with pytest.raises(ef.InputError, match="where must be a function"):
        IntervalJoin(SELF.times, 1, SELF.left, SELF.right, where="left_v < right_v")
    assert not JoinedRows(SELF).mergeable
    assert one_sided(5, 1).signature() == one_sided(5, 9).signature()
    assert one_sided(5, 1).signature() != one_sided(6, 1).signature()
