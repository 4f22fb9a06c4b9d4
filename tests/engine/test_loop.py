"""The loop: a batch is passed over only if it is the very batch that was committed."""

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
from evenflow.model import InputError
from evenflow.operators import Aggregates, count
from evenflow.state.checkpoint import Checkpoint
from evenflow.state.source import Source
from evenflow.storage import MemoryStorage

ROWS = pa.table({"k": ["a", "b", "a"]})


class Log:
    """What the source's log says of each batch."""

    def __init__(self, query="q"):
        self.query, self.entries = query, {}

    def __call__(self, batch):
        return Source(self.query, self.entries.setdefault(batch, f"to {batch}"))


@pytest.fixture
def started():
    """(loop, log, sink) after 12 batches, of which ten manifests are kept."""
    job = Job(("k",), ROWS.schema, KeyedStates(Aggregates(n=ef.count())), make("key"), 2)
    checkpoint = Checkpoint.open(MemoryStorage(), job.identity())
    with checkpoint.acquire():
        sink, log = Tables(), Log()
        loop = Loop(KeyedProgram(job, sink, InProcess(1)), checkpoint, keep=10, source_of=log)
        for batch in range(12):
            loop(ROWS, batch)
        checkpoint.retain(10)
        yield loop, log, sink


def test_the_same_batch_is_passed_over(started):
    loop, _, sink = started
    before = dict(sink.tables)
    loop(ROWS, 11)
    loop(ROWS, 7)
    assert sink.tables == before


@pytest.mark.parametrize("batch", [11, 7])
def test_other_rows_under_a_committed_number_are_refused(started, batch):
    loop, log, _ = started
    log.entries[batch] = "to somewhere else"
    with pytest.raises(InputError, match=f"batch {batch} .* other rows"):
        loop(ROWS, batch)


def test_a_number_from_before_all_that_is_kept_is_refused(started):
    loop, _, _ = started
    with pytest.raises(InputError, match=r"batch 1 .* other rows"):
        loop(ROWS, 1)


def test_the_next_batch_of_another_log_is_refused(started):
    loop, log, _ = started
    log.query = "begun again"
    with pytest.raises(InputError, match=r"batch 12 comes from the log of another query"):
        loop(ROWS, 12)


def test_a_batch_that_is_run_again_has_the_same_origin_and_no_other_batch_has(started):
    _, log, _ = started
    origins = [log(batch).origin(batch) for batch in (3, 3, 4)]
    assert origins[0] == origins[1] != origins[2]


def test_a_query_that_is_restarted_often_leaves_no_garbage():
    """Runs shorter than the grace of garbage, as with `availableNow`: nobody sees it grow old."""
    storage = MemoryStorage()
    rows = pa.table({"k": [f"key {i}" for i in range(50)]})
    job = Job(("k",), rows.schema, KeyedStates(Aggregates(n=count())), make("key"), 4)
    objects = []
    for number in range(60):
        list(run_stream(job, storage, [rows], first=number))
        objects.append(len(storage.under("evenflow").list("segments/")))
    assert max(objects[40:]) <= max(objects[20:40]), objects
