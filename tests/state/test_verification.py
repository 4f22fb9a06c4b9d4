"""`evenflow state show|verify`: every damaged file of a checkpoint is named."""

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evenflow.cli.app import main
from evenflow.model.owners import Owners
from evenflow.state import Checkpoint, DamagedState, Manifest, write_segment
from evenflow.state.manifest import load
from evenflow.state.verification import contents, verify
from evenflow.storage import storage_at
from state_driver import WORKERS, commit_next, expected_state
from state_rows import fingerprints, numbered


@pytest.fixture
def checkpoint(tmp_path):
    return Checkpoint.open(tmp_path, {"key": ["page"]})


@settings(max_examples=60)
@given(data=st.data(), xor=st.integers(1, 255))
def test_verify_names_every_file_with_a_flipped_byte(small_checkpoint, data, xor):
    files = sorted(
        file for file in small_checkpoint.rglob("*") if file.is_file() and file.name != "lock"
    )
    hurt = data.draw(st.lists(st.sampled_from(files), min_size=1, max_size=3, unique=True))
    before = {file: file.read_bytes() for file in hurt}
    try:
        for file in hurt:
            content = bytearray(before[file])
            content[data.draw(st.integers(0, len(content) - 1))] ^= xor
            file.write_bytes(content)
        found = verify(small_checkpoint)
        manifests = [file for file in hurt if file.parent.name == "manifests"]
        # A segment that only damaged manifests name cannot be known to be one.
        known = {
            segment.file
            for file in files
            if file.parent.name == "manifests" and file not in manifests
            for segment in load(file.read_bytes()).segments
        }
        expected = {f for f in hurt if f.suffix != ".seg" or f.name in known}
        assert set(found.problems) >= {str(file) for file in expected}
        assert not found.intact or not expected
    finally:
        for file, content in before.items():
            file.write_bytes(content)


@pytest.fixture(scope="module")
def small_checkpoint(tmp_path_factory):
    path = tmp_path_factory.mktemp("small")
    checkpoint = Checkpoint.open(path, {"key": ["number"]})
    for _ in range(6):
        commit_next(checkpoint)
    return path


@pytest.mark.parametrize("how", ["missing", "empty", "cut", "swapped"])
def test_verify_names_a_segment_that_is_not_what_it_was(tmp_path, how):
    checkpoint = Checkpoint.open(tmp_path, {"key": ["number"]})
    for _ in range(3):
        commit_next(checkpoint)
    one, two = checkpoint.last().segments[:2]
    file = Path(checkpoint.storage.where(one.name))
    content = file.read_bytes()
    if how == "missing":
        file.unlink()
    else:
        other = checkpoint.storage.read(two.name)
        file.write_bytes({"empty": b"", "cut": content[:-1], "swapped": other}[how])
    assert list(verify(tmp_path).problems) == [str(file)]


def test_manifests_that_were_swapped_are_found_by_whoever_reads_them(tmp_path):
    checkpoint = Checkpoint.open(tmp_path, {"key": ["number"]})
    for _ in range(3):
        commit_next(checkpoint)
    one, two = (Path(checkpoint.storage.where(place.name)) for place in checkpoint.places()[-2:])
    one.write_bytes(two.read_bytes())
    assert list(verify(tmp_path).problems) == [str(one)]
    older = one.with_name("0000000000-0000.json").read_bytes()
    two.write_bytes(older)
    assert list(verify(tmp_path).problems) == [str(one), str(two)]
    with pytest.raises(DamagedState, match="it is the manifest of batch 0, not of batch 2"):
        Checkpoint.open(tmp_path).last()


def test_verify_finds_a_manifest_that_is_missing(tmp_path):
    checkpoint = Checkpoint.open(tmp_path, {"key": ["number"]})
    for _ in range(3):
        commit_next(checkpoint)
    file = Path(checkpoint.storage.where(checkpoint.places()[1].name))
    file.unlink()
    assert list(verify(tmp_path).problems) == [str(file)]


SPARK_S_PART = {
    "whole": ({}, []),
    "other rows": ({"offsets/2": "v1\n{}\n9"}, ["offsets/2"]),
    "lost tail": ({"offsets/2": None}, ["offsets/2"]),
    "another query's": ({"metadata": '{"id":"other"}'}, ["metadata"]),
    "no JSON": ({"metadata": "?"}, ["metadata"]),
    "gone": (dict.fromkeys(["metadata", *(f"offsets/{n}" for n in range(3))]), ["metadata"]),
    "purged": ({"offsets/0": None}, []),
}


@pytest.mark.parametrize(("changes", "found"), SPARK_S_PART.values(), ids=list(SPARK_S_PART))
def test_verify_looks_at_sparks_part(tmp_path, changes, found):
    checkpoint, spark = (
        Checkpoint.open(tmp_path, {"key": ["number"]}),
        storage_at(tmp_path / "spark"),
    )
    spark.put("metadata", [b'{"id":"q"}'])
    for batch in range(3):
        spark.put(f"offsets/{batch}", [f"v1\n{{}}\n{batch}".encode()])
        commit_next(checkpoint, source={"query": "q", "offsets": f"v1\n{{}}\n{batch}"})
    for name, content in changes.items():
        spark.delete(name) if content is None else spark.put(name, [content.encode()])
    problems = verify(tmp_path).problems
    assert list(problems)[:1] == [spark.where(name) for name in found]
    assert all("restore" in what for what in problems.values())


