"""The Parquet sink on stores without rename: what is there when a driver dies at any call."""

from dataclasses import replace
from itertools import product

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import evenflow as ef
from evenflow.engine.dead_letters import DeadLetters
from evenflow.engine.in_process import run_stream
from evenflow.engine.job import Job
from evenflow.engine.keyed_states import KeyedStates
from evenflow.engine.output import Output, Tables
from evenflow.grouping import make
from evenflow.operators import Aggregates
from evenflow.spark.output_places import discard_uncommitted
from evenflow.spark.sinks import ParquetSink, read_output
from evenflow.spark.sinks.parquet import complete_batches
from evenflow.state.checkpoint import Checkpoint
from evenflow.storage.delayed import DelayedStorage
from evenflow.storage.faults import Crash, Faults, FaultyStorage
from evenflow.storage.memory import MemoryStorage
from evenflow.storage.posix import PosixStorage
from state_driver import forget_leases

ROWS = pa.schema([("k", pa.string()), ("v", pa.int64())])
JOB = Job(("k",), ROWS, KeyedStates(Aggregates(n=ef.count(), total=ef.sum("v"))), make("key"), 3)
BATCHES = [
    pa.table({"k": [f"k{i % 5}" for i in range(20)], "v": list(range(20))}),
    pa.table({"k": ["hot"] * 9, "v": list(range(9))}),
]


def visible(storage):
    """Batch → the rows that a reader of the whole directory sees, those of half a batch as well."""
    found = {}
    for name in storage.list("batch="):
        batch = int(name.partition("/")[0].removeprefix("batch="))
        rows = pq.read_table(pa.BufferReader(storage.read(name))).to_pylist()
        found.setdefault(batch, []).extend(tuple(row.values()) for row in rows)
    return {batch: sorted(rows) for batch, rows in found.items()}


def run(checkpoint, sink):
    return list(run_stream(JOB, checkpoint, BATCHES, sink))


@pytest.fixture(scope="module")
def truth():
    out = MemoryStorage()
    run(MemoryStorage(), ParquetSink(out))
    return visible(out)


def test_other_stores_have_the_rows_of_posix(tmp_path, truth):
    run(MemoryStorage(), ParquetSink(PosixStorage(str(tmp_path))))
    assert visible(PosixStorage(str(tmp_path))) == truth
    assert [len(rows) for rows in truth.values()] == [5, 1]
    slow = DelayedStorage(MemoryStorage(), seconds=0.001)
    run(MemoryStorage(), ParquetSink(slow))
    assert visible(slow) == truth
    assert complete_batches(slow) == [0, 1]
    assert slow.list("_evenflow/staging/") == []


def test_killed_at_every_call_a_reader_sees_no_row_twice_and_complete_batches_whole(truth):
    """At each call to the output's store in turn, before it and after its effect; then again."""
    faults = Faults()
    run(MemoryStorage(), ParquetSink(FaultyStorage(MemoryStorage(), faults)))
    assert faults.calls > 15
    for at, applied in product(range(faults.calls), (False, True)):
        out, checkpoint = MemoryStorage(), MemoryStorage()
        dying = FaultyStorage(out, Faults(crash_at=at, applied=applied))
        with pytest.raises(Crash):
            run(checkpoint, ParquetSink(dying))
        for batch, rows in visible(out).items():
            assert len(rows) == len(set(rows)), (at, applied, batch)
            assert set(rows) <= set(truth[batch]), (at, applied, batch)
        for batch in complete_batches(out):
            assert visible(out)[batch] == truth[batch], (at, applied)
        run(checkpoint, ParquetSink(out))
        assert visible(out) == truth, (at, applied)
        assert complete_batches(out) == [0, 1]


@pytest.mark.parametrize("rows", [1, 3, 100])
def test_files_of_a_batch_are_put_together_with_the_same_rows(tmp_path, truth, rows):
    """`rowsPerFile`: fewer files, also where a driver dies at any call to the output's store."""
    posix, faults = PosixStorage(str(tmp_path)), Faults()
    run(MemoryStorage(), ParquetSink(posix, rows))
    assert visible(posix) == truth
    run(MemoryStorage(), ParquetSink(FaultyStorage(MemoryStorage(), faults), rows))
    for at, applied in product(range(0, faults.calls, 2), (False, True)):
        out, checkpoint = MemoryStorage(), MemoryStorage()
        with pytest.raises(Crash):
            run(checkpoint, ParquetSink(FaultyStorage(out, Faults(at, applied)), rows))
        run(checkpoint, ParquetSink(out, rows))
        assert visible(out) == truth, (at, applied)
    for storage in (posix, out):
        files = {}
        for name in storage.list("batch="):
            if name.endswith(".parquet"):
                files.setdefault(name.partition("/")[0], []).append(name)
        most = {1: 3, 3: 2, 100: 1}[rows]
        assert all(len(names) <= most for names in files.values())
        assert not [name for name in storage.list("_evenflow/staging/") if "together" in name]


