"""`evenflow bench`: every benchmark is in the catalogue, and all are run and shown in one way."""

import inspect
import json
import pkgutil
from importlib import import_module
from typing import get_args, get_type_hints

import pytest

import evenflow_lab.benchmarks
from evenflow.cli.app import main
from evenflow_lab.benchmarks import catalogue
from evenflow_lab.benchmarks.catalogue import BENCHMARKS, Benchmark
from evenflow_lab.benchmarks.outcome import Goal, Result, Table

HERE = evenflow_lab.benchmarks


def test_every_module_that_runs_is_in_the_catalogue():
    listed = {f"{HERE.__name__}.{one.module}" for one in BENCHMARKS.values()}
    found = {
        module.name
        for module in pkgutil.walk_packages(HERE.__path__, f"{HERE.__name__}.")
        if hasattr(import_module(module.name), "run")
    }
    assert found == listed


@pytest.mark.parametrize("name", BENCHMARKS)
def test_a_benchmark_says_what_it_does_and_what_its_options_are(name, capsys):
    run = BENCHMARKS[name].run()
    hints = get_type_hints(run, include_extras=True)
    parameters = inspect.signature(run).parameters
    assert "progress" in parameters
    assert BENCHMARKS[name].help().splitlines()[0].endswith((".", "?"))
    for option in parameters.values():
        assert option.default is not option.empty, option
        if option.name != "progress":
            _, text = get_args(hints[option.name])
            assert text.endswith("."), (name, option.name)
    assert main(["bench", name, "--help"]) == 0
    shown = capsys.readouterr().out
    assert "--json" in shown
    for option in parameters:
        assert option == "progress" or f"--{option.replace('_', '-')}" in shown


def test_the_group_lists_all_without_importing_any(capsys):
    assert main(["bench"]) == 2
    shown = capsys.readouterr().out
    assert all(name in shown for name in BENCHMARKS)
    assert not any("_" in name for name in BENCHMARKS)


def test_an_unknown_benchmark_is_refused(capsys):
    assert main(["bench", "kernel"]) == 2
    assert "kernel" in capsys.readouterr().err


@pytest.fixture
def passing(monkeypatch):
    """A benchmark that returns what it is told to."""

    def put(*results):
        def run(progress=None):
            for done, result in enumerate(results):
                progress(f"step {done}", done, len(results))
                yield result

        monkeypatch.setattr(Benchmark, "run", lambda self: run)
        monkeypatch.setitem(catalogue.BENCHMARKS, "drift", Benchmark("drift", "One."))

    return put


def test_results_are_shown_as_they_come_and_the_last_is_the_answer(passing, capsys):
    first = Result({"n": 1}, (Table([{"a": 1000, "b": None, "c": True}], "above"),), ("a line",))
    passing(first, Result({"n": 2}, goals=(Goal("speed", 2.0, 1.5, at_least=True),)))
    assert main(["bench", "drift"]) == 0
    shown = capsys.readouterr()
    for text in ("above", "1,000", "–", "yes", "a line", "✓ speed: 2.00 (goal: at least 1.5)"):
        assert text in shown.out
    assert "bench drift: step 1" in shown.err
    assert main(["bench", "drift", "--json"]) == 0
    shown = capsys.readouterr()
    assert json.loads(shown.out) == {"n": 2}
    assert shown.err == ""


def test_what_must_hold_and_does_not_is_an_exit_code(passing, capsys):
    passing(Result({}, passed=False))
    assert main(["bench", "drift"]) == 1
    missed = Result({}, goals=(Goal("speed", 1.0, 1.5, at_least=True),))
    passing(missed)
    assert main(["bench", "drift"]) == 0
    assert "✗ speed" in capsys.readouterr().out


def test_small_benchmarks_run(capsys):
    assert main(["bench", "placement-optimum", "--instances", "3", "--json"]) == 0
    assert [row["algorithm"] for row in json.loads(capsys.readouterr().out)] == [
        "cor-glb",
        "llf-glb",
        "rand-glb",
    ]
    assert main(["bench", "simulation", "--most", "1000"]) == 2
    assert "--most must be at least 100000, got 1000" in capsys.readouterr().err
    assert main(["bench", "placement_optimum", "--instances", "3"]) == 0
