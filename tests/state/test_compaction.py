"""Compaction: nothing is lost, and few segments are left."""

import itertools

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evenflow.state import FINGERPRINT, compact, look_up, newest, read_segment, write_segment
from evenflow.storage import PosixStorage
from state_rows import fingerprints, keys_of, numbered, rows_of

EXAMPLES = settings(max_examples=40)
STATE = pa.schema([("n", pa.int64()), ("at", pa.int64())])


@pytest.fixture
def storage(tmp_path):
    return PosixStorage(str(tmp_path))


@EXAMPLES
@given(
    st.lists(st.lists(st.integers(0, 60), max_size=40, unique=True), max_size=25),
    st.booleans(),
)
def test_compaction_loses_nothing_and_keeps_few_segments(tmp_path_factory, batches, collide):
    storage = PosixStorage(str(tmp_path_factory.mktemp("compaction")))
    model, segments, rows = {}, [], 0
    for version, numbers in enumerate(batches):
        new = numbered(numbers, version)
        if collide:
            new = new.set_column(0, FINGERPRINT, pa.array([n % 3 for n in numbers], pa.int64()))
        table, consumed = compact(storage, segments, new)
        segments = [s for s in segments if s not in consumed]
        segments.append(write_segment(storage, table, 0, [0]))
        rows += len(numbers)
        model |= dict.fromkeys(numbers, version)
        nonempty = [s.rows for s in segments if s.rows]
        assert len(nonempty) <= np.log2(max(rows, 1)) + 1
        assert all(old > 2 * new for old, new in itertools.pairwise(nonempty))
    asked = list(range(62))
    prints = np.array([n % 3 for n in asked], np.uint64) if collide else fingerprints(asked)
    state, _ = look_up(storage, segments, prints, keys_of(asked), STATE)
    assert state["at"].to_pylist() == [model.get(n) for n in asked]
    everything = [read_segment(storage, s) for s in segments]
    if everything:
        kept = newest(pa.concat_tables(everything))
        assert rows_of(kept) == {f"key {n}": (n, at) for n, at in model.items()}


def test_compaction_takes_from_the_newest_while_at_most_twice_as_large(storage):
    sizes = [(1, 1000), (2, 100), (3, 21), (4, 10)]
    segments = [write_segment(storage, numbered(range(n), b), 0, [0]) for b, n in sizes]
    _, consumed = compact(storage, segments, numbered(range(10), 5))
    assert [s.rows for s in consumed] == [10, 21]  # 10 ≤ 2·10, 21 ≤ 2·20, 100 > 2·41
    _, consumed = compact(storage, segments, numbered(range(4), 5))
    assert consumed == []
