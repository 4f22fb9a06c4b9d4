"""`evenflow state show` names keys, not fingerprints."""

import re

import pyarrow as pa
import pytest

from evenflow.cli.app import main
from evenflow.engine.checkpoint_keys import named_keys
from evenflow.engine.in_process import run_stream
from evenflow.engine.job import Job
from evenflow.engine.keyed_states import KeyedStates
from evenflow.grouping import make
from evenflow.operators import Aggregates, count
from evenflow.planning.controller import Replanning
from evenflow.state.checkpoint import Checkpoint
from evenflow.storage import PosixStorage

ROWS = pa.schema([("page", pa.string())])
PAGES = ["home"] * 3000 + ["a"] * 2000 + ["b"] * 2000 + [f"p{i % 50}" for i in range(4000)]


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    """Of a query whose keys have moved."""
    folder = str(tmp_path_factory.mktemp("state") / "ckpt")
    job = Job(
        ("page",), ROWS, KeyedStates(Aggregates(n=count())), make("table"), 4, 0, Replanning()
    )
    list(run_stream(job, PosixStorage(folder), iter([pa.table({"page": PAGES}, schema=ROWS)] * 3)))
    return folder


def test_plans_and_hot_keys_are_shown_with_the_keys_names(checkpoint, capsys):
    assert main(["state", "show", checkpoint]) == 0
    out = capsys.readouterr().out
    assert "hot {'home': " in out or 'hot {"home": ' in out
    assert 'key ["home"], lower 3000, upper 3000' in out
    assert not re.search(r"\b\d{15,}\b", out)


def test_every_key_of_the_table_has_its_name(checkpoint):
    plan = Checkpoint.open(PosixStorage(checkpoint)).last().plan
    assert plan["table"]
    names = named_keys(checkpoint, plan["table"])
    assert set(names) == set(plan["table"])
    assert set(names.values()) <= {f'["{page}"]' for page in PAGES}


def test_keys_that_are_not_known_any_more_are_left_out(checkpoint):
    assert named_keys(checkpoint, ["1", "2"]) == {}
    assert named_keys(checkpoint, []) == {}
