"""Metrics read piece by piece: every batch once, the newest first, whatever is compacted meanwhile."""

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evenflow.model import InputError
from evenflow.state import Checkpoint, metrics_reader
from evenflow.state.checkpoint import FOLDER
from evenflow.state.metrics import compact_metrics, put_metrics, read_metrics
from evenflow.state.metrics_reader import MetricsReader
from evenflow.storage import MemoryStorage, storage_at


@pytest.fixture
def storage():
    storage = MemoryStorage()
    yield storage
    storage.clear()


@settings(max_examples=60)
@given(
    steps=st.lists(
        st.one_of(
            st.tuples(st.just("put"), st.integers(1, 9)),
            st.tuples(st.just("compact"), st.none()),
            st.tuples(st.just("read"), st.integers(0, 12)),
        ),
        max_size=25,
    ),
    piece=st.sampled_from([7, 60, 4 << 20]),
)
def test_every_batch_that_read_metrics_returns_comes_once_whatever_is_compacted(steps, piece):
    storage = MemoryStorage()
    reader, read, batch = MetricsReader(storage), [], 0
    before, metrics_reader._BYTES = metrics_reader._BYTES, piece
    try:
        for what, much in steps:
            if what == "put":
                for _ in range(much):
                    put_metrics(storage, {"batch": batch, "text": "é\u2028" * (batch % 3)})
                    batch += 1
            elif what == "compact":
                compact_metrics(storage)
            else:
                got = [row["batch"] for row in itertools.islice(reader.read(), much)]
                if got and batch - 1 not in read:
                    assert got[0] == batch - 1  # the newest comes first
                read += got
        left = reader.left()
        rest = [row["batch"] for row in reader.read()]
        assert len(rest) == left
        assert sorted(read + rest) == list(range(batch))
        assert list(reader.read()) == []
        assert reader.left() == 0
        if batch:
            assert len(read_metrics(storage)) == batch
    finally:
        metrics_reader._BYTES = before
        storage.clear()


def test_the_newest_come_first_also_while_older_ones_are_not_read(storage):
    for batch in range(20):
        put_metrics(storage, {"batch": batch})
    compact_metrics(storage)
    reader = MetricsReader(storage)
    first = [row["batch"] for row in itertools.islice(reader.read(), 3)]
    assert first == [19, 18, 17]
    put_metrics(storage, {"batch": 20})
    assert [row["batch"] for row in itertools.islice(reader.read(), 3)] == [20, 16, 15]
    assert reader.left() == 15


def test_what_is_not_metrics_is_left_out_and_not_read_again(storage):
    storage.put(
        "metrics/0000000000-0000000003.jsonl", [b'{"batch": 0}\nnonsense\n{"batch":"x"}\n[1]\n']
    )
    storage.put("metrics/0000000004.json", [b"{"])
    storage.put("metrics/notes.txt", [b"hello"])
    reader = MetricsReader(storage)
    assert [row["batch"] for row in reader.read()] == [0]
    assert list(reader.read()) == []


def test_a_location_that_is_not_a_checkpoint_is_refused(tmp_path):
    reader = MetricsReader(storage_at(tmp_path).under(FOLDER))
    with pytest.raises(InputError, match="is not a checkpoint of evenflow"):
        reader.check()
    Checkpoint.open(tmp_path, {})
    reader.check()
