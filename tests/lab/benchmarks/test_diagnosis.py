"""`evenflow bench diagnose`: every fault is judged, also where the application of one fails."""

import sys
from pathlib import Path

import pytest

from evenflow.model import InputError
from evenflow_lab.benchmarks.diagnosis import benchmark, recording
from evenflow_lab.benchmarks.diagnosis.planted import FAULTS

LOGS = Path(__file__).parents[2] / "diagnosis" / "logs"


def test_an_application_that_fails_counts_and_the_others_still_run(monkeypatch):
    def recorded(name, folder):
        if name == "spill":
            raise InputError("the application 'spill' failed: no space left")
        return LOGS / f"{name}.zstd"

    monkeypatch.setattr(benchmark, "record_fault", recorded)
    found = benchmark.run()
    rows = {row["fault"]: row for row in found.answer}
    assert set(rows) == set(FAULTS)
    assert [name for name, row in rows.items() if not row["named"]] == ["spill"]
    assert rows["spill"]["answer"] == "the application 'spill' failed: no space left"
    assert not found.passed
    [goal] = found.goals
    assert goal.measured == pytest.approx(1 - 1 / len(FAULTS))


@pytest.mark.slow
def test_an_application_that_hangs_is_given_up(monkeypatch, tmp_path):
    sleeper = tmp_path / "sleeper"
    sleeper.write_text(f"#!{sys.executable}\nimport time\ntime.sleep(60)\n")
    sleeper.chmod(0o755)
    monkeypatch.setattr(recording.sys, "executable", str(sleeper))
    monkeypatch.setattr(recording, "_LONGEST", 0.5)
    with pytest.raises(InputError, match="'spill' took more than"):
        recording.record_fault("spill", tmp_path)
