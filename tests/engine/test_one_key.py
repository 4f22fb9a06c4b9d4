"""What is kept of one key, for every kind of state."""

import json

import pytest
from typer.testing import CliRunner

import evenflow as ef
from evenflow.cli.app import app
from evenflow.engine.distinct_rows import DistinctRows
from evenflow.engine.in_process import run_stream
from evenflow.engine.job import Job
from evenflow.engine.keyed_states import KeyedStates
from evenflow.engine.one_key import state_of_key
from evenflow.engine.session_states import SessionStates
from evenflow.engine.windowed_states import WindowedStates
from evenflow.grouping import make
from evenflow.model import InputError
from evenflow.operators import Aggregates, Window
from evenflow.operators.deduplication import Deduplication
from evenflow.operators.sessions import Session
from evenflow.storage.memory import MemoryStorage
from naive_windows import ROWS, table_of

COUNT = Aggregates(n=ef.count(), total=ef.sum("v"))
DISTINCT = Deduplication(("k",), ("k", "ts", "v"), "ts", 5, within=True)
WORK = {
    "plain": KeyedStates(COUNT),
    "windows": WindowedStates(COUNT, Window("ts", 10, 5, 5)),
    "sessions": SessionStates(COUNT, Session("ts", 10, delay=5)),
    "deduplication": DistinctRows(DISTINCT),
}
BATCHES = [[("a", 1, 1), ("a", 30, 2), (None, 2, 3), ("ä b", 4, 4)], [("a", 33, 5), ("b", 50, 6)]]


def kept(kind, key, storage=None):
    storage = MemoryStorage() if storage is None else storage
    job = Job(("k",), ROWS, WORK[kind], make("key"), 3)
    for _ in run_stream(job, storage, map(table_of, BATCHES)):
        pass
    return state_of_key(storage, key)


def test_all_rows_of_a_key_are_found_and_nothing_that_has_expired():
    plain = kept("plain", ["a"])
    assert plain["key"] == {"k": "a"}
    assert plain["batch"] == 1
    (row,) = plain["rows"]
    assert row["batch"] == 1
    assert sorted(v for v in row["state"].values() if isinstance(v, int)) == [3, 8]
    assert len(kept("windows", ["a"])["rows"]) == 2
    (session,) = kept("sessions", ["a"])["rows"]
    assert session["expires"] == "1970-01-01T00:00:00.000043+00:00"
    (seen,) = kept("deduplication", ["b"])["rows"]
    assert seen == {"batch": 1, "expires": "1970-01-01T00:00:00.000055+00:00", "state": {}}
    assert kept("deduplication", ["a"])["rows"] == []


def test_keys_of_any_value_and_keys_that_are_not_there():
    assert kept("plain", [None])["rows"][0]["batch"] == 0
    assert kept("plain", ["ä b"])["rows"]
    assert kept("plain", ["never"])["rows"] == []
    with pytest.raises(InputError, match="the key has 1 columns, k; got 2"):
        kept("plain", ["a", "b"])
    with pytest.raises(InputError, match="is not a checkpoint"):
        state_of_key(MemoryStorage(), ["a"])


def test_state_get_prints_it(tmp_path):
    from evenflow.storage import storage_at

    kept("windows", ["a"], storage_at(str(tmp_path / "ckpt")))
    runner = CliRunner()
    shown = runner.invoke(app, ["state", "get", str(tmp_path / "ckpt"), "a"])
    assert shown.exit_code == 0, shown.output
    assert shown.output.startswith("k a: 2 rows of state after batch 1\n  batch 1, expires 1970-")
    plain = runner.invoke(
        app, ["state", "get", str(tmp_path / "ckpt"), "--key-json", "[null]", "--json"]
    )
    assert plain.exit_code == 1
    assert json.loads(plain.output)["rows"] == []
    assert runner.invoke(app, ["state", "get", str(tmp_path / "ckpt"), "never"]).exit_code == 1
