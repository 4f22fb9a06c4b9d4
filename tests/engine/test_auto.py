"""`auto` on a stream in this process: the first batch, restarts, changes of scheme."""

import json
import logging
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pytest

from evenflow.engine.auto import KeySurvey, choose_next, learned, observed, survey_pays
from evenflow.engine.in_process import run_stream
from evenflow.engine.job import Job
from evenflow.engine.keyed_states import KeyedStates
from evenflow.engine.output import Tables
from evenflow.engine.plans import first_plan, following_plan, next_plan, scheme_of
from evenflow.engine.reports import Reports
from evenflow.engine.survey import survey_of
from evenflow.grouping import make
from evenflow.model import Plan
from evenflow.operators import Aggregates, PerKey, count
from evenflow.operators.service_time import ServiceTime
from evenflow.planning.controller import Replanning
from evenflow.state.checkpoint import Checkpoint
from evenflow.storage.faults import Crash, Faults, FaultyStorage
from evenflow.storage.memory import MemoryStorage

ROWS = pa.schema([("k", pa.string())])
COUNTS = Aggregates(n=count())
PARTITIONS = 4


class Dear(Aggregates):
    """Counts that are said to be slow, and are not: the first batch is split, and none after it."""

    row_seconds = 1.0


@dataclass(frozen=True)
class Whole(ServiceTime):
    """Cannot be split."""

    @property
    def mergeable(self):
        return False


def job_of(operator, partitions=PARTITIONS, **settings):
    return Job(("k",), ROWS, KeyedStates(operator), None, partitions, **settings)


def batch_of(seed, hot=0.6, n=400):
    chance = np.random.default_rng(seed)
    keys = [f"key {i}" for i in chance.integers(0, 50, n)]
    keys[: int(n * hot)] = ["hot"] * int(n * hot)
    return pa.table({"k": keys}, schema=ROWS)


def right(batches, sink):
    keys = pa.concat_tables(batches)["k"].to_pylist()
    return {row["k"]: row["n"] for row in sink.latest("k").to_pylist()} == {
        key: keys.count(key) for key in set(keys)
    }


def test_the_first_batch_follows_what_its_keys_show():
    batches, sink = [batch_of(i) for i in range(3)], Tables()
    job = job_of(ServiceTime(COUNTS, 0.001))
    ran = list(run_stream(job, MemoryStorage(), [batch_of(0, n=20_000)]))
    assert ran[0]["scheme"] in ("partial-key", "d-choices")
    assert "times its share" in ran[0]["reason"]
    even = list(run_stream(job, MemoryStorage(), [batch_of(0, hot=0.0)]))
    assert even[0]["scheme"] == "key"
    ran = list(run_stream(job_of(Dear(n=count())), MemoryStorage(), batches, sink))
    assert ran[0]["scheme"] in ("partial-key", "d-choices")
    assert right(batches, sink)


def test_what_the_first_batch_shows_is_written_down_before_it_is_used():
    """A driver dies once the plan is there; the next one would choose otherwise."""
    calls, batch = Faults(), batch_of(0)
    job = job_of(Dear(n=count()))
    list(run_stream(job, FaultyStorage(MemoryStorage(), calls), [batch]))
    (fixed,) = [i for i, call in enumerate(calls.log) if call.startswith("create plans/")]
    storage = MemoryStorage()
    dying = FaultyStorage(storage, Faults(crash_at=fixed, applied=True))
    with pytest.raises(Crash):
        list(run_stream(job, dying, [batch]))
    sink = Tables()
    [ran] = run_stream(job_of(COUNTS), storage, [batch], sink)
    assert ran["scheme"] in ("partial-key", "d-choices")
    assert right([batch], sink)


def test_the_scheme_changes_with_its_reason_logged_and_every_row_counts_once(caplog):
    caplog.set_level(logging.INFO, "evenflow")
    batches, sink = [batch_of(i) for i in range(4)], Tables()
    ran = list(run_stream(job_of(Dear(n=count())), MemoryStorage(), batches, sink))
    schemes = [metrics["scheme"] for metrics in ran]
    assert schemes[0] in ("partial-key", "d-choices")
    assert schemes[1:] == ["key"] * 3, "it was measured to be cheap"
    assert right(batches, sink)
    [line] = [text for text in caplog.messages if text.startswith("plan: ")]
    assert f"{schemes[0]} → key" in line
    assert "a row costs" in line
    assert f"key should take {ran[1]['reason'].partition('key should take ')[2]}" in line


