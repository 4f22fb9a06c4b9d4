"""The index of keys by moment: what is due is found, and nothing else is read."""

from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenflow.state.due_keys import (
    MOMENT,
    compact_due,
    due_between,
    not_over,
    read_due,
    verify_due,
    write_due,
)
from evenflow.state.errors import DamagedState
from evenflow.state.segments import FINGERPRINT
from evenflow.storage.memory import MemoryStorage

MOMENTS = st.integers(-(1 << 63), (1 << 63) - 1)


def table_of(pairs):
    return pa.table(
        {
            MOMENT: pa.array([moment for moment, _ in pairs], pa.int64()),
            FINGERPRINT: pa.array([key for _, key in pairs], pa.int64()),
            "k0": pa.array([f"key {key}" for _, key in pairs]),
        }
    )


def nobody_moved(prints):
    return np.zeros(len(prints), np.int32)


@given(st.lists(st.tuples(MOMENTS, st.integers(0, 9)), min_size=1), MOMENTS, MOMENTS)
def test_what_lies_between_two_moments_is_found(pairs, first, last):
    storage = MemoryStorage()
    segment = write_due(storage, table_of(pairs), 0, [0], 0)
    found = read_due(storage, segment, first, last)
    got = sorted(zip(found[MOMENT].to_pylist(), found[FINGERPRINT].to_pylist(), strict=True))
    assert got == sorted(pair for pair in pairs if first <= pair[0] <= last)
    verify_due(storage, segment)
    storage.clear()


class Counting(MemoryStorage):
    """Counts the bytes that are read."""

    read_bytes = 0

    def read_ranges(self, name, ranges):
        contents = super().read_ranges(name, ranges)
        type(self).read_bytes += sum(map(len, contents))
        return contents


def test_the_cost_of_a_batch_grows_with_what_is_due_and_not_with_what_waits():
    """Two hundred times as many keys wait: one that is due costs a few blocks, and the footer."""
    costs = []
    for waiting in (1_000, 200_000):
        storage = Counting()
        segment = write_due(storage, table_of([(i, i) for i in range(waiting)]), 0, [0], 0)
        Counting.read_bytes = 0
        found = due_between(storage, [segment], (500, 502), lambda _: True, nobody_moved, 0)
        assert found["k0"].to_pylist() == ["key 500", "key 501", "key 502"]
        costs.append(Counting.read_bytes - segment.footer)
        storage.clear()
    assert costs[1] < 100_000
    assert costs[1] < 4 * costs[0]


def test_a_key_is_found_once_by_its_present_owner():
    storage = MemoryStorage()
    here = write_due(storage, table_of([(5, 1), (5, 2), (6, 1)]), 0, [0], 0)
    there = write_due(storage, table_of([(5, 3), (9, 4)]), 1, [0], 0)

    def owner_of(prints):
        return (prints % 2).astype(np.int32)

    moved = [
        due_between(storage, [here, there], (0, 8), lambda _: False, owner_of, n) for n in (0, 1)
    ]
    assert [sorted(one["k0"].to_pylist()) for one in moved] == [["key 2"], ["key 1", "key 3"]]
    assert due_between(storage, [here, there], (7, 8), lambda _: False, owner_of, 0) is None
    settled = due_between(storage, [there], (0, 8), lambda _: True, nobody_moved, 0)
    assert settled is None


@given(
    st.lists(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 9)), min_size=1), max_size=12)
)
def test_compaction_loses_only_what_is_over(batches):
    storage, segments, expected = MemoryStorage(), [], set()
    for batch, pairs in enumerate(batches):
        pairs = [(moment + batch, key) for moment, key in pairs]
        segments = list(not_over(segments, batch))
        table, consumed = compact_due(storage, segments, table_of(pairs), batch)
        segment = write_due(storage, table, 0, [0], batch)
        segments = [one for one in segments if one not in consumed] + [segment]
        expected = {pair for pair in expected | set(pairs) if pair[0] >= batch}
        found = [read_due(storage, one, batch) for one in segments]
        rows = pa.concat_tables(found)
        got = set(zip(rows[MOMENT].to_pylist(), rows[FINGERPRINT].to_pylist(), strict=True))
        assert got == expected
        sizes = [one.rows for one in sorted(segments, key=lambda one: one.highest_batch)]
        assert all(older > 2 * newer for older, newer in pairwise(sizes))
    storage.clear()


def test_a_changed_byte_is_found():
    storage = MemoryStorage()
    segment = write_due(storage, table_of([(i, i) for i in range(50)]), 0, [0], 0)
    content = bytearray(storage.read(segment.name))
    content[200] ^= 1
    storage.put(segment.name, [bytes(content)])
    with pytest.raises(DamagedState):
        verify_due(storage, segment)
