"""`evenflow diagnose`: the answer first, JSON, a page, and one line for every mistake."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from evenflow.cli.app import main

LOGS = Path(__file__).parents[1] / "diagnosis" / "logs"


@pytest.fixture
def run(capsys):
    def run(*arguments):
        code = main(["diagnose", *(str(a) for a in arguments)])
        out, err = capsys.readouterr()
        return code, out, err

    return run


def test_the_answer_comes_first_then_numbers_then_code(run):
    code, out, err = run(LOGS / "hot-key-in-a-grouped-function.zstd")
    assert (code, err) == (0, "")
    asked = "Evenflow would help if the work can be merged: a hot key in applyInPandas by page: "
    assert out.startswith(asked)
    assert out.index("would help") < out.index("\nstages\n") < out.index("ef.keyed(df,")


def test_json_has_the_same_answer(run):
    _, text, _ = run(LOGS / "null-keys.zstd")
    code, out, _ = run(LOGS / "null-keys.zstd", "--json")
    found = json.loads(out)
    assert code == 0
    assert found["answer"] == text.splitlines()[0]
    assert found["cause"] == "null keys"


def test_a_page_is_written(run, tmp_path):
    code, _, err = run(LOGS / "spill.zstd", "--page", tmp_path / "p.html")
    assert (code, err) == (0, f"Page: {tmp_path / 'p.html'}\n")
    assert (tmp_path / "p.html").read_text().count("<svg") == 2


def test_keys_of_a_file(run, tmp_path):
    (tmp_path / "c.csv").write_text("page\n" + "home\n" * 80 + "help\nabout\n" * 10)
    code, out, _ = run(tmp_path / "c.csv", "--key", "page", "--partitions", 4)
    assert code == 0
    assert "the hottest key of page, home, has 80.0% of the rows" in out


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["nothing-here"], "there is no 'nothing-here'"),
        (["x", "--page", "p.pdf"], "--page takes the name of an .html file"),
        (["clicks", "--group", "g"], "a consumer group needs bootstrap"),
        (["http://127.0.0.1:9", "--json"], "does not answer as Spark does"),
        (["nothing.csv", "--key", "page"], "there is no file 'nothing.csv'"),
    ],
)
def test_mistakes_are_one_line(run, arguments, reason):
    code, out, err = run(*arguments)
    assert (code, out) == (2, "")
    assert err.startswith("error: ")
    assert err.count("\n") == 1
    assert reason in err
