"""Tries of a batch that fail leave nothing behind that grows."""

import pyarrow as pa
import pytest

import evenflow as ef
from evenflow.engine.in_process import run_stream
from evenflow.engine.job import Job
from evenflow.engine.keyed_states import KeyedStates
from evenflow.engine.output import Tables
from evenflow.grouping import make
from evenflow.operators import Aggregates
from evenflow.storage import MemoryStorage

ROWS = pa.table({"k": [f"key {number}" for number in range(500)]})


class Broken(Tables):
    """A sink that takes nothing."""

    def deliver(self, output, session):
        raise ConnectionError("the sink is gone")


def job(scheme="key", partitions=2):
    return Job(("k",), ROWS.schema, KeyedStates(Aggregates(n=ef.count())), make(scheme), partitions)


@pytest.mark.parametrize("scheme", ["key", "w-choices"])
def test_a_batch_that_fails_again_and_again_leaves_one_copy(scheme):
    storage = MemoryStorage()
    list(run_stream(job(scheme), storage, [ROWS]))
    sizes = []
    for _ in range(5):
        with pytest.raises(ConnectionError):
            list(run_stream(job(scheme), storage, [ROWS, ROWS], Broken()))
        # Of the takeovers, some hundred bytes each, the last few stay.
        small = ("evenflow/lease/", "evenflow/manifests/")
        files = [name for name in storage.list("") if not name.startswith(small)]
        sizes.append(sum(storage.size(name) for name in files))
    assert max(sizes) - min(sizes) < 100  # reports have seconds in them
    sink = Tables()
    list(run_stream(job(scheme), storage, [ROWS, ROWS], sink))
    assert set(sink.latest("k").column("n").to_pylist()) == {2}


def test_a_batch_whose_tasks_failed_takes_the_partitions_of_the_next_start(monkeypatch):
    """More partitions are what helps where a batch is too large for one task."""
    from evenflow.engine import work

    storage, real = MemoryStorage(), work.OwnerTask.__call__

    def too_large(task, partition, batches):
        raise MemoryError("too many rows for one task")

    list(run_stream(job(), storage, [ROWS]))
    monkeypatch.setattr(work.OwnerTask, "__call__", too_large)
    with pytest.raises(MemoryError):
        list(run_stream(job(), storage, [ROWS, ROWS]))
    monkeypatch.setattr(work.OwnerTask, "__call__", real)
    (metrics,) = run_stream(job(partitions=8), storage, [ROWS, ROWS])
    assert len(metrics["partitions"]) == 8


def test_a_batch_that_was_delivered_keeps_its_plan():
    storage = MemoryStorage()
    list(run_stream(job(), storage, [ROWS]))
    with pytest.raises(ConnectionError):
        list(run_stream(job(), storage, [ROWS, ROWS], Broken()))
    (metrics,) = run_stream(job(partitions=8), storage, [ROWS, ROWS])
    assert len(metrics["partitions"]) == 2
