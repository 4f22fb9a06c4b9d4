"""The number of partitions follows the load: the whole engine in one process and in virtual time."""

import json
from dataclasses import replace
from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest

from evenflow.engine import tally
from evenflow.engine.in_process import run_stream
from evenflow.engine.job import Job
from evenflow.engine.keyed_states import KeyedStates
from evenflow.engine.output import Tables
from evenflow.grouping import make
from evenflow.model import Plan
from evenflow.operators import Aggregates, count
from evenflow.operators.service_time import ServiceTime
from evenflow.planning.scaling import Scaling
from evenflow.state.checkpoint import Checkpoint
from evenflow.state.journal import request_partitions
from evenflow.storage.faults import Crash, Faults, FaultyStorage
from evenflow.storage.memory import MemoryStorage

COST, OVERHEAD = 0.05, 2.0  # seconds per row, and of every batch
BEGAN = 1_700_000_000.0


class VirtualTime:
    """A clock that moves only while somebody sleeps: one task at a time, as the engine runs them."""

    def __init__(self):
        self.now = 0.0

    def read(self):
        return self.now

    def sleep(self, seconds):
        self.now += seconds


@pytest.fixture
def clock(monkeypatch):
    clock = VirtualTime()
    virtual = SimpleNamespace(time=clock.read, perf_counter=clock.read, process_time=clock.read)
    monkeypatch.setattr(tally, "time", virtual)
    return clock


def job_of(clock, scheme="d-choices", scaling=Scaling(most=32), partitions=4):  # noqa: B008
    operator = ServiceTime(Aggregates(n=count()), COST, clock.sleep)
    schema = pa.schema([("k", pa.string())])
    scheme = None if scheme is None else make(scheme)
    return Job(("k",), schema, KeyedStates(operator), scheme, partitions, scaling=scaling)


def doubling(t):
    """40 rows per second, 80, 160, 80, 40: two minutes each."""
    return 40 * (1, 2, 4, 2, 1)[min(int(t / 120), 4)]


def long_after(batch):
    return round(1000 * (BEGAN + 10_000 + batch))


class Feed:
    """Rows that arrive while the batch before is being worked on, and when each batch begins."""

    def __init__(self, load, seconds, seed=7):
        self.load, self.seconds = load, seconds
        self.chance = np.random.default_rng(seed)
        self.before, self.now, self.moments, self.last = 0.0, 4.0, [], None
        self.lags = []

    def __iter__(self):
        while self.now < self.seconds:
            expected = self.load(self.now) * (self.now - self.before)
            keys = self.chance.integers(0, 500, self.chance.poisson(expected))
            self.moments.append(self.now)
            yield pa.table({"k": [f"key {key}" for key in keys.tolist()]})
            work = max((one["seconds"] for one in self.last["partitions"]), default=0.0)
            end = self.now + OVERHEAD + work
            self.lags.append(end - self.before)
            self.before, self.now = self.now, end

    def moment(self, batch):
        return round(1000 * (BEGAN + self.moments[batch]))


def run(job, storage, feed, **more):
    found = []
    for metrics in run_stream(job, storage, feed, moments=feed.moment, **more):
        feed.last = metrics
        found.append(metrics)
    return found


@pytest.mark.parametrize("scheme", ["d-choices", "key", "table", None])
def test_partitions_follow_a_load_that_doubles_and_halves(clock, scheme):
    feed, sink = Feed(doubling, 600), Tables()
    found = run(job_of(clock, scheme), MemoryStorage(), feed, sink=sink)
    sizes = [metrics["planned_partitions"] for metrics in found]
    steps = [b > a for a, b in pairwise(sizes) if a != b]
    assert sum(a != b for a, b in pairwise(steps)) == 1  # up, then down, as the load
    assert max(feed.lags) < 40
    at = dict(zip(feed.moments, sizes, strict=True))
    for begin in range(0, 600, 120):
        settled = [n for moment, n in at.items() if begin + 90 <= moment < begin + 120]
        assert doubling(begin) * COST / 0.85 <= np.mean(settled), begin
    assert sizes[-1] < max(sizes) / 2
    counted = sink.latest("k").to_pylist()
    assert sum(row["n"] for row in counted) == sum(metrics["rows"] for metrics in found)


