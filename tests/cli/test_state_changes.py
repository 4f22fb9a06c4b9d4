"""`evenflow state history|diff`: one key's state over time, and what changed between two batches."""

import json

import pyarrow as pa
import pytest

from evenflow.cli.app import main
from evenflow.engine.in_process import run_stream
from evenflow.engine.job import Job
from evenflow.engine.keyed_states import KeyedStates
from evenflow.grouping import make
from evenflow.operators import Aggregates, count, count_distinct
from evenflow.state import Checkpoint
from evenflow.storage import storage_at

SCHEMA = pa.schema([("page", pa.string()), ("user", pa.int64())])


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    path = tmp_path_factory.mktemp("ckpt")
    job = Job(("page", "user"), SCHEMA, KeyedStates(Aggregates(n=count())), make("key"), 3)
    batches = [
        [("home", 1), ("home", 1), (None, 2)],
        [("about", 7)],
        [("home", 1), ("\x1b[31m", 3)],
    ]
    tables = (
        pa.table([list(column) for column in zip(*rows, strict=True)], schema=SCHEMA)
        for rows in batches
    )
    for _ in run_stream(job, storage_at(path), tables):
        pass
    return str(path)


def answer(capsys, *arguments):
    assert main(["state", *arguments, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_history_has_every_change_of_a_key_s_state(checkpoint, capsys):
    found = answer(capsys, "history", checkpoint, '["home", 1]')
    assert [
        (one["batch"], [row["n__count"] for row in one["rows"]]) for one in found["history"]
    ] == [
        (0, [2]),
        (2, [3]),
    ]
    assert found["kept"] == [0, 1, 2]
    found = answer(capsys, "history", checkpoint, '["about", 7]')
    assert [(one["batch"], len(one["rows"])) for one in found["history"]] == [(0, 0), (1, 1)]
    assert answer(capsys, "history", checkpoint, "[null, 2]")["history"][0]["rows"][0]["user"] == 2
    assert main(["state", "history", checkpoint, '["nobody", 1]']) == 0
    assert "no state of" in capsys.readouterr().out
    assert main(["state", "history", checkpoint, '["home", 1]']) == 0
    assert "in batches 0 to 2:" in capsys.readouterr().out


def test_diff_has_what_changed_from_what_to_what(checkpoint, capsys):
    found = answer(capsys, "diff", checkpoint)
    assert (found["from"], found["to"], found["added"], found["changed"]) == (0, 2, 2, 1)
    changed = {one["page"]: (one["before"], one["after"]) for one in found["keys"]}
    assert changed["home"] == ({"n__count": 2}, {"n__count": 3})
    assert changed["about"] == (None, {"n__count": 1})
    assert answer(capsys, "diff", checkpoint, "--from", "1", "--to", "1")["changed"] == 0
    assert len(answer(capsys, "diff", checkpoint, "--limit", "1")["keys"]) == 1
    assert main(["state", "diff", checkpoint, "--limit", "2"]) == 0
    printed = capsys.readouterr().out
    assert "2 keys were added and 1 changed" in printed
    assert "the first 2 of 3" in printed
    assert "\x1b" not in printed


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["history", "{}", "home"], "the key has 2 columns (page, user)"),
        (["history", "{}", '["home", "x"]'], "the key column 'user' is int64"),
        (["history", "{}/nowhere", "x"], "is not a checkpoint of evenflow"),
        (["diff", "{}", "--from", "2", "--to", "1"], "--from 2 is after --to 1"),
        (["diff", "{}", "--from", "9"], "--from 9 is after --to 2"),
        (["diff", "{}", "--to", "9"], "the manifest of batch 9 is not kept"),
        (["diff", "{}", "--limit", "-1"], "--limit"),
    ],
)
def test_a_wrong_question_is_refused_in_one_line(checkpoint, capsys, arguments, reason):
    assert main(["state", *(one.replace("{}", checkpoint) for one in arguments)]) == 2
    said = capsys.readouterr().err
    assert said.startswith("error: ")
    assert reason in said
    assert len(said.splitlines()) == 1


def test_bytes_and_plain_keys_are_shown_too(tmp_path, capsys):
    schema = pa.schema([("k", pa.float64()), ("user", pa.string())])
    work = KeyedStates(Aggregates(n=count_distinct("user")))
    table = pa.table([[float("nan"), 1.5], ["a", "b"]], schema=schema)
    for _ in run_stream(Job(("k",), schema, work, make("key"), 2), storage_at(tmp_path), [table]):
        pass
    for key in ("1.5", "nan"):
        found = answer(capsys, "history", str(tmp_path), key)
        assert len(found["history"][0]["rows"]) == 1
    Checkpoint.open(tmp_path / "new", {"key": {"k": "string"}})
    assert main(["state", "history", str(tmp_path / "new"), "x"]) == 0
    assert "no state of x in the 0 kept batches" in capsys.readouterr().out
