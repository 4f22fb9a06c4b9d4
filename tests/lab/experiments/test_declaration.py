"""Experiments as data: declarations, their expansion into cells, tables, claims."""

import csv
import json
import os
from pathlib import Path

import pytest

from evenflow.model import InputError
from evenflow.simulator import simulate
from evenflow.simulator.workloads import Zipf
from evenflow_lab.experiments import (
    Plot,
    Run,
    Verdict,
    claim,
    digest,
    expand,
    figure_rows,
    judge,
    load_paper,
    on_file,
    paper_folders,
    plan,
    run_and_time,
    run_cell,
    write_ledger,
    write_table,
)
from evenflow_lab.experiments.arithmetic import evaluate
from evenflow_lab.experiments.tables import columns_of
from tiny_experiments import DECLARED, ROUTING, paper_at, routing_figure

# --- declarations --------------------------------------------------------------------------------


def test_a_paper_is_read_from_its_folder(tmp_path):
    paper = load_paper(paper_at(tmp_path / "some_paper"))
    assert (paper.name, paper.title, paper.reference) == ("some_paper", "A paper", "Somebody, 2016")
    (figure,) = paper.figures
    assert figure.paper == "some_paper"
    assert figure.kind == "routing"
    assert figure.grid == {"zipf": (0.5, 1.4), "workers": (5, 10)}
    assert figure.plot == Plot(
        x="zipf", y=("imbalance",), series=("grouping",), panels=("workers",), log_y=True
    )
    assert paper.figure("fig1") is figure
    with pytest.raises(InputError, match=r"'some_paper' has no figure 'fig9'; it has fig1"):
        paper.figure("fig9")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('title = "A paper"', "title = 3", r"field 'title': expected a text, got 3"),
        ('title = "A paper"', "title = ", r"is not TOML"),
        ('title = "Skew"', "", r"figure 'fig1': field 'title' is missing"),
        (
            "sources = 5",
            "sources = 0",
            r"'fig1': field 'sources': expected a number above 0, got 0",
        ),
        (
            "sources = 5",
            "source = 5",
            r"'fig1': there is no field 'source'; did you mean 'sources'",
        ),
        ("seeds = [1, 2]", "seeds = []", r"'fig1': field 'seeds': expected a list of whole numb"),
        ('y = "imbalance"', "y = 3", r"'fig1': plot: field 'y': expected a text or a list"),
        ("log_y = true", 'log_y = "yes"', r"'fig1': plot: field 'log_y': expected true or false"),
        ("zipf = [0.5, 1.4]", "zipf = []", r"'fig1': field 'grid.zipf': expected at least one"),
        (", workers = [5, 10]", "", r"'fig1': field 'workers' is missing; put it into the grid"),
        ('schemes = ["key", "partial-key"]', "", r"'fig1': field 'schemes' is missing; 'routing'"),
        ("quick = { workload", "quick = { workloads", r"quick: there is no field 'workloads'; did"),
        ('quick = { schemes = ["key"]', "quick = { seeds = 1", r"extra: quick: field 'seeds'"),
        ('id = "fig1"', 'id = "a/b"', r"field 'id': a file name is needed, got 'a/b'"),
    ],
)
def test_a_mistake_in_a_declaration_is_named_with_file_figure_and_field(
    tmp_path, old, new, message
):
    assert old in DECLARED
    folder = paper_at(tmp_path / "p", DECLARED.replace(old, new, 1))
    with pytest.raises(InputError, match=message) as caught:
        load_paper(folder)
    assert str(folder / "paper.toml") in str(caught.value)


def test_two_figures_of_one_id_are_refused(tmp_path):
    figure = DECLARED[DECLARED.index("[[figure]]") : DECLARED.index("[[figure.extra]]")]
    with pytest.raises(InputError, match="two figures have the id 'fig1'"):
        load_paper(paper_at(tmp_path / "p", DECLARED + figure))


def test_papers_are_found_where_the_environment_says(tmp_path, monkeypatch):
    paper_at(tmp_path / "mine")
    monkeypatch.setenv("EVENFLOW_PAPERS", str(tmp_path))
    assert paper_folders() == {"mine": tmp_path / "mine"}
    monkeypatch.setenv("EVENFLOW_PAPERS", str(tmp_path / "nowhere"))
    with pytest.raises(InputError, match=r"no papers in .*nowhere"):
        paper_folders()


