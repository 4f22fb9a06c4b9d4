"""The conformance suite accepts every sketch of the package, and rejects broken ones."""

from __future__ import annotations

import json

import pytest

import broken.sketches
from broken import assert_caught, broken_classes
from evenflow import sketches
from evenflow.checks import standard_streams
from evenflow_lab.checking.sketch_checks import SKETCH_CHECKS, main, run_sketch_checks

# Short and few: broken sketches need no more, and some of them are slow.
NAMES = ("zipf 1.4", "late heavy key", "smallest and largest")
STREAMS = [s for s in standard_streams(1500) if s.name in NAMES]

SKETCH_VARIANTS = [
    "space-saving:capacity=1",
    "space-saving:capacity=7",
    "space-saving:capacity=50,half_life=777",
    "lossy-counting:epsilon=0.1",
    "lossy-counting:epsilon=1",
]

BROKEN_SKETCHES = broken_classes(broken.sketches)


@pytest.mark.parametrize("spec", [*sketches.sketches(), *SKETCH_VARIANTS])
def test_sketch_conforms(spec: str) -> None:
    run_sketch_checks(sketches.make(spec)).raise_if_failed()


@pytest.mark.parametrize("cls", BROKEN_SKETCHES)
def test_broken_sketch_is_rejected(cls: type) -> None:
    assert_caught(cls, run_sketch_checks(cls(), STREAMS).failures)


def test_every_check_can_fail() -> None:
    assert {check.__name__ for check in SKETCH_CHECKS} == {c.caught_by for c in BROKEN_SKETCHES}


def test_command_reports_and_exits_with_0(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["space-saving:capacity=9", "--json"]) == 0
    reports = json.loads(capsys.readouterr().out)
    assert [(r["subject"], r["ok"]) for r in reports] == [("space-saving", True)]
