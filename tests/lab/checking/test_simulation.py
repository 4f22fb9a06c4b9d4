"""The simulation: schedules hold, a seed repeats, and planted bugs are found."""

import os
import subprocess
import sys

import pytest

pytest.importorskip("confluent_kafka")

from broken.bugs import BUGS, skipping_by_number
from evenflow.model import InputError
from evenflow_lab.checking.simulation.kinds import ENGINE, LIGHT
from evenflow_lab.checking.simulation.outcome import run_schedule
from evenflow_lab.checking.simulation.run import failure_text, main, run_seeds, seeds_of
from evenflow_lab.checking.simulation.schedule import CONSUMERS, Fault, Schedule
from evenflow_lab.checking.simulation.store import Store

PER_TEST = 250
MOST = 1500  # schedules in which a planted bug must be found


@pytest.mark.parametrize("first", range(0, 8 * PER_TEST, PER_TEST))
def test_after_every_schedule_all_promises_hold(first):
    for outcome in run_seeds(range(first, first + PER_TEST)):
        assert outcome.violation is None, failure_text(outcome)


@pytest.mark.parametrize("kind", [LIGHT, CONSUMERS, *ENGINE])
def test_without_faults_every_kind_of_work_comes_to_its_end(kind):
    outcome = run_schedule(Schedule(5, kind, 12))
    assert (outcome.violation, outcome.refused) == (None, None)


@pytest.mark.parametrize("kind", [LIGHT, CONSUMERS, "moved", "auto"])
def test_a_seed_repeats_its_schedule_exactly(kind):
    schedules = [Schedule.of(seed, (kind,)) for seed in range(3)]
    outcomes = [run_schedule(schedule) for schedule in schedules]
    assert outcomes == [run_schedule(schedule) for schedule in schedules]
    assert len({outcome.trace for outcome in outcomes}) == 3


def test_another_process_repeats_it_as_well():
    schedule = Schedule.of(7, (CONSUMERS,))
    command = [sys.executable, "-m", "evenflow_lab.checking.simulation"]
    said = [
        subprocess.run(
            [*command, "--schedule", schedule.to_json()],
            capture_output=True,
            text=True,
            check=True,
            env={**os.environ, "PYTHONHASHSEED": seed},
        ).stdout
        for seed in ("1", "2")
    ]
    outcome = run_schedule(schedule)
    expected = f"{outcome.calls} calls, trace {outcome.trace}\neverything holds\n"
    assert said == [expected, expected]


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.__name__)
def test_the_simulation_finds_a_planted_bug(bug, monkeypatch, capsys):
    store, (kind, faults) = bug(monkeypatch) or Store, BUGS[bug]
    for seed in range(MOST):
        outcome = run_schedule(Schedule.of(seed, (kind,), faults), store)
        if outcome.violation is not None:
            break
    with capsys.disabled():
        print(f"\n{bug.__name__}: schedule {seed + 1}: {outcome.violation}")
    assert outcome.violation is not None


def test_a_failing_schedule_is_made_small_and_can_be_repeated(monkeypatch):
    skipping_by_number(monkeypatch)
    schedules = (Schedule.of(seed, (LIGHT,)) for seed in range(MOST))
    outcome = next(o for o in map(run_schedule, schedules) if o.violation is not None)
    text = failure_text(outcome)
    small = Schedule.from_json(text.rpartition("--schedule '")[2].removesuffix("'"))
    assert run_schedule(small).violation in text
    assert [fault.what for fault in small.faults] in (["power loss"], ["restore"])
    assert small.rows <= outcome.schedule.rows


def test_a_loss_of_power_is_refused_and_nothing_is_lost_in_silence():
    """Spark's log has lost the entry of a batch that is committed: its number goes to other rows."""
    refused = [
        run_schedule(Schedule(seed, LIGHT, 20, (Fault(90, "power loss", 8),))) for seed in range(9)
    ]
    assert all(outcome.violation is None for outcome in refused)
    assert any("other rows" in (outcome.refused or "") for outcome in refused)


@pytest.mark.parametrize("text", ["", "x", "1:", "1:x", "-3"])
def test_seeds_that_make_no_sense_are_refused(text):
    with pytest.raises(InputError, match="seeds are a count"):
        seeds_of(text)


def test_the_command_says_what_it_ran(capsys):
    assert main(["--seeds", "40:52", "--processes", "1"]) == 0
    said = capsys.readouterr().out
    assert said.startswith("12 schedules in ")
    assert "0 with a violation" in said


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--schedule", "{}"], "this is not a schedule"),
        (["--kinds", "ledger;nothing"], "there is no kind 'nothing'"),
        (["--seeds", "many"], "seeds are a count such as 1000"),
    ],
)
def test_a_mistake_is_one_sentence(arguments, expected, capsys):
    assert main(arguments) == 2
    assert expected in capsys.readouterr().err
