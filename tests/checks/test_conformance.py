"""The conformance suite accepts every scheme of the package, and rejects broken ones."""

from __future__ import annotations

import json

import numpy as np
import pytest

import broken
import broken.schemes
import broken.schemes_under_change
from broken import DOCUMENTED, assert_caught, broken_classes
from evenflow import grouping
from evenflow.checks import (
    GROUPING_CHECKS,
    CheckFailed,
    run_grouping_checks,
    standard_streams,
    uniform_stream,
)
from evenflow.checks.__main__ import main
from evenflow.checks.probing import route
from evenflow.grouping.key import KeyGrouping

pytestmark = pytest.mark.slow

# Short and few: broken schemes need no more, and some of them are slow.
UNIFORM = uniform_stream(1500)
SKEWED = [s for s in standard_streams(1500) if s.name in ("zipf 1.4", "late heavy key")]
STREAMS = [*SKEWED, *(s for s in standard_streams(1500) if s.name == "smallest and largest")]

SCHEME_VARIANTS = [
    "greedy-d:d=1",
    "greedy-d:d=9",
    "w-choices:theta=0.05,sightings=4",
    "w-choices:literal=true",
    "d-choices:literal=true",
    "d-choices:distinct=true",
    "round-robin-head:literal=true",
    "random-choices:literal=true",
    "bounded-hashing:points=8,literal=true",
    "consistent:literal=true,time_slot=0",
    "consistent:circle=true",
]

BROKEN_SCHEMES = broken_classes(broken.schemes, broken.schemes_under_change)


@pytest.mark.parametrize("spec", [*grouping.schemes(), *SCHEME_VARIANTS])
def test_scheme_conforms(spec: str) -> None:
    run_grouping_checks(grouping.make(spec)).raise_if_failed()


@pytest.mark.parametrize("cls", BROKEN_SCHEMES)
def test_broken_scheme_is_rejected(cls: type) -> None:
    assert_caught(cls, run_grouping_checks(cls(), STREAMS).failures)


def test_every_check_can_fail() -> None:
    assert {check.__name__ for check in GROUPING_CHECKS} == {c.caught_by for c in BROKEN_SCHEMES}


@pytest.mark.parametrize("cls", [broken.schemes.SplitsHotKeys, broken.schemes.HidesHotCandidates])
def test_uniform_keys_do_not_show_what_goes_wrong_for_hot_ones(cls: type) -> None:
    failures = run_grouping_checks(cls(), [UNIFORM]).failures
    assert failures.keys() <= {DOCUMENTED}
    assert cls.caught_by in run_grouping_checks(cls(), SKEWED).failures


def test_finding_names_scheme_stream_message_key_and_workers() -> None:
    report = run_grouping_checks(broken.schemes.SplitsHotKeys(), STREAMS)
    finding = report.failures["one_worker_a_key"]
    assert "splits-hot-keys" in finding
    assert "stream 'zipf 1.4'" in finding
    assert "message " in finding
    assert "key 19088743 " in finding  # the most frequent one
    with pytest.raises(CheckFailed, match="one_worker_a_key"):
        report.raise_if_failed()


def test_crash_is_a_finding_and_the_others_still_run() -> None:
    report = run_grouping_checks(broken.schemes.Crashes(), STREAMS)
    assert "raised InputError: 0 is not a key (schemes.py" in report.failures["only_live_workers"]
    assert "protocol_is_complete" not in report.failures
    assert len(report.outcomes) == len(GROUPING_CHECKS)


def test_write_beyond_the_end_of_out_is_seen() -> None:
    class Overruns(KeyGrouping):
        def route(self, state, keys, out):
            out.base[:] = 0

    scheme = Overruns()
    with pytest.raises(CheckFailed, match="outside of `out` when given 3 messages"):
        route(scheme, scheme.start(2), np.zeros(3, np.uint64))


def test_streams_are_seeded_and_of_the_length_asked_for() -> None:
    standard_streams.cache_clear()
    first = standard_streams(999, seed=3)
    standard_streams.cache_clear()
    for a, b in zip(first, standard_streams(999, seed=3), strict=True):
        assert a.name == b.name
        assert len(a.keys) == 999
        np.testing.assert_array_equal(a.keys, b.keys)
    named = dict(first)
    assert {0, 2**64 - 1} <= set(named["smallest and largest"].tolist())
    assert len(np.unique(named["distinct"])) == 999
    assert len(np.unique(named["equal low bits"] & np.uint64(2**40 - 1))) == 1
    before, after = named["late heavy key"][:499], named["late heavy key"][499:]
    heavy = np.unique(after, return_counts=True)
    assert heavy[1].max() > 400
    assert heavy[0][heavy[1].argmax()] not in before


def test_command_reports_and_exits_with_0(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["shuffle", "greedy-d:d=3", "--json"]) == 0
    reports = json.loads(capsys.readouterr().out)
    assert [(r["subject"], r["ok"]) for r in reports] == [("shuffle", True), ("greedy-d", True)]


def test_command_exits_with_1_on_a_failure(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    cls = broken.schemes.IgnoresTheSeed
    monkeypatch.setattr(grouping, "make", lambda spec: cls())
    assert main(["ignores-the-seed"]) == 1
    assert "FAILED  seeds_matter: ignores-the-seed: 40 of 40 keys" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("kye", "no grouping scheme is called 'kye'; did you mean 'key'?"),
        ("greedy-d:d=0", "at least 1, got 0"),
    ],
)
def test_command_exits_with_2_on_bad_input(
    name: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["key", name]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.count("\n") == 1
    assert said in printed.err