# --- from figures to cells -----------------------------------------------------------------------


def test_every_combination_is_a_cell_for_each_scheme_and_seed(tmp_path):
    (figure,) = load_paper(paper_at(tmp_path / "p")).figures
    runs = plan(figure, quick=False)
    own = [run.cell for run in runs if not run.labels["extra"]]
    asked = {
        (c["workload"]["zipf"], c["workers"], c["grouping"], c["seed"], c["workload"]["seed"])
        for c in own
    }
    assert len(own) == len(asked) == 2 * 2 * 2 * 2
    assert asked == {
        (z, n, g, seed, seed)
        for z in (0.5, 1.4)
        for n in (5, 10)
        for g in ("key", "partial-key")
        for seed in (1, 2)
    }
    assert all(c["sources"] == 5 and c["workload"]["messages"] == 60_000 for c in own)


def test_quick_merges_tables_and_replaces_lists(tmp_path):
    (figure,) = load_paper(paper_at(tmp_path / "p")).figures
    cells = [run.cell for run in plan(figure, quick=True) if not run.labels["extra"]]
    assert [(c["grouping"], c["workers"]) for c in cells] == [
        ("key", 5),
        ("partial-key", 5),
        ("key", 10),
        ("partial-key", 10),
    ]
    assert cells[0]["workload"] == {
        "name": "zipf",
        "messages": 20_000,
        "keys": 1_000,
        "zipf": 1.4,
        "seed": 1,
    }


def test_extra_runs_have_another_workload_and_its_grid(tmp_path):
    (figure,) = load_paper(paper_at(tmp_path / "p")).figures
    extra = [run.cell for run in plan(figure, quick=False) if run.labels["extra"]]
    assert {c["workers"] for c in extra} == {5, 10}
    assert all(c["workload"] == {"name": "flights", "key": "origin"} for c in extra)
    quick = [run.cell for run in plan(figure, quick=True) if run.labels["extra"]]
    assert {c["grouping"] for c in quick} == {"key"}


def test_names_of_the_grid_go_where_they_belong():
    figure = routing_figure(
        kind="queueing",
        cluster={"utilisation": 0.8},
        grid={
            "workers": (10,),
            "zipf": (1.0,),
            "heterogeneity": ([3, 5],),
            "workload.drift": (7,),
            "share": (2,),
        },
        schemes=("w-choices:theta={share/(4*n)},sightings=9", "key"),
    )
    first, second = plan(figure, quick=False)
    assert first.cell["workload"] == {
        "name": "zipf",
        "messages": 1_000,
        "zipf": 1.0,
        "drift": 7,
        "seed": 1,
    }
    assert first.cell["cluster"] == {"utilisation": 0.8, "heterogeneity": [3, 5]}
    assert first.cell["grouping"] == "w-choices:theta=0.05,sightings=9"
    assert first.labels["grouping"] == "w-choices:sightings=9"
    assert first.labels["share"] == 2
    assert first.labels["drift"] == 7
    assert second.cell["grouping"] == second.labels["grouping"] == "key"


def test_whole_workloads_may_be_in_the_grid():
    figure = routing_figure(
        grid={"workload": ({"name": "wp", "messages": 5}, {"zipf": 2.0}), "workers": (5,)}
    )
    assert [cell["workload"] for cell in expand(figure, quick=False)] == [
        {"name": "wp", "messages": 5, "seed": 1},
        {"name": "zipf", "messages": 1_000, "zipf": 2.0, "seed": 1},
    ]


def test_a_timeline_is_kept_where_time_is_drawn():
    over_time = Plot(x="time", y=("imbalance",))
    assert all(cell["timeline"] for cell in expand(routing_figure(plot=over_time), quick=False))
    assert not any(cell["timeline"] for cell in expand(routing_figure(), quick=False))


@pytest.mark.parametrize("wrong", ["1/nobody", "__import__('os')", "1/0", "n if n else 1", "("])
def test_expressions_are_sums_and_nothing_else(wrong):
    with pytest.raises(InputError):
        evaluate(wrong, {"n": 5})


