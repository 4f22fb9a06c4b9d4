"""`evenflow reproduce`: tables, pictures, ledgers and pages; interrupted runs that go on."""

import csv
import json
import os
import signal
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import evenflow
from evenflow.cli.app import main

ROOT = Path(evenflow.__file__).resolve().parents[2]
pytestmark = pytest.mark.slow

COMMAND = "import sys; from evenflow.cli.app import main; sys.exit(main())"

PAPER = """
title = "A tiny paper"
note = "For tests."

[[figure]]
id = "fig1"
title = "Skew"
shows = "Imbalance and skew."
schemes = ["key", "partial-key"]
workload = { name = "zipf", messages = 90_000, keys = 500 }
grid = { zipf = [0.5, 1.4], workers = [5, 10] }
quick = { workload = { messages = 45_000 }, grid = { workers = [5] } }
plot = { x = "zipf", y = "imbalance", panels = ["workers"], log_y = true }

[[figure]]
id = "fig2"
title = "A formula"
kind = "analysis"
function = "half"
grid = { number = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10] }
plot = { x = "number", y = "value", series = "which" }
"""
CLAIMS = """
from evenflow_lab.experiments.claims import Verdict, claim


@claim("better", "§1", figures=["fig1"], says="PKG is more even than KG.")
def better(rows):
    assert {row["grouping"] for row in rows["fig1"]} == {"key", "partial-key"}
    worst = {g: max(r["imbalance"] for r in rows["fig1"] if r["grouping"] == g)
             for g in ("key", "partial-key")}
    return Verdict(worst["partial-key"] < worst["key"], str(worst))

@claim("wrong", "§2", figures=["fig2"], says="A half is more than the whole.")
def wrong(rows):
    return Verdict(all(r["value"] > r["number"] for r in rows["fig2"]), "0.5 is less than 1",
                   "arithmetic")
"""
ANALYSIS = """
import os, time
from pathlib import Path

def half(number):
    log = os.environ.get("TEST_LOG")
    if log:
        Path(log, f"began-{number}-{os.getpid()}-{time.monotonic_ns()}").touch()
        time.sleep(float(os.environ["TEST_SECONDS"]))
    return {"which": "half", "value": number / 2}
"""
SCHEME = """
from dataclasses import dataclass
from typing import ClassVar
import numpy as np
from evenflow.grouping.key import KeyGrouping
from evenflow.kernels.jit import kernel

@dataclass(frozen=True)
class LastDigit(KeyGrouping):
    name: ClassVar[str] = "last-digit"
    symbol: ClassVar[str] = "LD"
    def route(self, state, keys, out):
        _route(np.uint64(len(state.ids)), keys, out)

@kernel
def _route(n, keys, out):
    for i in range(len(keys)):
        out[i] = keys[i] % n
"""


@pytest.fixture
def papers(tmp_path, monkeypatch):
    folder = tmp_path / "papers" / "tiny"
    folder.mkdir(parents=True)
    (folder / "paper.toml").write_text(PAPER, encoding="utf-8")
    (folder / "claims.py").write_text(CLAIMS, encoding="utf-8")
    (folder / "analysis.py").write_text(ANALYSIS, encoding="utf-8")
    monkeypatch.setenv("EVENFLOW_PAPERS", str(tmp_path / "papers"))
    return folder


@pytest.fixture
def run(papers, capsys, tmp_path):
    def run(*arguments):
        options = ["--out", tmp_path / "out", "--jobs", 1]
        code = main(["reproduce", *map(str, [*arguments, *options])])
        out, err = capsys.readouterr()
        return code, out, err

    return run