def test_a_batch_that_is_delivered_again_has_the_same_names(truth):
    """Two drivers at once, one of which was frozen: each copies the same rows to the same names."""
    out = MemoryStorage()
    sink = ParquetSink(out)
    staging = sink.staging(MemoryStorage())
    content = pa.BufferOutputStream()
    pq.write_table(pa.table({"k": ["a"], "n": [1]}), content)
    for attempt in ("aa", "bb"):
        for partition in (0, 4):
            name = f"staging/0000000007-{partition:05d}-{attempt}.parquet"
            staging.put(name, [content.getvalue()])
        files = [name for name in staging.list("staging/") if attempt in name]
        sink.deliver(Output(7, staging, files, pa.schema([]), "mine"), None)
        names = ["batch=7/part-00000.parquet", "batch=7/part-00004.parquet"]
        assert out.list("batch=") == names
        if attempt == "aa":
            out.delete("_evenflow/complete/0000000007")  # as if it had died before that
            out.put("batch=7/part-00009.parquet", [b"somebody else's"])
    for batch in range(8, 30):
        sink.deliver(Output(batch, staging, [], pa.schema([]), "mine"), None)
    assert complete_batches(out) == list(range(20, 30))


@pytest.mark.parametrize("kind", ["posix", "memory"])
def test_the_output_of_another_query_is_refused(tmp_path, kind):
    storage = PosixStorage(str(tmp_path)) if kind == "posix" else MemoryStorage()
    sink = ParquetSink(storage)
    empty = Output(0, sink.staging(storage), [], pa.schema([]), "mine")
    sink.deliver(empty, None)
    sink.deliver(empty, None)
    with pytest.raises(ef.InputError, match="another query"):
        sink.deliver(replace(empty, query="other"), None)


@pytest.mark.spark
def test_output_without_a_complete_batch_is_refused(spark):
    with pytest.raises(ef.InputError, match="no complete batch"):
        read_output(spark, "memory://nothing-here")


@pytest.mark.parametrize("kind", ["posix", "memory"])
def test_a_batch_of_another_history_is_refused_and_never_dropped(tmp_path, kind):
    """The checkpoint was restored from a backup: batch 7 has other rows than the output's batch 7."""
    sink = ParquetSink(PosixStorage(str(tmp_path)) if kind == "posix" else MemoryStorage())
    staging = sink.staging(sink.storage)
    content = pa.BufferOutputStream()
    pq.write_table(pa.table({"k": ["a"], "n": [1]}), content)
    for batch in (7, 8):
        name = f"staging/{batch:010d}-00000-aa.parquet"
        staging.put(name, [content.getvalue()])
        output = Output(batch, staging, [name], pa.schema([]), "mine", f"origin of {batch}")
        sink.deliver(output, None)
    sink.deliver(output, None)  # the same batch again, by a driver that did not know
    for files in (output.files, []):
        with pytest.raises(ef.InputError, match=r"has batch 8, .* restored from a backup.* remove"):
            sink.deliver(replace(output, origin="another", files=files), None)
    with pytest.raises(ef.InputError, match=r"has batch 7, .* restored from a backup"):
        sink.deliver(replace(output, batch=7, origin="another"), None)


def poisoned(key, rows, state):
    if FAILS.intersection(rows["v"].tolist()):
        raise ValueError("bad")
    return {"n": (state or {"n": 0})["n"] + len(rows["v"])}


FAILS = set()


@pytest.mark.parametrize("kind", ["posix", "memory"])
def test_dead_letters_of_a_batch_that_was_not_committed_are_those_of_its_next_run(tmp_path, kind):
    """The driver dies once they are delivered, and the function is corrected for one of the rows."""

    class Dying(Tables):
        def deliver(self, output, session):
            raise Crash(f"batch {output.batch}")

    rows = [pa.table({"k": ["a", "b"], "v": [i, i + 100]}) for i in range(3)]
    operator = ef.PerKey(poisoned, state={"n": "int64"}, columns=["v"])
    job = Job(("k",), rows[0].schema, KeyedStates(operator), make("key"), 2)
    checkpoint = MemoryStorage()
    place = PosixStorage(str(tmp_path)) if kind == "posix" else MemoryStorage()
    letters = DeadLetters(ParquetSink(place))

    def go(sink, batches):
        opened = Checkpoint.open(checkpoint, job.identity())
        discard_uncommitted(letters, opened)
        list(run_stream(job, checkpoint, batches, sink, dead_letters=letters))

    def found():
        """Batch → the values of the rows that were set aside."""
        return {
            batch: [record["v"] for row in rows for record in row if isinstance(record, dict)]
            for batch, rows in visible(place).items()
        }

    FAILS.update({0, 1, 101, 2})
    sink = Tables()
    go(sink, rows[:1])
    with pytest.raises(Crash):
        go(Dying(), rows[:2])
    forget_leases()
    assert found() == {0: [0], 1: [1, 101]}
    FAILS.discard(101)
    go(sink, rows)
    assert found() == {0: [0], 1: [1], 2: [2]}
    assert {row["k"]: row["n"] for row in sink.latest("k").to_pylist()} == {"b": 3}
    # An older checkpoint is another history.
    with pytest.raises(ef.InputError, match="restored from a backup"):
        ParquetSink(place).discard(1)
