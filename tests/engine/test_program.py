"""A batch on a remote store: the answer of a local one, in few requests, which the metrics show."""

import numpy as np
import pyarrow as pa
import pytest

import evenflow as ef
from evenflow.engine.in_process import InProcess, run_stream
from evenflow.engine.job import Job
from evenflow.engine.keyed_states import KeyedStates
from evenflow.engine.loop import Loop
from evenflow.engine.output import Tables
from evenflow.engine.program import KeyedProgram
from evenflow.grouping import make
from evenflow.model import EvenflowError
from evenflow.operators import Aggregates
from evenflow.spark.batch_metrics import metrics_table
from evenflow.state.checkpoint import Checkpoint
from evenflow.state.metrics import read_metrics
from evenflow.storage import MemoryStorage
from evenflow.storage.delayed import DelayedStorage

ROWS = pa.schema([("k", pa.int64()), ("v", pa.int64())])
COUNTS = Aggregates(n=ef.count(), total=ef.sum("v"))
PARTITIONS, BATCHES = 4, 6


@pytest.fixture(autouse=True)
def cache_directory(tmp_path, monkeypatch):
    monkeypatch.setenv("EVENFLOW_CACHE_DIR", str(tmp_path))


def batches():
    chance = np.random.default_rng(7)
    return [
        pa.table({"k": chance.zipf(1.3, 400) % 300, "v": chance.integers(0, 9, 400)}, schema=ROWS)
        for _ in range(BATCHES)
    ]


def ran(storage, scheme):
    job, sink = Job(("k",), ROWS, KeyedStates(COUNTS), make(scheme), PARTITIONS), Tables()
    return list(run_stream(job, storage, batches(), sink)), sink.latest("k").sort_by("k")


# scheme → requests of the driver and of the tasks in a batch, by kind, at most
BOUNDS = {
    "key": ({"reads": 1 + 4, "writes": 2, "deletes": 1}, {"writes": 4 + 4}),
    "w-choices": ({"reads": 1 + 4 + 4, "writes": 2, "deletes": 1}, {"writes": 4 + 4 + 4}),
    "table": ({"reads": 1 + 4 + 4, "writes": 2, "deletes": 1}, {"writes": 4 + 4 + 4}),
}


@pytest.mark.parametrize("scheme", BOUNDS)
def test_a_batch_is_few_requests_and_none_of_its_tasks_reads_what_they_wrote(scheme):
    """The driver: resizing, plan, reports, output, costs, commit, staged files; a task: output, state,
    and report or costs."""
    local, remote = MemoryStorage(), DelayedStorage(MemoryStorage(), 0)
    plain, expected = ran(local, scheme)
    metrics, found = ran(remote, scheme)
    assert found == expected
    assert all("requests" not in batch for batch in plain)
    for batch in metrics[1:]:  # the first of a driver also looks for the newest manifest
        for made, bounds in zip(
            (batch["requests"]["driver"], batch["requests"]["tasks"]), BOUNDS[scheme], strict=True
        ):
            for kind in ("reads", "writes", "lists", "deletes"):
                assert made.get(kind, 0) <= bounds.get(kind, 0), (batch["batch"], kind, made)
    assert metrics[-1]["requests"]["tasks"]["cached_bytes"] > 0


def test_requests_are_kept_with_the_metrics_and_in_their_table():
    storage = MemoryStorage()
    metrics, _ = ran(DelayedStorage(storage, 0), "key")
    assert read_metrics(storage.under("evenflow"))[-1]["requests"] == metrics[-1]["requests"]
    row = metrics_table(metrics).to_pylist()[-1]["requests"]
    assert row["tasks"]["writes"] == 8
    assert row["driver"]["deletes"] == 1


def test_a_new_executor_reads_what_others_wrote_in_few_requests(tmp_path, monkeypatch):
    """At most three rounds for each of the segments that the task's keys may be in."""
    storage, job = MemoryStorage(), Job(("k",), ROWS, KeyedStates(COUNTS), make("key"), PARTITIONS)
    remote = DelayedStorage(storage, 0)
    list(run_stream(job, remote, batches()))
    monkeypatch.setenv("EVENFLOW_CACHE_DIR", str(tmp_path / "another"))
    (metrics,) = run_stream(job, remote, batches()[:1], first=BATCHES)
    segments = 4 * (1 + 300 // PARTITIONS).bit_length()
    assert metrics["requests"]["tasks"]["reads"] <= 3 * segments


class Forgetful(InProcess):
    """Does not run the task of an owner, or tells of one twice."""

    def run(self, rows, stages):
        reports = super().run(rows, stages)
        return reports[1:] if stages.batch.number == 1 else [*reports, *reports[self.sources :]]


@pytest.mark.parametrize(("sources", "batch"), [(4, 1), (3, 0)], ids=["left out", "twice"])
def test_a_batch_whose_owners_have_not_each_reported_once_does_not_count(sources, batch):
    """State that moves to such an owner would be lost without a word, or its output be there twice."""
    job = Job(("k",), ROWS, KeyedStates(COUNTS), make("key"), 4)
    checkpoint, sink = Checkpoint.open(MemoryStorage(), job.identity()), Tables()
    loop = Loop(KeyedProgram(job, sink, Forgetful(sources)), checkpoint)
    for number in range(batch):
        loop(batches()[number], number)
    with pytest.raises(
        EvenflowError, match=r"of 4 partitions, . have reported, and not one by one"
    ):
        loop(batches()[batch], batch)
    last = checkpoint.last()
    assert (-1 if last is None else last.batch, len(sink.tables)) == (batch - 1, batch)
