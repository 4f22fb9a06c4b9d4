"""Runs of cells: kept when finished, resumed, on processes and on Spark, with a user's own scheme."""

import ast
import json
import multiprocessing
import sys
from pathlib import Path

import pytest

from evenflow.model import InputError
from evenflow_lab.experiments import (
    CellStore,
    Run,
    digest,
    expand,
    figure_rows,
    on_processes,
    plan,
    read_scheme_file,
    run_and_time,
    run_cell,
    run_cells,
    store,
    with_schemes,
)
from tiny_experiments import ROUTING, SMALL, paper_at, routing_figure, without_speed

pytestmark = pytest.mark.slow

# --- finished cells are kept ---------------------------------------------------------------------


def test_a_digest_covers_every_package_that_the_simulator_imports():
    covered = {(p.__name__, layer) for p, layers in store._LAYERS.items() for layer in layers}
    found = set()
    for package, layer in covered:
        for path in (Path(sys.modules[package].__file__).parent / layer).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text())):
                names = (getattr(node, "module", None) or "").split(".")
                if isinstance(node, ast.ImportFrom) and names[0] in ("evenflow", "evenflow_lab"):
                    found.update({(names[0], names[1])} if len(names) > 1 else ())
    assert found <= covered


def test_digests_tell_cells_apart(tmp_path, monkeypatch):
    assert digest(ROUTING) == digest(json.loads(json.dumps(dict(reversed(ROUTING.items())))))
    assert digest(ROUTING) != digest({**ROUTING, "seed": 4})
    keys = tmp_path / "keys.csv"
    keys.write_text("k\na\n")
    on_keys = {**ROUTING, "workload": {"name": "file", "input": str(keys), "key": ["k"]}}
    before = digest(on_keys)
    keys.write_text("k\na\nb\n")
    assert digest(on_keys) != before
    folder = paper_at(tmp_path / "papers" / "p", analysis="def f(): return {}")
    monkeypatch.setenv("EVENFLOW_PAPERS", str(folder.parent))
    formula = {"kind": "analysis", "paper": "p", "function": "f", "parameters": {}}
    before = digest(formula)
    (folder / "analysis.py").write_text("def f(): return {'x': 1}")
    assert digest(formula) != before
    before = digest(formula)
    (folder / "claims.py").write_text("# judges what was measured, and changes none of it")
    assert digest(formula) == before


def counting(log):
    """Runs cells one after another, and notes which."""

    def execute(cells):
        for number, cell in enumerate(cells):
            log.append(cell)
            yield number, {"rows": [{"seed": cell["seed"]}], "seconds": 1.0}

    return execute


def test_equal_cells_run_once_and_finished_ones_not_again(tmp_path):
    cells = [ROUTING, {**ROUTING, "seed": 4}, dict(ROUTING)]
    ran = []
    first = run_cells(cells, CellStore(tmp_path), counting(ran))
    assert len(ran) == len(first) == len(list(tmp_path.glob("*.json"))) == 2
    again = run_cells([*cells, {**ROUTING, "seed": 5}], CellStore(tmp_path), counting(ran))
    assert [cell["seed"] for cell in ran[2:]] == [5]
    assert again[digest(ROUTING)]["rows"] == first[digest(ROUTING)]["rows"]
    run_cells(cells, CellStore(tmp_path, fresh=True), counting(ran))
    assert len(ran) == 5


def test_longest_cells_run_first(tmp_path):
    cells = [{**ROUTING, "workload": {**SMALL, "messages": m}} for m in (10, 1_000, 100)]
    ran = []
    run_cells(cells, CellStore(tmp_path), counting(ran))
    assert [cell["workload"]["messages"] for cell in ran] == [1_000, 100, 10]


def test_a_cell_is_kept_before_the_next_one_is_finished(tmp_path):
    def failing(cells):
        yield 0, {"rows": [], "seconds": 0.0}
        raise InputError("the second cell is not to be had")

    with pytest.raises(InputError, match="second cell"):
        run_cells([ROUTING, {**ROUTING, "seed": 4}], CellStore(tmp_path), failing)
    assert len(list(tmp_path.glob("*.json"))) == 1