def table(path):
    with open(path, newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


# --- what is written -----------------------------------------------------------------------------


def test_a_paper_is_reproduced(run, tmp_path):
    code, out, _ = run("tiny", "--json")
    assert code == 0  # although a claim does not hold: that is a finding
    summary = json.loads(out)
    assert summary["mode"] == "quick"
    (paper,) = summary["papers"]
    assert [(f["figure"], f["cells"]) for f in paper["figures"]] == [("fig1", 4), ("fig2", 10)]
    assert [(e["id"], e["held"]) for e in paper["ledger"]] == [("better", True), ("wrong", False)]
    folder = tmp_path / "out" / "tiny"
    for figure in paper["figures"]:
        assert Path(figure["csv"]) == folder / f"{figure['figure']}.csv"
        assert Path(figure["picture"]).read_bytes().startswith(b"\x89PNG")
        assert figure["seconds"] > 0
    rows = table(folder / "fig1.csv")
    assert {(r["grouping"], r["zipf"], r["workers"]) for r in rows} == {
        (g, z, "5") for g in ("key", "partial-key") for z in ("0.5", "1.4")
    }
    for row in rows:
        assert float(row["imbalance"]) >= 0
        assert float(row["worst_window"]) >= 1
        assert int(row["replicas"]) >= 400
        assert row["messages"] == "45000"
    page = Path(paper["page"]).read_text(encoding="utf-8")
    assert Path(paper["page"]) == folder / "index.html"
    assert "A tiny paper" in page
    assert json.loads((folder / "ledger.json").read_text())[1]["why"] == "arithmetic"
    assert "evenflow reproduce tiny/fig2 --quick" in (folder / "ledger.md").read_text()


def test_a_summary_of_all_papers_is_put_into_a_page(run, tmp_path):
    page = tmp_path / "page.md"
    page.write_text("Before.\n\n<!-- verdicts -->\n<!-- end -->\n\nAfter.\n", encoding="utf-8")
    assert run("tiny", "--summary", page)[0] == 0
    text = page.read_text(encoding="utf-8")
    assert "| A tiny paper (`tiny`) | quick | 1 | 1 |  |  |  |  |  | 1 |" in text
    assert "| `tiny` | `wrong` | §2 | not known |  |" in text
    assert text.endswith("After.\n")
    page.write_text("No place.", encoding="utf-8")
    code, _, err = run("tiny", "--summary", page)
    assert code != 0
    assert "has no place for the verdicts" in err


def test_full_has_the_papers_numbers(run, tmp_path):
    assert run("tiny/fig1", "--full")[0] == 0
    rows = table(tmp_path / "out" / "tiny" / "fig1.csv")
    assert {(r["workers"], r["messages"]) for r in rows} == {("5", "90000"), ("10", "90000")}


def test_one_figure_alone_has_its_own_claims_alone(run, tmp_path):
    code, out, err = run("tiny/fig2")
    assert code == 0
    assert "wrong" in out
    assert "not held" in out
    assert "better" not in out
    assert "10 of 10 runs" in err
    assert not (tmp_path / "out" / "tiny" / "fig1.csv").exists()


def test_a_second_run_takes_what_is_there(run, tmp_path, monkeypatch):
    monkeypatch.setenv("TEST_LOG", str(tmp_path))
    monkeypatch.setenv("TEST_SECONDS", "0")
    for arguments, ran in [(["tiny"], 10), (["tiny/fig2"], 10), (["tiny/fig2", "--fresh"], 20)]:
        code, out, _ = run(*arguments, "--json")
        assert code == 0
        assert len(list(tmp_path.glob("began-*"))) == ran
        assert json.loads(out)["papers"][0]["figures"][-1]["cells"] == 10


# --- the user's own ------------------------------------------------------------------------------


def test_own_scheme_and_own_data_in_one_picture(run, tmp_path):
    (tmp_path / "mine.py").write_text(SCHEME)
    pq.write_table(pa.table({"k": [f"key{i % 97}" for i in range(30_000)]}), tmp_path / "x.parquet")
    code, out, _ = run(
        "tiny/fig1", "--full", "--scheme", tmp_path / "mine.py",
        "--input", tmp_path / "x.parquet", "--key", "k", "--json",
    )  # fmt: skip
    assert code == 0
    (paper,) = json.loads(out)["papers"]
    rows = table(paper["figures"][0]["csv"])
    assert sorted((r["grouping"], r["workers"]) for r in rows) == [
        (g, n) for g in ("key", "last-digit", "partial-key") for n in ("10", "5")
    ]
    assert {(r["workload_name"], r["messages"], r["distinct_keys"]) for r in rows} == {
        ("file", "30000", "97")
    }
    assert {r["symbol"] for r in rows} == {"KG", "PKG", "LD"}
    assert paper["ledger"] == []  # the claims are about the paper's streams


def test_own_scheme_stands_beside_the_papers_and_claims_do_not_see_it(run, tmp_path):
    (tmp_path / "mine.py").write_text(SCHEME)
    code, out, _ = run("tiny", "--scheme", tmp_path / "mine.py", "--json")
    assert code == 0
    (paper,) = json.loads(out)["papers"]
    assert [f["cells"] for f in paper["figures"]] == [6, 10]
    assert [e["id"] for e in paper["ledger"]] == ["better", "wrong"]


def test_formulas_are_left_out_on_own_data(run, tmp_path):
    (tmp_path / "x.csv").write_text("k\n" + "a\nb\n" * 500)
    code, out, err = run("tiny", "--input", tmp_path / "x.csv", "--key", "k", "--json")
    assert code == 0
    assert [f["figure"] for f in json.loads(out)["papers"][0]["figures"]] == ["fig1"]
    assert "left out: tiny/fig2 is a formula" in err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["tini"], "no paper is called 'tini'; did you mean 'tiny'?"),
        (["tiny/fig7"], "'tiny' has no figure 'fig7'; it has fig1, fig2"),
        (["tiny", "--key", "k"], "give the file with --input"),
        (["tiny", "--input", "x.csv"], "needs --key"),
        (["tiny", "--input", "nowhere.csv", "--key", "k"], "nowhere.csv"),
        (["tiny", "--master", "local[2]"], "add --on spark"),
        (["tiny", "--on", "moon"], "--on"),
        (["tiny", "--scheme", "nowhere.py"], "a Python file (.py) is needed"),
        (["tiny/fig2", "--scheme", "{mine}"], "none of those chosen is one"),
        (["tiny/fig1", "--scheme", "{mine}", "--scheme", "{mine}"], "rename one"),
        (["tiny/fig2", "--input", "{data}", "--key", "k"], "choose another figure for --input"),
    ],
)
def test_mistakes_are_reported_in_one_line(run, tmp_path, arguments, message):
    (tmp_path / "mine.py").write_text(SCHEME)
    (tmp_path / "x.csv").write_text("k\na\n")
    filled = [a.format(mine=tmp_path / "mine.py", data=tmp_path / "x.csv") for a in arguments]
    code, out, err = run(*filled)
    assert (code, out) == (2, "")
    assert err.count("\n") == 1
    assert message in err


