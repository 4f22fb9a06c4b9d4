"""Faults that were planted in real runs, recorded: the verdict names the cause in each."""

from __future__ import annotations

from pathlib import Path

import pytest

from evenflow.diagnosis import diagnose
from evenflow.diagnosis.event_log import read_event_log
from evenflow_lab.benchmarks.diagnosis.planted import FAULTS
from evenflow_lab.benchmarks.diagnosis.recording import record_fault

LOGS = Path(__file__).parent / "logs"


def sample(name):
    return LOGS / f"{name}.zstd"


def test_there_is_a_small_sample_of_every_fault():
    assert {path.stem for path in LOGS.iterdir()} == set(FAULTS)
    assert all(path.stat().st_size < 300_000 for path in LOGS.iterdir())


@pytest.mark.parametrize("name", FAULTS)
def test_the_verdict_names_the_planted_cause(name):
    found = diagnose(sample(name))
    assert found.cause == FAULTS[name].cause
    assert found.answer.startswith(("You don't need Evenflow: ", "Evenflow would help"))


def test_nothing_wrong_says_so():
    found = diagnose(sample("nothing-wrong"))
    assert found.answer.startswith("You don't need Evenflow: nothing is wrong with the balance")
    assert not found.findings
    assert not found.remedies


@pytest.mark.parametrize(
    ("name", "operator", "keys"),
    [
        ("hot-key-in-a-grouped-function", "applyInPandas", ("page",)),
        ("hot-key-in-a-join", "join", ("page",)),
        ("null-keys", "join", ("page",)),
        ("costly-rows", "applyInPandas", ("page",)),
    ],
)
def test_operator_and_key_columns_come_from_the_plan(name, operator, keys):
    [main, *_] = diagnose(sample(name)).findings
    assert (main.operator, main.keys) == (operator, keys)


def test_a_hot_key_in_a_join_is_for_spark_and_one_in_a_function_for_evenflow():
    join, function = (diagnose(sample(f"hot-key-in-a-{n}")) for n in ("join", "grouped-function"))
    assert not join.needs_evenflow
    assert "spark.sql.adaptive.skewJoin.enabled" in join.remedies[0].code
    assert function.needs_evenflow
    assert 'ef.keyed(df, "page").balance("auto", partitions=16)' in function.remedies[0].code


def test_the_slow_machine_is_named():
    [main, *_] = diagnose(sample("slow-machine")).findings
    assert main.sentence.startswith("executor 0 on machine is slow") or "is slow" in main.sentence
    assert main.figures["rows_ratio"] < 1.5


def test_lost_time_is_less_than_the_stage_took():
    for name in FAULTS:
        for finding in diagnose(sample(name)).findings:
            assert (finding.lost_seconds or 0) <= finding.figures["wall_seconds"]


def test_samples_have_no_names_of_machines_or_users():
    for path in LOGS.iterdir():
        application = read_event_log(path)
        assert {host for stage in application.stages for host in stage.hosts} == {"machine"}


@pytest.mark.spark
@pytest.mark.long
@pytest.mark.parametrize("name", ["null-keys", "spill"])
def test_a_new_run_gets_the_same_verdict(name, tmp_path):
    assert diagnose(record_fault(name, tmp_path)).cause == FAULTS[name].cause