def test_a_damaged_file_counts_as_not_there(tmp_path):
    ran = []
    run_cells([ROUTING], CellStore(tmp_path), counting(ran))
    (path,) = tmp_path.glob("*.json")
    for damage in ("", "[]", path.read_text()[:-9]):
        path.write_text(damage)
        run_cells([ROUTING], CellStore(tmp_path), counting(ran))
    assert len(ran) == 4


def test_an_analysis_that_changes_under_way_is_named_and_not_kept(tmp_path, monkeypatch):
    folder = paper_at(tmp_path / "papers" / "p", analysis="def f(x): return {'x': x}")
    monkeypatch.setenv("EVENFLOW_PAPERS", str(folder.parent))
    cells = [
        {"kind": "analysis", "paper": "p", "function": "f", "parameters": {"x": x}} for x in (1, 2)
    ]

    def edited_after_the_first(cells):
        yield 0, {"rows": [], "seconds": 0.0}
        (folder / "analysis.py").write_text("def f(x): return {'x': -x}")
        yield 1, {"rows": [], "seconds": 0.0}

    store = CellStore(tmp_path / "cells")
    with pytest.raises(InputError, match=r"papers/p changed while the runs were under way"):
        run_cells(cells, store, edited_after_the_first)
    assert len(list((tmp_path / "cells").glob("*.json"))) == 1


def test_an_edit_between_runs_and_tables_is_named(tmp_path):
    keys = tmp_path / "keys.csv"
    keys.write_text("k\na\n")
    cell = {**ROUTING, "workload": {"name": "file", "input": str(keys), "key": ["k"]}}
    outcomes = run_cells([cell], CellStore(tmp_path / "cells"), counting([]))
    assert figure_rows([Run(cell, {})], outcomes) == [{"seed": ROUTING["seed"]}]
    keys.write_text("k\na\nb\n")
    with pytest.raises(InputError, match=r"keys\.csv changed while the runs were under way"):
        figure_rows([Run(cell, {})], outcomes)


def test_progress_counts_cells_and_estimates_the_time_left(tmp_path):
    cells = [{**ROUTING, "seed": seed} for seed in range(4)]
    reported = []
    run_cells(cells[:1], CellStore(tmp_path), counting([]))
    run_cells(cells, CellStore(tmp_path), counting([]), reported.append, jobs=1)
    assert [(p.done, p.total) for p in reported] == [(1, 4), (2, 4), (3, 4), (4, 4)]
    assert reported[0].seconds_left is None
    # All cells are alike and take a second each.
    assert [p.seconds_left for p in reported[1:]] == pytest.approx([2.0, 1.0, 0.0])


def test_processes_give_what_this_process_gives():
    cells = [{**ROUTING, "seed": seed} for seed in range(3)]
    outcomes = dict(on_processes(cells, jobs=2))
    assert outcomes.keys() == {0, 1, 2}
    for number, cell in enumerate(cells):
        assert without_speed(outcomes[number]["rows"]) == without_speed(run_cell(cell))
        assert outcomes[number]["seconds"] > 0
    assert not multiprocessing.active_children()


def test_a_refusal_in_another_process_stops_the_run():
    cells = [{**ROUTING, "grouping": "no-such", "seed": seed} for seed in range(3)]
    with pytest.raises(InputError, match="no grouping scheme is called 'no-such'"):
        list(on_processes(cells, jobs=2))


# --- a user's own scheme -------------------------------------------------------------------------

LAST_DIGIT = """
from dataclasses import dataclass
from typing import ClassVar
import numpy as np
from evenflow.grouping.key import KeyGrouping

@dataclass(frozen=True)
class LastDigit(KeyGrouping):
    name: ClassVar[str] = "last-digit"
    symbol: ClassVar[str] = "LD"
    def route(self, state, keys, out):
        out[:] = (keys % np.uint64(10)) % np.uint64(len(state.ids))
"""


@pytest.fixture
def mine(tmp_path):
    path = tmp_path / "mine.py"
    path.write_text(LAST_DIGIT)
    return path