def test_a_mistake_in_a_paper_is_reported_in_one_line(run, papers):
    (papers / "paper.toml").write_text(PAPER.replace('"partial-key"', '"partial-kee"'))
    code, _, err = run("tiny")
    assert code == 2
    assert "partial-kee on zipf, 5 workers: no grouping scheme" in err
    (papers / "paper.toml").write_text(PAPER.replace("plot = {", "plod = {", 1))
    code, _, err = run("tiny")
    assert code == 2
    assert "paper.toml: figure 'fig1': field 'plot' is missing" in err


# --- real processes, real signals ----------------------------------------------------------------


class Started:
    """The command in a process group of its own, on analysis cells that take `seconds` each."""

    def __init__(self, tmp_path, seconds):
        self.log, self.out = tmp_path / "log", tmp_path / "out"
        self.log.mkdir(exist_ok=True)
        environment = {**os.environ, "TEST_LOG": str(self.log), "TEST_SECONDS": str(seconds)}
        command = ["reproduce", "tiny/fig2", "--jobs", "2", "--json", "--out", str(self.out)]
        self.process = subprocess.Popen(
            [sys.executable, "-c", COMMAND, *command],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def began(self):
        """(number of the cell, process) of every cell that has begun."""
        names = [path.name.split("-") for path in self.log.glob("began-*")]
        return [(int(name[1]), int(name[2])) for name in names]

    def kept(self):
        files = (self.out / "cells").glob("*.json") if self.out.exists() else ()
        return {json.loads(path.read_text())["cell"]["parameters"]["number"] for path in files}

    def wait_until(self, reached):
        deadline = time.monotonic() + 60
        while not reached():
            assert self.process.poll() is None, self.process.communicate()
            assert time.monotonic() < deadline
            time.sleep(0.02)


def alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def wait_for_the_end_of(pids):
    deadline = time.monotonic() + 30
    while any(alive(pid) for pid in pids):
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="looks processes up in /proc")
def test_a_killed_run_loses_at_most_the_cells_under_way(papers, tmp_path):
    first = Started(tmp_path, seconds=0.3)
    first.wait_until(lambda: len(first.kept()) >= 3)
    first.process.send_signal(signal.SIGKILL)
    first.process.communicate()
    wait_for_the_end_of({pid for _, pid in first.began()})  # the workers end with it

    kept, began = first.kept(), first.began()
    # Two workers: each has one cell under way, and may have handed over one row that the killed
    # process had not written yet.
    assert len(began) <= len(kept) + 4
    second = Started(tmp_path, seconds=0)
    out, err = second.process.communicate(timeout=60)
    assert second.process.returncode == 0, err
    again = [number for number, _ in second.began()[:]]
    assert all(again.count(number) == 1 for number in kept)
    assert len(again) == len(began) + 10 - len(kept)
    (figure,) = json.loads(out)["papers"][0]["figures"]
    assert [row["value"] for row in table(figure["csv"])] == [str(n / 2) for n in range(1, 11)]


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="looks processes up in /proc")
def test_ctrl_c_ends_the_run_at_once(papers, tmp_path):
    started = Started(tmp_path, seconds=600)
    started.wait_until(lambda: len(started.began()) == 2)
    os.killpg(started.process.pid, signal.SIGINT)
    out, err = started.process.communicate(timeout=30)
    assert started.process.returncode == 130
    assert out == ""
    assert "Traceback" not in err
    wait_for_the_end_of({pid for _, pid in started.began()})


# --- Spark and packaging -------------------------------------------------------------------------


@pytest.mark.spark
def test_spark_writes_the_same_tables(spark, run, tmp_path):
    tables = []
    for where in ("local", "spark"):
        code, out, err = run("tiny/fig1", "--on", where, "--fresh", "--json")
        assert code == 0, err
        rows = table(json.loads(out)["papers"][0]["figures"][0]["csv"])
        assert rows
        tables.append([{k: v for k, v in r.items() if k != "ns_per_message"} for r in rows])
    assert tables[0] == tables[1]


def test_the_wheel_ships_the_papers(tmp_path, monkeypatch):
    build = pytest.importorskip("hatchling.build")
    monkeypatch.chdir(ROOT / "lab")
    with zipfile.ZipFile(tmp_path / build.build_wheel(str(tmp_path))) as wheel:
        shipped = set(wheel.namelist())
    papers = (ROOT / "lab" / "src").glob("evenflow_lab/papers/*/paper.toml")
    declared = {str(path.relative_to(ROOT / "lab" / "src")) for path in papers}
    assert declared
    assert declared <= shipped
    assert {name.replace("paper.toml", "claims.py") for name in declared} <= shipped
    assert "evenflow_lab/report/page.css" in shipped