def test_a_file_takes_the_workloads_place(tmp_path):
    figure = routing_figure(
        quick={"workload": {"messages": 5}, "grid": {"zipf": [0.5]}, "seeds": [4]},
        extra=({"workload": {"name": "flights"}},),
    )
    changed = on_file(figure, tmp_path / "x.parquet", ["k"])
    cells = expand(changed, quick=True)
    assert [c["workers"] for c in cells] == [5, 10]
    assert all(
        c["workload"] == {"name": "file", "input": str(tmp_path / "x.parquet"), "key": ["k"]}
        for c in cells
    )
    assert (changed.plot.x, changed.plot.panels) == ("workers", ())
    assert "x.parquet" in changed.title


# --- cells ---------------------------------------------------------------------------------------


def test_a_routing_cell_is_a_simulation():
    (row,) = run_cell({**ROUTING, "timeline": True})
    stream = Zipf(exponent=1.4, keys=1_000, messages=60_000, seed=1)
    result = simulate("partial-key", stream, 10, 2, 3)
    for name in ("imbalance", "imbalance_mean", "replicas", "worst_window", "replication"):
        assert row[name] == getattr(result, name)
    assert row["grouping"] == row["scheme"] == "partial-key"
    assert (row["symbol"], row["workload_name"], row["stand_in"]) == ("PKG", "zipf", False)
    assert (row["workers"], row["sources"], row["seed"], row["zipf"]) == (10, 2, 3, 1.4)
    assert row["keys"] == 1_000
    average = result.messages / 10
    assert row["normalised_imbalance"] == pytest.approx((max(result.loads) - average) / average)
    assert row["distinct_keys"] == result.keys
    assert row["timeline"][0] == {"time": 20_000, "imbalance": result.timeline[0][1]}
    json.dumps(row, allow_nan=False)


def test_a_queueing_cell_has_its_cluster_and_balance_in_the_row():
    cluster = {"utilisation": 0.8, "heterogeneity": [3, 5], "slots": 20}
    (row,) = run_cell({**ROUTING, "kind": "queueing", "cluster": cluster})
    assert row["utilisation"] == 0.8
    assert row["heterogeneity"] == [3, 5]
    assert len(row["timeline"]) == 20
    assert {"imbalance", "worst_window", "replicas", "queue_max", "latency_p99"} <= row.keys()
    json.dumps(row, allow_nan=False)


def test_an_analysis_cell_calls_the_papers_function(tmp_path, monkeypatch):
    analysis = """
def twice(number, more=0):
    return {"value": 2 * number + more}
def several(number):
    return [{"value": v} for v in range(number)]
"""
    paper_at(tmp_path / "p", analysis=analysis)
    monkeypatch.setenv("EVENFLOW_PAPERS", str(tmp_path))
    cell = {"kind": "analysis", "paper": "p", "function": "twice", "parameters": {"number": 3}}
    assert run_cell(cell) == [{"number": 3, "value": 6}]
    assert [r["value"] for r in run_cell({**cell, "function": "several"})] == [0, 1, 2]
    with pytest.raises(InputError, match=r"analysis.py has no function 'thrice'"):
        run_cell({**cell, "function": "thrice"})
    with pytest.raises(InputError, match="no paper is called 'q'"):
        run_cell({**cell, "paper": "q"})


def test_a_refused_cell_says_which_one_it_was():
    with pytest.raises(InputError, match=r"^no-such on zipf, 10 workers: no grouping scheme"):
        run_and_time({**ROUTING, "grouping": "no-such"})
    with pytest.raises(InputError, match="a cell's kind is one of"):
        run_cell({**ROUTING, "kind": "guessing"})


# --- tables --------------------------------------------------------------------------------------


def test_rows_bear_the_figures_labels(tmp_path):
    runs = [Run(ROUTING, {"share": 2, "extra": False, "grouping": "renamed"})]
    outcomes = {digest(ROUTING): {"rows": [{"grouping": "x", "imbalance": 0.1}], "seconds": 0.0}}
    (row,) = figure_rows(runs, outcomes)
    assert row == {"grouping": "renamed", "imbalance": 0.1, "share": 2, "extra": False}


