"""The batch without rows at the end: windows that event time has passed are put out, once."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import evenflow as ef
from evenflow.engine.in_process import InProcess, run_stream
from evenflow.engine.job import Job
from evenflow.engine.loop import Loop
from evenflow.engine.output import Tables
from evenflow.engine.program import KeyedProgram
from evenflow.engine.session_states import SessionStates
from evenflow.engine.windowed_states import WindowedStates
from evenflow.grouping import make
from evenflow.operators import Aggregates, Window
from evenflow.operators.sessions import Session
from evenflow.spark.sinks.parquet import ParquetSink
from evenflow.state.checkpoint import Checkpoint
from evenflow.state.source import Source
from evenflow.state.verification import verify
from evenflow.storage.faults import Crash, Faults, FaultyStorage
from evenflow.storage.memory import MemoryStorage
from naive_windows import ROWS, table_of

COUNT = Aggregates(n=ef.count())
WINDOW = Window("ts", 10, 5, 5, mode="append")
JOBS = {
    "split": Job(("k",), ROWS, WindowedStates(COUNT, WINDOW), make("w-choices"), 3),
    "moved": Job(("k",), ROWS, WindowedStates(COUNT, WINDOW), make("table"), 3),
    "auto": Job(("k",), ROWS, WindowedStates(COUNT, WINDOW), None, 3),
    "sessions": Job(("k",), ROWS, SessionStates(COUNT, Session("ts", 6, delay=5)), make("key"), 3),
}


def rows_of(batch):
    chance = np.random.default_rng(batch)
    return table_of(
        [(f"k{int(k)}", 20 * batch + int(t), 1) for k, t in chance.integers(0, 20, (12, 2))]
    )


def run(job, storage, sink, batches, first=0, close=False):
    return list(run_stream(job, storage, batches, sink, first=first, close=close))


@pytest.mark.parametrize("name", JOBS)
def test_what_event_time_has_passed_is_put_out_at_the_end_and_not_again(name):
    """The stream goes on afterwards: the source counts on, and rows of what was closed are late."""
    job, storage, sink = JOBS[name], MemoryStorage(), Tables()
    metrics = run(job, storage, sink, [rows_of(0), rows_of(1)], close=True)
    assert [m["batch"] for m in metrics] == [0, 1, 2]
    assert metrics[2]["rows"] == 0
    assert metrics[2]["closed_windows"] == sink.tables[2].num_rows > 0
    assert run(job, storage, sink, [], close=True) == []  # there is nothing more
    metrics = run(job, storage, sink, [rows_of(0), rows_of(2)], first=2, close=True)
    assert [m["batch"] for m in metrics] == [3, 4, 5]
    assert metrics[0]["late_rows"] == 12  # not so, had there been no batch at the end
    last = Checkpoint.open(storage).last()
    assert (last.batch, last.closings, last.source_batch) == (5, 2, 3)
    column = job.work.window.name
    windows = [(row["k"], str(row[column])) for row in sink.table().to_pylist()]
    assert len(windows) == len(set(windows))
    assert not verify(storage).problems


@pytest.mark.parametrize("name", JOBS)
def test_a_last_batch_that_is_killed_at_any_storage_call_is_run_again(name):
    job = JOBS[name]
    batches = [rows_of(0), rows_of(1)]
    whole = Tables()
    run(job, MemoryStorage(), whole, batches, close=True)
    before = MemoryStorage()
    run(job, before, Tables(), batches)
    call = 0
    while True:
        storage, sink = MemoryStorage(), Tables()
        for one in before.list(""):
            storage.put(one, [before.read(one)])
        faulty = FaultyStorage(storage, Faults(crash_at=call, applied=call % 2 == 0))
        try:
            run(job, faulty, sink, [], close=True)
            break
        except Crash:
            run(job, storage, sink, [], close=True)
        if 2 in sink.tables:  # else it was committed, and only its metrics were still to come
            assert rows_in(sink.tables[2]) == rows_in(whole.tables[2]), call
        assert Checkpoint.open(storage).last().closings == 1
        call += 7
    assert call > 20


def rows_in(table: pa.Table) -> list[str]:
    return sorted(map(str, table.to_pylist()))


class Cut(Exception):
    """The driver ends here."""


@pytest.mark.parametrize("name", JOBS)
@pytest.mark.parametrize("where", ["delivered", "planned"])
def test_a_last_batch_that_was_cut_stays_one_when_more_rows_come(name, where, monkeypatch):
    """Else its output, which may be there already, would be taken for that of the new rows."""
    job, sources = JOBS[name], [Source("q", f"to {batch}") for batch in range(4)]
    storage, place = MemoryStorage(), MemoryStorage()
    sink, whole = ParquetSink(place), Tables()
    run(job, MemoryStorage(), whole, [rows_of(0), rows_of(1)], close=True)

    def loop(checkpoint, sink=sink):
        return Loop(KeyedProgram(job, sink, InProcess()), checkpoint, source_of=sources.__getitem__)

    checkpoint = Checkpoint.open(storage, job.identity())
    first = loop(checkpoint)
    for batch in range(2):
        first(rows_of(batch), batch)
    cut = Checkpoint if where == "delivered" else KeyedProgram
    with monkeypatch.context() as dying:
        dying.setattr(cut, "commit" if where == "delivered" else "_reports", killed)
        with pytest.raises(Cut):
            loop(Checkpoint.open(storage)).close(ROWS.empty_table())
    again = loop(Checkpoint.open(storage))
    again(pa.concat_tables([rows_of(0), rows_of(2)]), 2)
    again(rows_of(3), 3)
    last = Checkpoint.open(storage).last()
    assert (last.batch, last.closings, last.source_batch) == (4, 1, 3)
    assert delivered(place, 2) == rows_in(whole.tables[2])
    column = job.work.window.name
    windows = [(row["k"], str(row[column])) for n in range(5) for row in read(place, n)]
    assert len(windows) == len(set(windows))


def killed(*_):
    raise Cut


def read(place, batch):
    files = [place.read(name) for name in place.list(f"batch={batch}/")]
    return [row for file in files for row in pq.read_table(pa.BufferReader(file)).to_pylist()]


def delivered(place, batch):
    return sorted(map(str, read(place, batch)))
