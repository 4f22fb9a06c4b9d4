"""`evenflow bench planner`, with sizes that only show that it runs."""

import json

import pytest

from evenflow.cli.app import main
from evenflow.model import InputError
from evenflow.planning import make_planner, planners
from evenflow_lab.benchmarks import planner_speed
from evenflow_lab.benchmarks.planner_speed import (
    GOAL_KEYS,
    LITERAL,
    Cell,
    as_json,
    goals,
    instance,
    planner_speeds,
)


def test_every_planner_is_timed_and_the_pseudo_code_beside():
    cells = list(planner_speeds((300, 600), (5,), (0.1,), rounds=1))
    assert [cell.planner for cell in cells] == 2 * list(planners())
    for cell in cells:
        assert cell.seconds > 0
        assert (cell.literal_seconds is not None) == (cell.planner in LITERAL)
        if cell.planner in LITERAL:
            assert cell.ratio() == cell.literal_seconds / cell.seconds
    assert as_json(cells)["goals"] == []


def test_what_would_take_too_long_is_left_out_and_said():
    cells = list(planner_speeds((300, 600), (5,), (0.1,), 1, patience=0, literal_patience=0))
    assert all(cell.seconds is not None for cell in cells[: len(planners())])
    for cell in cells[len(planners()) :]:
        assert cell.seconds is None
        assert cell.left_out.startswith("would take about")
    cell_json = as_json(cells)["cells"][-1]
    assert cell_json["ratio"] is None


def test_goals_are_of_mixed_at_the_named_sizes():
    where = {"workers": 15, "theta": 0.02, "feasible": True}
    cells = [
        Cell(GOAL_KEYS, planner="mixed", seconds=0.2, literal_seconds=8.0, **where),
        Cell(10 * GOAL_KEYS, planner="mixed", seconds=1.5, **where),
        Cell(GOAL_KEYS, planner="compact-mixed", seconds=0.1, details={"load_error": 2.0}, **where),
        Cell(GOAL_KEYS, 40, 0.02, planner="mixed", seconds=9.0, feasible=True),
    ]
    assert [(goal.measured, goal.held) for goal in goals(cells)] == [
        (40.0, True),
        (0.2, False),
        (0.5, True),
        (2.0, False),
        (1.5, True),
    ]


def test_no_goal_is_set_where_no_plan_keeps_the_limits():
    where = {"workers": 15, "theta": 0.02, "feasible": False}
    assert goals([Cell(GOAL_KEYS, planner="mixed", seconds=0.2, **where)]) == []


@pytest.mark.slow
def test_plans_exist_where_the_goals_are():
    for keys in planner_speed.KEYS[:3]:
        for theta in planner_speed.THETAS:
            assert make_planner("mixed").plan(*instance(keys, 15, theta)).feasible(), (keys, theta)


def test_the_instance_is_skewed_and_has_a_table():
    seen, constraints = instance(20_000, 15, 0.08)
    assert 0 < seen.listed().sum() <= 300
    assert constraints.overload(seen.loads(15)) > 0.08
    assert seen.costs.max() > 1_000 * seen.costs.min()


def test_no_rounds_are_refused():
    with pytest.raises(InputError, match="at least 1, got 0"):
        next(planner_speeds(rounds=0))


@pytest.mark.slow
def test_the_command_prints_a_table_and_json(monkeypatch, capsys):
    monkeypatch.setattr(planner_speed, "KEYS", (50, 100, 200))
    assert main(["bench", "planner", "--quick", "--rounds", "1"]) == 0
    shown = capsys.readouterr().out
    assert "mixed-bf" in shown
    assert "pseudo-code" in shown
    assert main(["bench", "planner", "--quick", "--rounds", "1", "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert {cell["keys"] for cell in printed["cells"]} == {50, 100}
    assert {cell["planner"] for cell in printed["cells"]} == set(planners())
    assert main(["bench", "planner", "--rounds", "0"]) == 2