def test_worst_window_and_replicas_stand_beside_imbalance(tmp_path):
    (row,) = run_cell({**ROUTING, "timeline": True})
    columns = columns_of([row])
    at = columns.index("imbalance")
    assert columns[at : at + 3] == ["imbalance", "worst_window", "replicas"]
    write_table([row], tmp_path / "deep" / "fig1.csv")
    with open(tmp_path / "deep" / "fig1.csv", newline="", encoding="utf-8") as file:
        (read,) = csv.DictReader(file)
    assert float(read["worst_window"]) == row["worst_window"]
    assert int(read["replicas"]) == row["replicas"]
    assert "timeline" not in read
    (whole,) = json.loads((tmp_path / "deep" / "fig1.json").read_text())
    assert whole == row
    assert sorted(os.listdir(tmp_path / "deep")) == ["fig1.csv", "fig1.json"]


# --- claims --------------------------------------------------------------------------------------

CLAIMS = """
from evenflow_lab.experiments.claims import Verdict, claim

@claim("second", "§2", figures=["fig1"], says="It is even.")
def even(rows):
    worst = max(row["imbalance"] for row in rows["fig1"])
    return Verdict(worst < 0.1, f"at most {worst}")

@claim("first", "§1", figures=["fig1", "fig2"], says="Both are alike.")
def alike(rows):
    return Verdict(False, "they are not", "the streams differ")

@claim("storm", "§9", says="Throughput is higher on a cluster.")
def throughput(rows):
    return Verdict(None, "", why="needs a cluster")
"""
TWO_FIGURES = DECLARED + DECLARED[
    DECLARED.index("[[figure]]") : DECLARED.index("[[figure.extra]]")
].replace("fig1", "fig2")


def test_claims_are_judged_in_their_order(tmp_path):
    paper = load_paper(paper_at(tmp_path / "p", TWO_FIGURES, CLAIMS))
    rows = {"fig1": [{"imbalance": 0.05}], "fig2": []}
    ledger = judge(paper, rows, "quick")
    assert [(e.id, e.verdict) for e in ledger] == [
        ("second", "held"),
        ("first", "not held"),
        ("storm", "open"),
    ]
    assert ledger[0].measured == "at most 0.05"
    assert ledger[1].command == "evenflow reproduce p/fig1 p/fig2 --quick"
    assert ledger[2].why == "needs a cluster"
    write_ledger(paper.title, ledger, tmp_path)
    assert json.loads((tmp_path / "ledger.json").read_text())[0]["held"] is True
    assert "## first: not held" in (tmp_path / "ledger.md").read_text()


def test_claims_on_figures_that_were_not_run_are_left_out(tmp_path):
    paper = load_paper(paper_at(tmp_path / "p", TWO_FIGURES, CLAIMS))
    assert [e.id for e in judge(paper, {"fig1": [{"imbalance": 0.5}]})] == ["second"]


def test_a_claim_that_fails_is_named(tmp_path):
    paper = load_paper(paper_at(tmp_path / "p", TWO_FIGURES, CLAIMS))
    with pytest.raises(InputError, match=r"claims.py: claim 'second' \(even\) failed with KeyErr"):
        judge(paper, {"fig1": [{"balance": 0.5}]})
    broken = CLAIMS.replace('Verdict(False, "they are not", "the streams differ")', "False")
    paper = load_paper(paper_at(tmp_path / "q", TWO_FIGURES, broken))
    with pytest.raises(InputError, match=r"claim 'first' \(alike\) must return a Verdict, got Fal"):
        judge(paper, {"fig1": [{"imbalance": 0.5}], "fig2": []})


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('"fig2"', '"fig7"', "claim 'first' looks at figure 'fig7'"),
        ('"second"', '"first"', "two claims have the id 'first'"),
        ("from evenflow", "from evenflaw", "claims.py cannot be loaded: ModuleNotFoundError"),
    ],
)
def test_a_mistake_in_claims_is_named(tmp_path, old, new, message):
    paper = load_paper(paper_at(tmp_path / "p", TWO_FIGURES, CLAIMS.replace(old, new, 1)))
    with pytest.raises(InputError, match=message):
        judge(paper, {})


def test_an_open_verdict_says_why():
    with pytest.raises(InputError, match="must say why"):
        Verdict(None, "nothing")
    judged = claim("x", "§1", says="…")(lambda rows: Verdict(True, "yes"))
    assert judged({}).held is True


def test_papers_of_the_source_tree_are_declared_without_mistakes():
    for folder in paper_folders().values():
        paper = load_paper(folder)
        for figure in paper.figures:
            assert expand(figure, quick=True)
            assert len(expand(figure, quick=True)) <= len(expand(figure, quick=False))
        assert Path(folder, "claims.py").is_file()