def test_skewed_work_without_merge_gets_a_table_from_the_first_batch_on():
    """Several keys that share a partition by hash; none of them is too much for one."""
    names = [f"key {i}" for i in range(200)]
    prints = survey_of(pa.table({"k": names}, schema=ROWS), ("k",))
    assert prints.keys == 200
    batches, sink = [], Tables()
    chance = np.random.default_rng(0)
    for _ in range(3):
        drawn = [names[i] for i in chance.integers(0, 9, 9000)] + names
        batches.append(pa.table({"k": drawn}, schema=ROWS))
    job = job_of(Whole(COUNTS, 0.0), partitions=5)
    plain = list(run_stream(replace(job, scheme=make("key")), MemoryStorage(), batches))
    ran = list(run_stream(job, MemoryStorage(), batches, sink))
    assert plain[-1]["max_over_average"] > 1.3 > ran[-1]["max_over_average"]
    assert ran[-1]["scheme"] == "table"
    assert right(batches, sink)


def test_replan_asks_for_a_table_whatever_the_keys():
    job = job_of(PerKey(lambda key, rows, state: {"n": 1}, "n bigint"))
    assert first_plan(job).scheme == "key"
    assert first_plan(replace(job, replanning=Replanning())).scheme == "table"


def test_a_query_that_is_restarted_after_every_batch_goes_on_with_what_it_has_learned():
    batches = [batch_of(i) for i in range(6)]
    storage, before = MemoryStorage(), None
    job = job_of(ServiceTime(COUNTS, 0.0001))
    for number, rows in enumerate(batches):
        list(run_stream(job, storage, [rows], first=number))
        known = learned(Checkpoint.open(storage).last().memory)
        if before is not None:
            assert known.since in (0, before.since + 1)
            assert known.prices["row"][-6:-1] == before.prices["row"][-4:]
        before = known
    assert len(before.prices["row"]) == 5


def test_a_decision_depends_on_the_reports_and_the_manifest_alone():
    """Two drivers that read the same reports after the same manifest plan the same batch."""
    job, storage = job_of(ServiceTime(COUNTS, 0.001)), MemoryStorage()
    list(run_stream(job, storage, [batch_of(0, n=40)]))
    last = Checkpoint.open(storage).last()

    def report(partition, rows):
        return {
            "stage": "state",
            "split": False,
            "partition": partition,
            "rows": rows,
            "keys": 10,
            "seconds": 0.01 + rows * 0.001,
            "update_seconds": rows * 0.001,
            "started": 1.0,
            "top": [[str(partition), rows // 2, "hot"]],
            "floor": 1,
        }

    reports = Reports.read([json.dumps(report(i, n)) for i, n in enumerate([3000, 300, 200, 100])])
    plan = Plan("key", PARTITIONS)
    followed = []
    for _ in range(2):
        scheme = scheme_of(job, plan)
        choice, known = choose_next(job, plan, scheme, reports, 3.5, learned(last.memory))
        followed.append((following_plan(job, plan, reports, None, 2, choice), known))
    assert followed[0] == followed[1]
    assert followed[0][0].scheme in ("partial-key", "d-choices")
    seen = observed(plan, make("key"), reports, 3.5)
    assert (seen.load.fullest, seen.slots, seen.load.in_python) == (3000, 4, False)


def test_with_one_partition_left_nothing_is_split():
    job, storage = job_of(Dear(n=count())), MemoryStorage()
    list(run_stream(job, storage, [batch_of(0)]))
    reports = Reports((), ())
    choice, _ = choose_next(job, Plan("d-choices", 1), make("d-choices"), reports, 1.0, learned({}))
    assert choice.scheme == "key"


def test_keys_are_looked_at_only_where_that_can_pay():
    assert not survey_pays(job_of(COUNTS, 2), 2)
    assert survey_pays(job_of(COUNTS, 64), 64)
    assert not survey_pays(job_of(COUNTS, 64), 64, stream=True), "the second batch knows better"
    assert survey_pays(job_of(ServiceTime(COUNTS, 0.0)), 4, stream=True)
    assert survey_pays(job_of(ServiceTime(COUNTS, 0.0)), 4)
    assert not survey_pays(replace(job_of(ServiceTime(COUNTS, 0.0)), scheme=make("key")), 4)
    assert not survey_pays(job_of(ServiceTime(COUNTS, 0.0)), 1)


def test_a_survey_of_no_rows_leaves_the_first_plan():
    job = job_of(ServiceTime(COUNTS, 0.0))
    assert survey_of(ROWS.empty_table(), ("k",)) is None
    assert next_plan(job, None, 4) == first_plan(job)
    survey = survey_of(batch_of(0), ("k",))
    assert isinstance(survey, KeySurvey)
    assert max(survey.hot.counts.values()) >= 240
    assert survey.hot.total == 400
