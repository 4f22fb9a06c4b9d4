"""`evenflow bench scaling`: what is read from the metrics of a run, and its picture."""

import pytest

from evenflow.cli.app import main
from evenflow_lab.benchmarks.scaling import TIMES, _result, points_of
from evenflow_lab.report.scaling_picture import draw_scaling

SIZES = (3, 6, 12, 6, 3)
SECONDS = 10.0


def a_batch(number, partitions, seconds=0.5):
    scaling = {"arriving": 100.0, "load": 0.7, "reason": "…"}
    return {
        "batch": number,
        "began": 1000.0 + number,
        "durations": {"tasks": seconds, "commit": 0.25},
        "rows": 100,
        "planned_partitions": partitions,
        "scaling": scaling,
    }


def a_run(sizes=SIZES):
    return [a_batch(10 * phase + i, n) for phase, n in enumerate(sizes) for i in range(10)]


def test_lag_is_how_long_the_oldest_row_of_a_batch_has_waited():
    points = points_of(a_run(), began=1000.0)
    assert len(points) == 49  # the first batch has none before it
    assert points[0]["seconds"] == 1.0
    assert {point["lag"] for point in points} == {1.75}


def test_the_table_has_a_row_per_phase_and_oscillation_misses_the_goal():
    found = _result(points_of(a_run(), 1000.0), 5000, SECONDS)
    [table] = found.tables
    assert [row["partitions at the end"] for row in table.rows] == list(SIZES)
    assert found.answer["changes"] == len(TIMES) - 1
    assert all(goal.held for goal in found.goals)
    wild = _result(points_of(a_run((3, 12, 3, 12, 3)), 1000.0), 5000, SECONDS)
    assert [goal.held for goal in wild.goals] == [True, False]


@pytest.mark.parametrize("name", ["scaling.png", "scaling.svg"])
def test_the_picture_is_drawn(tmp_path, name):
    pytest.importorskip("matplotlib")
    points, load = points_of(a_run(), 1000.0), [(0.0, 200), (50.0, 200)]
    path = draw_scaling(points, load, tmp_path / name)
    assert path.stat().st_size > 1000
    assert draw_scaling(points, load, tmp_path / f"again-{name}").read_bytes() == path.read_bytes()


def test_the_command_explains_itself(capsys):
    assert main(["bench", "scaling", "--help"]) == 0
    assert "doubles and halves" in capsys.readouterr().out