def segment_of(checkpoint, numbers, owner, **changes):
    segment = write_segment(checkpoint.storage, numbered(numbers, 3), owner, [0])
    return replace(segment, **changes)


@pytest.mark.parametrize(
    ("owner", "changes", "message"),
    [
        (1, {}, "belong to another owner"),
        (0, {"rows": 7}, "instead of 7"),
        (0, {"lowest_batch": 0, "highest_batch": 2}, "other batches"),
        (0, {"epochs": (0, 4)}, "epochs \\[4\\]"),
    ],
)
def test_verify_checks_what_the_manifest_says_of_a_segment(checkpoint, owner, changes, message):
    numbers = [n for n in range(50) if Owners(WORKERS)(fingerprints([n]))[0] == 0]
    segment = segment_of(checkpoint, numbers, owner, **changes)
    places = {0: Owners(WORKERS).to_json()}
    checkpoint.commit(Manifest(batch=3, owners=places, segments=[segment]))
    (what,) = verify(checkpoint.location).problems.values()
    assert re.search(message, what)


def test_verify_finds_a_segment_that_has_grown(tmp_path):
    checkpoint = Checkpoint.open(tmp_path, {"key": ["number"]})
    commit_next(checkpoint)
    name = checkpoint.last().segments[0].name
    checkpoint.storage.put(name, [checkpoint.storage.read(name), b"x"])
    (what,) = verify(tmp_path).problems.values()
    assert re.search(r"it has \d+ bytes instead of", what)


def test_verify_finds_a_key_that_is_there_twice(checkpoint):
    segment = segment_of(checkpoint, [1, 1], 0)
    places = {0: Owners(1).to_json()}
    checkpoint.commit(Manifest(batch=3, owners=places, segments=[segment]))
    (what,) = verify(checkpoint.location).problems.values()
    assert "two rows for one key" in what


# --- the command ---------------------------------------------------------------------------------


@pytest.fixture
def run(capsys):
    def run(*arguments):
        code = main(["state", *map(str, arguments)])
        out, err = capsys.readouterr()
        return code, out, err

    return run


def test_show_says_what_is_in_a_checkpoint(run, small_checkpoint):
    code, out, err = run("show", small_checkpoint, "--json")
    shown = json.loads(out)
    assert (code, err) == (0, "")
    assert shown == contents(small_checkpoint)
    assert shown["batches"]["last"] == 5
    assert shown["keys"] == len(expected_state(5))
    assert shown["rows"] == sum(owner["rows"] for owner in shown["owners"]) >= shown["keys"]
    assert [owner["owner"] for owner in shown["owners"]] == [0, 1]
    assert shown["plan"] == {"scheme": "key"}
    code, out, _ = run("show", small_checkpoint)
    assert code == 0
    assert "batch 5 is committed" in out
    assert f"{shown['keys']} keys" in out


def test_show_before_the_first_batch(run, tmp_path, checkpoint):
    assert json.loads(run("show", tmp_path, "--json")[1])["keys"] == 0
    assert "no batch" in run("show", tmp_path)[1]


def test_show_lists_hot_keys(run, tmp_path, checkpoint):
    hot = [{"key": '["\u001b[31mx"]', "lower": 3, "upper": 5}]
    checkpoint.commit(Manifest(batch=0, metrics={"hot_keys": hot}))
    assert json.loads(run("show", tmp_path, "--json")[1])["hot_keys"] == hot
    out = run("show", tmp_path)[1]
    assert "lower 3, upper 5" in out
    assert "\x1b" not in out


def test_verify_exits_with_0_if_all_is_well_and_1_if_not(run, tmp_path):
    checkpoint = Checkpoint.open(tmp_path, {"key": ["number"]})
    commit_next(checkpoint)
    code, out, err = run("verify", tmp_path)
    assert (code, err) == (0, "")
    assert "all is well" in out
    assert json.loads(run("verify", tmp_path, "--json")[1])["intact"] is True
    file = Path(checkpoint.storage.where(checkpoint.last().segments[0].name))
    file.write_bytes(file.read_bytes()[:-1])
    code, out, err = run("verify", tmp_path)
    assert code == 1
    assert str(file) in err
    assert "1 damaged" in out
    code, out, _ = run("verify", tmp_path, "--json")
    assert code == 1
    assert [problem["file"] for problem in json.loads(out)["problems"]] == [str(file)]
    code, _, err = run("show", tmp_path)
    assert code == 2
    assert err.count("\n") == 1


@pytest.mark.parametrize("command", ["show", "verify"])
def test_what_is_no_checkpoint_is_refused_in_one_line(run, tmp_path, command):
    code, out, err = run(command, tmp_path / "nowhere")
    assert (code, out) == (2, "")
    assert "is not a checkpoint" in err
    assert err.count("\n") == 1
