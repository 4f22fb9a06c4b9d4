"""Metrics of batches: one object each, compacted; nothing lost whenever it is interrupted."""

import json
import math
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evenflow.model import InputError
from evenflow.state import Checkpoint, metrics
from evenflow.state.metrics import compact_metrics, put_metrics, read_metrics
from evenflow.storage import MemoryStorage, PosixStorage
from evenflow.storage.faults import Crash, Faults, FaultyStorage


@pytest.fixture
def storage():
    storage = MemoryStorage()
    yield storage
    storage.clear()


def batches_of(rows):
    return [row["batch"] for row in rows]


def test_metrics_are_read_by_location_or_storage_oldest_first(tmp_path):
    storage = PosixStorage(str(tmp_path / "evenflow"))
    with pytest.raises(
        InputError, match=r"is not a checkpoint of evenflow.*location that the query"
    ):
        read_metrics(tmp_path / "nowhere")
    Checkpoint.open(tmp_path, {})
    assert read_metrics(tmp_path) == []
    for batch in (2, 0, 1):
        put_metrics(storage, {"batch": batch, "text": "é\n\u2028"})
    assert batches_of(read_metrics(tmp_path)) == [0, 1, 2]
    assert read_metrics(storage) == read_metrics(str(tmp_path))
    assert storage.list("metrics/")[0] == "metrics/0000000000.json"
    compact_metrics(storage)
    assert storage.list("metrics/") == ["metrics/0000000000-0000000002.jsonl"]
    assert [row["text"] for row in read_metrics(tmp_path)] == ["é\n\u2028"] * 3


def test_the_newest_metrics_of_a_batch_count(storage):
    for batch in range(4):
        put_metrics(storage, {"batch": batch, "try": 1})
    compact_metrics(storage)
    put_metrics(storage, {"batch": 3, "try": 2})
    assert [row["try"] for row in read_metrics(storage)] == [1, 1, 1, 2]
    put_metrics(storage, {"batch": 4, "try": 1})
    compact_metrics(storage)
    assert [row["try"] for row in read_metrics(storage)] == [1, 1, 1, 2, 1]


def test_objects_stay_few_and_lines_are_rarely_written_again(storage):
    faults = Faults()
    counted, written = FaultyStorage(storage, faults), 0
    for batch in range(3000):
        put_metrics(counted, {"batch": batch})
        if batch % 16 == 15:
            compact_metrics(counted)
            objects = storage.list("metrics/")
            assert len(objects) <= math.log2(batch + 1) + (batch + 1) / 1024 + 2
            put = [what for what in faults.log if what.startswith("put") and "-" in what]
            written += sum(int(what[-16:-6]) - int(what[-27:-17]) + 1 for what in put)
            faults.log.clear()
    assert batches_of(read_metrics(storage)) == list(range(3000))
    assert written <= 3000 * math.log2(3000)


def test_only_the_newest_are_kept(storage, monkeypatch):
    monkeypatch.setattr(metrics, "KEPT", 100)
    monkeypatch.setattr(metrics, "_MOST_LINES", 32)
    for batch in range(500):
        put_metrics(storage, {"batch": batch})
        if batch % 16 == 15:
            compact_metrics(storage)
        assert batches_of(read_metrics(storage)) == list(range(max(0, batch - 99), batch + 1))
    assert len(storage.list("metrics/")) < 20
    stored = sum(storage.read(name).count(b"batch") for name in storage.list("metrics/"))
    assert stored < 100 + 32 + 16


@settings(max_examples=60, deadline=None)
@given(
    rounds=st.lists(
        st.tuples(st.integers(1, 12), st.booleans(), st.integers(0, 12), st.booleans()),
        min_size=1,
        max_size=12,
    )
)
def test_an_interrupted_compaction_changes_nothing(rounds):
    """The last batch may be put again after each crash, as a driver that starts again does."""
    disk, expected, batch = MemoryStorage(), {}, -1
    for number, (new, again, crash_at, applied) in enumerate(rounds):
        for _ in range(new):
            batch += 1
            expected[batch] = {"batch": batch, "round": number}
            put_metrics(disk, expected[batch])
        with suppress(Crash):
            compact_metrics(FaultyStorage(disk, Faults(crash_at=crash_at, applied=applied)))
        assert read_metrics(disk) == list(expected.values())
        if again:
            expected[batch] = {"batch": batch, "round": -number}
            put_metrics(disk, expected[batch])
            assert read_metrics(disk) == list(expected.values())
    disk.clear()


class Compacting(MemoryStorage):
    """Compacts between the listing and the reading of somebody else."""

    def list(self, prefix):
        names = super().list(prefix)
        compact_metrics(MemoryStorage(self.name))
        return names


def test_a_reader_is_not_disturbed_by_a_compaction(storage):
    for batch in range(10):
        put_metrics(storage, {"batch": batch})
    assert batches_of(read_metrics(Compacting(storage.name))) == list(range(10))


def test_what_is_not_a_line_of_metrics_is_passed_over(storage):
    good = json.dumps({"batch": 1}).encode()
    storage.put("metrics/0000000000-0000000003.jsonl", [good, b'\n{"batch"\n[]\n{"x": 1}\nnull\n'])
    storage.put("metrics/notes.txt", [b"x"])
    storage.put("metrics/0000000004.json", [b""])
    assert read_metrics(storage) == [{"batch": 1}]
    compact_metrics(storage)
    assert read_metrics(storage) == [{"batch": 1}]
