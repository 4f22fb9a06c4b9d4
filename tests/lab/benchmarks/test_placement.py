"""`evenflow bench placement`, with sizes that only show that it runs."""

import json

import pytest

from evenflow.cli.app import main
from evenflow.model import InputError
from evenflow_lab.benchmarks import placement_speed
from evenflow_lab.benchmarks.placement_speed import (
    Cell,
    as_json,
    goals,
    growth,
    instance,
    placement_speeds,
)


def cell(nodes, seconds, literal=None):
    return Cell(nodes, 10 * nodes, 10, seconds, 0, 0, 0.5, literal, literal and True)


def test_every_size_is_timed_and_the_transcription_beside():
    cells = list(placement_speeds((3, 5, 8), literal_nodes=5, rounds=1))
    assert [c.nodes for c in cells] == [3, 5, 8]
    assert [c.operators for c in cells] == [30, 50, 80]
    assert all(c.seconds > 0 for c in cells)
    assert [c.same for c in cells] == [True, True, None]
    assert cells[0].ratio() == cells[0].literal_seconds / cells[0].seconds
    assert cells[2].ratio() is None
    assert as_json(cells)["goals"] == []


def test_goals_are_of_the_named_sizes():
    cells = [cell(10, 0.1, 5.0), cell(50, 0.1, 4.9), cell(1000, 29.0)]
    assert [(goal.measured, goal.held) for goal in goals(cells)] == [
        (pytest.approx(49.0), False),
        (29.0, True),
    ]
    assert not goals([cell(1000, 31.0)])[0].held


def test_growth_is_the_exponent_of_the_time():
    cells = [cell(n, 2e-6 * n**2, 3e-6 * n**3) for n in (10, 20, 50)]
    assert growth(cells) == pytest.approx(2)
    assert growth(cells, literal_too=True) == pytest.approx(3)
    assert growth(cells[:2]) is None


def test_the_instance_bursts():
    seen = instance(10)
    assert len(seen) == 100
    assert seen.loads().sum() == pytest.approx(9)
    assert (seen.series.std(axis=1) > 0.3 * seen.loads()).all()


def test_no_rounds_are_refused():
    with pytest.raises(InputError, match="at least 1, got 0"):
        next(placement_speeds(rounds=0))


def test_the_command_prints_a_table_and_json(monkeypatch, capsys):
    monkeypatch.setattr(placement_speed, "NODES", (3, 4, 5))
    assert main(["bench", "placement", "--quick", "--rounds", "1"]) == 0
    shown = capsys.readouterr().out
    assert "transcription" in shown
    assert "time grows as" in shown
    assert main(["bench", "placement", "--rounds", "1", "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert [c["nodes"] for c in printed["cells"]] == [3, 4, 5]
    assert set(printed["growth"]) == {"exponent", "literal_exponent"}
    assert main(["bench", "placement", "--rounds", "0"]) == 2