def test_the_metrics_and_the_log_say_why(clock, caplog):
    caplog.set_level("INFO", "evenflow.plan")
    found = run(job_of(clock), MemoryStorage(), Feed(lambda t: 160.0, 60))
    grown = next(b for a, b in pairwise(found) if b["planned_partitions"] > 4)
    assert "rows per second arrive, a partition does 20 rows per second of work" in grown["reason"]
    assert grown["reason"].startswith("the busiest partition has to work")
    assert found[-1]["scaling"]["true_rate"] == pytest.approx(1 / COST, rel=1e-3)
    assert found[-1]["scaling"]["load"] < 0.85
    words = [record.getMessage() for record in caplog.records]
    assert any(f"4 → {grown['planned_partitions']} partitions" in line for line in words)


def test_the_decision_is_in_the_plan_of_the_next_batch_and_stays_after_a_crash(clock):
    """Killed at every call of a stream that grows: each run comes to the same numbers."""

    whole = MemoryStorage()
    calls = Faults()
    run(job_of(clock), FaultyStorage(whole, calls), Feed(lambda t: 160.0, 40))
    places = [i for i, call in enumerate(calls.log) if call.startswith(("create ", "put metrics"))]
    for place in places[:: max(1, len(places) // 8)]:
        storage, feed = MemoryStorage(), Feed(lambda t: 160.0, 40)
        dying = FaultyStorage(storage, Faults(crash_at=place, applied=True))
        with pytest.raises(Crash):
            run(job_of(clock), dying, feed)
        committed = Checkpoint.open(storage).last()
        planned = None if committed is None else Plan.from_dict(committed.plan).partitions
        first = 0 if committed is None else committed.batch + 1
        rest = pa.table({"k": ["key 1"] * 50})
        [after] = run_stream(job_of(clock), storage, [rest], first=first, moments=long_after)
        assert after["planned_partitions"] == (planned or 4)
        assert (
            after["scaling"]["interval_seconds"] is None
        )  # nothing ran meanwhile: it says nothing


def test_the_manifest_has_all_that_the_next_decision_needs(clock):
    storage = MemoryStorage()
    run(job_of(clock), storage, Feed(lambda t: 60.0, 30))
    last = Checkpoint.open(storage).last()
    assert json.loads(json.dumps(last.scaling)) == last.scaling
    assert last.scaling["seen"]


def test_a_number_that_the_user_names_counts_until_auto_is_asked_for_again(clock):
    storage, feed = MemoryStorage(), Feed(lambda t: 120.0, 150)
    found = []
    for metrics in run_stream(job_of(clock), storage, feed, moments=feed.moment):
        feed.last = metrics
        found.append(metrics)
        if len(found) == 3:
            request_partitions(storage.under("evenflow"), 7, "auto")
        if len(found) == 6:
            request_partitions(storage.under("evenflow"), "auto", "auto")
    sizes = [metrics["planned_partitions"] for metrics in found]
    assert sizes[3:6] == [7, 7, 7]
    assert all("scaling" not in metrics for metrics in found[3:6])
    assert sizes[-1] > 8


def test_a_query_with_a_fixed_number_may_be_left_to_the_load_within_that_number(clock):
    job = job_of(clock, scaling=None, partitions=8)
    storage, feed = MemoryStorage(), Feed(lambda t: 40.0, 120)
    request_partitions(storage.under("evenflow"), "auto", 8)
    sizes = [m["planned_partitions"] for m in run(job, storage, feed)]
    assert sizes[0] == 8
    assert 3 <= sizes[-1] <= 5


def test_other_limits_after_a_restart_hold_from_the_next_batch_on(clock):
    storage = MemoryStorage()
    run(job_of(clock), storage, Feed(lambda t: 160.0, 40))
    narrow = replace(job_of(clock), scaling=Scaling(most=6))
    feed = Feed(lambda t: 160.0, 60)
    feed.moments = [0.0] * (Checkpoint.open(storage).last().batch + 1)
    first = len(feed.moments)
    assert {m["planned_partitions"] for m in run(narrow, storage, feed, first=first)} == {6}