def test_a_users_scheme_is_added_wherever_a_figure_names_schemes(mine):
    files = read_scheme_file(mine)
    figure = routing_figure(
        quick={"schemes": ["shuffle"]},
        extra=({"workload": {"name": "flights"}, "schemes": ["key"]},),
    )
    changed = with_schemes(figure, files)
    assert {c["grouping"] for c in expand(changed, quick=False)} == {"key", "last-digit"}
    quick = plan(changed, quick=True)
    assert {r.cell["grouping"] for r in quick if r.labels["extra"]} == {"key", "last-digit"}
    assert {r.cell["grouping"] for r in quick} == {"shuffle", "key", "last-digit"}
    own = [r.cell for r in quick if r.cell["grouping"] == "last-digit"]
    assert all(cell["scheme"]["source"] == LAST_DIGIT for cell in own)


def test_a_users_scheme_runs_where_its_file_is_not(mine):
    cell = {**ROUTING, "grouping": "last-digit", "scheme": read_scheme_file(mine)["last-digit"]}
    (here,) = run_cell(cell)
    assert (here["scheme"], here["symbol"], here["replication"]) == ("last-digit", "LD", 1.0)
    mine.unlink()
    (elsewhere,) = run_cell(json.loads(json.dumps(cell)))
    assert without_speed([elsewhere]) == without_speed([here])


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("x = 1", "defines no scheme"),
        ("import nowhere", "cannot be loaded: ModuleNotFoundError: No module named 'nowhere'"),
        ("def (", "cannot be loaded: SyntaxError"),
        (LAST_DIGIT.replace('"last-digit"', '"key"'), "'key' is the name of a scheme that exists"),
        (
            LAST_DIGIT.replace("out[:] =", "out[:] = 7 +"),
            "sent a message to worker 7, but the work",
        ),
        (LAST_DIGIT.replace("out[:] =", "raise KeyError(7) #"), "failed on .* KeyError: 7"),
        (LAST_DIGIT + "    slack: int\n", "'last-digit': 'last-digit' needs slack"),
    ],
)
def test_a_scheme_file_that_is_none_is_refused(mine, source, message):
    mine.write_text(source)
    with pytest.raises(InputError, match=message):
        read_scheme_file(mine)


def test_a_scheme_file_must_be_a_python_file(tmp_path):
    for wrong in ("nowhere.py", "mine.txt"):
        (tmp_path / "mine.txt").touch()
        with pytest.raises(InputError, match=r"a Python file \(.py\) is needed"):
            read_scheme_file(tmp_path / wrong)


def test_a_users_scheme_that_fails_is_the_users_to_mend(mine):
    mine.write_text(LAST_DIGIT.replace("out[:] =", "assert len(keys) < 5000; out[:] ="))
    cell = {**ROUTING, "grouping": "last-digit", "scheme": read_scheme_file(mine)["last-digit"]}
    with pytest.raises(
        InputError, match=r"mine.py: last-digit on zipf, 10 workers: AssertionError"
    ):
        run_and_time(cell)


# --- Spark ---------------------------------------------------------------------------------------


@pytest.mark.spark
def test_spark_gives_what_processes_give(spark, mine):
    from evenflow_lab.cli.spark_cells import run_on_spark

    cells = [{**ROUTING, "seed": seed} for seed in range(3)]
    cells.append(
        {**ROUTING, "grouping": "last-digit", "scheme": read_scheme_file(mine)["last-digit"]}
    )
    mine.unlink()
    outcomes = dict(run_on_spark(cells, run_and_time))
    assert outcomes.keys() == set(range(4))
    for number, cell in enumerate(cells):
        assert without_speed(outcomes[number]["rows"]) == without_speed(run_cell(cell))
    assert spark.range(3).count() == 3  # a session that was there is left running


@pytest.mark.spark
def test_spark_hands_on_a_refusal_in_one_line(spark):
    from evenflow_lab.cli.spark_cells import run_on_spark

    with pytest.raises(InputError, match=r"^no-such on zipf, 10 workers: no grouping scheme"):
        list(run_on_spark([{**ROUTING, "grouping": "no-such"}], run_and_time))
