"""The checkpoint: what is committed stays, as a whole, and nothing else counts."""

import os
import threading
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evenflow.model import InputError
from evenflow.model.owners import Owners
from evenflow.state import (
    AlreadyCommitted,
    Checkpoint,
    CheckpointError,
    DamagedState,
    Manifest,
    Segment,
    look_up,
    write_segment,
)
from evenflow.state.manifest import dump, load, seal
from evenflow.state.metrics import read_metrics
from evenflow.state.records import Place
from evenflow.state.verification import verify
from evenflow.storage import MemoryStorage, storage_at
from state_driver import commit_next, expected_state
from state_rows import fingerprints, keys_of, numbered

IDENTITY = {"key": ["page"], "operator": "count", "seed": 0}


@pytest.fixture
def checkpoint(tmp_path):
    return Checkpoint.open(tmp_path, IDENTITY)


# --- identity ------------------------------------------------------------------------------------


def test_what_differs_is_named_and_what_is_stored_stays(tmp_path, checkpoint):
    again = Checkpoint.open(tmp_path, {**IDENTITY, "operator": "sum"})
    assert again.identity == checkpoint.identity
    assert again.differences(IDENTITY) == []
    changed = {"key": ["page"], "operator": "sum", "state": {"n": "long"}}
    assert again.differences(changed) == [
        'operator: "count" in the checkpoint, "sum" now',
        "seed: 0 in the checkpoint, nothing now",
        'state: nothing in the checkpoint, {"n": "long"} now',
    ]
    again.carry_over(changed)
    assert Checkpoint.open(tmp_path).differences(changed) == []


