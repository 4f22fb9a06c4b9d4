"""Long runs: what is looked at, and a short one."""

import os
from itertools import pairwise

import pytest

from evenflow.cli.app import main
from evenflow_lab.benchmarks.soak.benchmark import run
from evenflow_lab.benchmarks.soak.samples import (
    Sample,
    by_parts,
    checkpoint_use,
    descendants,
    goals,
    process_use,
)


def samples_of(memory):
    return [Sample(i, memory(i), 6, 100, 10**6, 10 * i, 0.05) for i in range(100)]


def test_a_flat_run_holds_every_goal_and_a_leak_does_not():
    flat = goals(by_parts(samples_of(lambda batch: 200_000_000)))
    assert len(flat) == 5
    assert all(goal.held for goal in flat)
    leaking = goals(by_parts(samples_of(lambda batch: 200_000_000 + 10**6 * batch)))
    assert [goal.what for goal in leaking if not goal.held] == ["memory MB, last part ÷ second"]


def test_the_tenths_of_a_run_follow_each_other():
    rows = by_parts(samples_of(lambda batch: batch * 10**6))
    assert len(rows) == 10
    assert rows[0]["batches"] == "0 … 9"
    assert rows[-1]["batches"] == "90 … 99"
    assert all(a["memory MB"] < b["memory MB"] for a, b in pairwise(rows))
    assert by_parts([]) == []
    assert goals([]) == ()


def test_processes_and_checkpoints_are_measured(tmp_path):
    memory, files = process_use([os.getpid(), 2**30])
    assert memory > 10**7
    assert files > 2
    assert os.getpid() in descendants(os.getppid())
    (tmp_path / "evenflow" / "metrics").mkdir(parents=True)
    (tmp_path / "evenflow" / "metrics" / "1.json").write_bytes(b"12345")
    (tmp_path / "evenflow" / "identity.json").write_bytes(b"123")
    assert checkpoint_use(tmp_path) == (1, 3, 5)


@pytest.mark.slow
def test_a_short_run_of_the_engine_draws_a_picture_and_keeps_its_samples(tmp_path):
    picture, kept = tmp_path / "soak.png", tmp_path / "soak.jsonl"
    (result,) = run(batches=30, picture=str(picture), samples=str(kept))
    assert result.answer["batches"] == 30
    assert len(result.tables[0].rows) == 10
    assert picture.stat().st_size > 1000
    assert len(kept.read_text().splitlines()) == 30


def test_the_command_says_what_it_measures(capsys):
    assert main(["bench", "soak", "--help"]) == 0
    assert "nothing may grow but the metrics" in " ".join(capsys.readouterr().out.split())