def test_a_directory_that_is_no_checkpoint_is_refused_for_reading(tmp_path):
    with pytest.raises(InputError, match=r"not a checkpoint.*identity\.json"):
        Checkpoint.open(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_batches_without_an_identity_are_not_begun_anew(tmp_path, checkpoint):
    checkpoint.commit(Manifest(batch=0))
    checkpoint.storage.delete("identity.json")
    with pytest.raises(CheckpointError, match="holds committed batches"):
        Checkpoint.open(tmp_path, IDENTITY)


def test_another_format_is_refused(tmp_path, checkpoint):
    checkpoint.commit(Manifest(batch=0, format=3))
    with pytest.raises(InputError, match="format 3"):
        Checkpoint.open(tmp_path).last()


def test_a_field_of_a_later_version_is_refused(checkpoint):
    checkpoint.storage.create(Place(0).name, seal({"format": 2, "batch": 0, "later": 1}))
    with pytest.raises(InputError, match=r"2 with later.*version that wrote it"):
        checkpoint.last()


@pytest.mark.parametrize("left", ["identity.json", "metrics.jsonl"])
def test_a_checkpoint_of_version_0_1_is_refused_in_one_line(tmp_path, left):
    storage = storage_at(tmp_path / "evenflow")
    storage.put(left, [seal({"format": 1, "key": ["page"]})])
    storage.put("manifests/0000000000.json", [seal({"format": 1, "batch": 0, "placements": {}})])
    with pytest.raises(InputError, match=r"was written by evenflow 0\.1") as raised:
        Checkpoint.open(tmp_path, IDENTITY)
    assert "finish it with 0.1 or start with a new checkpoint location" in str(raised.value)
    with pytest.raises(InputError, match=r"was written by evenflow 0\.1"):
        verify(tmp_path)


def test_metrics_of_version_0_1_are_refused(tmp_path):
    storage_at(tmp_path).put("evenflow/metrics.jsonl", [b"{}"])
    with pytest.raises(InputError, match=r"was written by evenflow 0\.1"):
        read_metrics(tmp_path)


# --- commit --------------------------------------------------------------------------------------


def test_a_manifest_survives_its_object():
    segment = write_segment(MemoryStorage(), numbered(range(3), 4), 1, [0, 2])
    manifest = Manifest(
        batch=4,
        run="r",
        plan={"hot": {"7": 3}},
        owners={0: Owners(2).to_json(), 2: Owners(3, 1, {2**64 - 1: 2}).to_json()},
        segments=[segment],
        output=[{"file": "x", "rows": 3}],
        metrics={"seconds": 0.1 + 0.2, "text": "é\u2028\x00"},
    )
    assert load(dump(manifest)) == manifest
    assert manifest.epoch == 2
    assert isinstance(load(dump(manifest)).segments[0], Segment)


def test_a_manifest_that_exists_is_never_changed(checkpoint):
    assert checkpoint.last() is None
    one = Manifest(batch=0, plan={"a": 1})
    checkpoint.commit(one)
    checkpoint.commit(one)
    with pytest.raises(AlreadyCommitted, match="batch 0 is already committed"):
        checkpoint.commit(replace(one, plan={"a": 2}))
    assert checkpoint.last() == one
    assert checkpoint.storage.list("manifests/") == [Place(0).name]


def test_a_batch_that_is_long_gone_is_not_committed_again(checkpoint):
    for batch in range(5):
        checkpoint.commit(Manifest(batch=batch))
    checkpoint.retain(2)
    with pytest.raises(AlreadyCommitted, match="long ago"):
        checkpoint.commit(Manifest(batch=1))
    assert checkpoint.batches() == [3, 4]


def test_of_many_that_commit_at_once_one_succeeds(checkpoint):
    outcomes = []

    def attempt(number):
        try:
            checkpoint.commit(Manifest(batch=0, plan={"number": number}))
            outcomes.append(number)
        except AlreadyCommitted:
            outcomes.append(None)

    threads = [threading.Thread(target=attempt, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    (winner,) = (number for number in outcomes if number is not None)
    assert len(outcomes) == 8
    assert checkpoint.last().plan == {"number": winner}


def test_values_that_json_cannot_hold_are_not_committed(checkpoint):
    with pytest.raises(ValueError, match="JSON"):
        checkpoint.commit(Manifest(batch=0, metrics={"x": float("nan")}))
    assert checkpoint.last() is None


# --- retention and garbage -----------------------------------------------------------------------


def test_old_versions_stay_readable_as_long_as_they_are_kept(tmp_path):
    checkpoint = Checkpoint.open(tmp_path, {"key": ["number"]})
    for _ in range(30):
        commit_next(checkpoint)
    assert len(checkpoint.batches()) <= 4 + 2
    for batch in checkpoint.batches():
        manifest = Checkpoint.open(tmp_path).manifest(batch)
        expected = expected_state(batch)
        state, _ = look_up(
            checkpoint.storage,
            manifest.segments,
            fingerprints(list(expected)),
            keys_of(expected),
        )
        assert state["at"].to_pylist() == list(expected.values())


def test_garbage_is_what_no_kept_manifest_names_and_no_running_batch_writes(checkpoint):
    storage = checkpoint.storage
    old, new, lost, failed, running = (
        write_segment(storage, numbered(range(5), batch), 0, [0]) for batch in (0, 1, 0, 1, 2)
    )
    unfinished = [f"{lost.name}.1234.tmp", f"{running.name}.1234.tmp"]
    for name in [*unfinished, "segments/notes.txt"]:
        Path(storage.where(name)).touch()
    assert checkpoint.collect_garbage() == []  # nothing is committed: everything may be under way
    checkpoint.commit(Manifest(batch=0, segments=[old]))
    checkpoint.commit(Manifest(batch=1, segments=[new]))
    Path(storage.where(f"{Place(1).name}.77.tmp")).touch()
    assert checkpoint.collect_garbage() == sorted(
        [lost.name, failed.name, unfinished[0], f"{Place(1).name}.77.tmp"]
    )
    kept = {old.file, new.file, running.file, f"{running.file}.1234.tmp", "notes.txt"}
    assert set(os.listdir(storage.where("segments"))) == kept
    assert checkpoint.retain(1) == [0]
    assert checkpoint.collect_garbage() == [old.name]
    assert checkpoint.retain(1) == []


def test_nothing_is_collected_while_a_manifest_cannot_be_read(tmp_path, checkpoint):
    old = write_segment(checkpoint.storage, numbered(range(5), 0), 0, [0])
    checkpoint.commit(Manifest(batch=0, segments=[old]))
    checkpoint.commit(Manifest(batch=1))
    checkpoint.storage.put(Place(0).name, [b"{}"])
    with pytest.raises(DamagedState, match=r"0000000000-0000\.json"):
        Checkpoint.open(tmp_path).collect_garbage()
    assert checkpoint.storage.list("segments/") == [old.name]


# --- damage --------------------------------------------------------------------------------------


@settings(max_examples=60)
@given(st.data(), st.integers(1, 255))
def test_a_flipped_byte_in_a_manifest_is_detected(data, xor):
    segment = Segment("00000-0000000001-ab.seg", 0, (0,), 1, 2, 3, 1, 1)
    content = bytearray(
        dump(Manifest(batch=1, plan={"x": 1.5}, segments=[segment], metrics={"a": "é"}))
    )
    content[data.draw(st.integers(0, len(content) - 1))] ^= xor
    with pytest.raises(DamagedState, match="somewhere"):
        load(bytes(content), "somewhere")


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"null", b'{"content": {}}'])
def test_what_is_no_manifest_is_named(tmp_path, checkpoint, content):
    checkpoint.commit(Manifest(batch=0))
    checkpoint.storage.put(Place(0).name, [content])
    with pytest.raises(DamagedState, match=r"0000000000-0000\.json is damaged"):
        Checkpoint.open(tmp_path).last()
