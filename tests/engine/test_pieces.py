"""More than 2 GiB in one task: what no array of Arrow's plain types holds is worked on in pieces."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import evenflow as ef
from evenflow.engine import keyed_states, pieces, task
from evenflow.engine.batch import Batch
from evenflow.engine.in_process import run_stream
from evenflow.engine.job import Job
from evenflow.engine.keyed_states import KeyedStates
from evenflow.engine.layout import FINGERPRINT, REPORT
from evenflow.engine.output import Tables
from evenflow.engine.windowed_states import WindowedStates
from evenflow.engine.work import OwnerTask
from evenflow.grouping import make
from evenflow.kernels.fingerprints import fingerprint
from evenflow.operators import Aggregates, Operator, Window
from evenflow.state.segments import Segment
from evenflow.storage import MemoryStorage
from evenflow.storage.posix import PosixStorage

ROWS = pa.schema([("k", pa.string()), ("text", pa.string()), ("at", pa.timestamp("us"))])


@dataclass(frozen=True)
class Joined(Operator):
    """All texts of a key, one after the other: state as long as its rows."""

    name: ClassVar[str] = "joined"

    def state_schema(self, rows):
        return pa.schema([("bytes", pa.binary())])

    def output_schema(self, rows):
        return pa.schema([("length", pa.int64()), ("ends", pa.int64())])

    def update(self, rows, state):
        assert state.schema.field("bytes").type == pa.binary()
        parts = [[b"" if old is None else old] for old in state.column("bytes").to_pylist()]
        for group, text in zip(rows.group, rows.table.column("text").to_pylist(), strict=True):
            parts[group].append(text.encode())
        return pa.table({"bytes": pa.array([b"".join(part) for part in parts], pa.binary())})

    def emit(self, keys, state):
        values = state.column("bytes").to_pylist()
        ends = [value[0] + value[-1] for value in values]
        return pa.table({"length": pa.array(map(len, values), pa.int64()), "ends": ends})


def batches(n=4, rows=300):
    chance = np.random.default_rng(5)
    for _ in range(n):
        keys = chance.zipf(1.4, rows) % 40
        texts = [chr(97 + x % 26) * int(x) for x in chance.integers(1, 90, rows)]
        at = pa.array(chance.integers(0, 10**7, rows), pa.int64()).cast(pa.timestamp("us"))
        yield pa.table([pa.array([f"key {k}" for k in keys]), pa.array(texts), at], schema=ROWS)


DISTINCT = Aggregates(kinds=ef.distinct("text"), last=ef.max("text"), top=ef.top_k("text", 2))
WORK = {
    "distinct values": KeyedStates(DISTINCT),
    "large states": KeyedStates(Joined()),
    "windows": WindowedStates(DISTINCT, Window("at", size=10**6, slide=5 * 10**5)),
    "windows of large states": WindowedStates(Joined(), Window("at", size=10**6, slide=10**6)),
}


def output(work, scheme):
    sink = Tables()
    job = Job(("k",), ROWS, work, make(scheme), 3)
    list(run_stream(job, MemoryStorage(), batches(), sink))
    return Counter(str(row) for row in sink.table().to_pylist())


@pytest.mark.parametrize("what", WORK)
@pytest.mark.parametrize("scheme", ["key", "w-choices"])
def test_work_in_pieces_gives_the_same_answer(monkeypatch, what, scheme):
    work = WORK[what]
    if scheme == "w-choices" and not work.mergeable:
        pytest.skip("cannot be split")
    expected = output(work, scheme)
    cut = []
    whole = pieces.pieces

    def counted(table):
        cut.append(list(whole(table)))
        return iter(cut[-1])

    for module in (pieces, keyed_states):
        monkeypatch.setattr(module, "pieces", counted)
    monkeypatch.setattr(pieces, "MOST", 3000)
    monkeypatch.setattr(task, "CHUNK_BYTES", 4000)
    assert output(work, scheme) == expected
    assert max(map(len, cut)) > 3


def test_pieces_hold_all_rows_in_order_and_no_more_than_they_may(monkeypatch):
    monkeypatch.setattr(pieces, "MOST", 1000)
    sizes = np.random.default_rng(0).integers(0, 1500, 200)
    table = pa.table({"x": pa.array([b"x" * size for size in sizes.tolist()], pa.large_binary())})
    found = list(pieces.pieces(table))
    assert [start for start, _ in found] == [0, *(stop for _, stop in found[:-1])]
    assert found[-1][1] == 200
    for start, stop in found:
        assert stop == start + 1 or sizes[start:stop].sum() <= 1000


def own(job, storage, segments, number, rows):
    """The segment and the output of an owner's task, from (key, text) pairs, a record batch each."""
    batch = Batch(
        number, storage, storage, segments, {0: lambda prints: prints.astype(np.int32) * 0}, 0
    )

    def routed(key, text):
        name = pa.array([f"key {key}"])
        columns = [pa.array(fingerprint(name).view(np.int64)), name, pa.array([text])]
        columns.append(pa.nulls(1, ROWS.field("at").type))
        return pa.record_batch(columns, [FINGERPRINT, *ROWS.names])

    (answer,) = OwnerTask(job, split=False, batch=batch)(0, (routed(*row) for row in rows))
    report = json.loads(answer.column(REPORT)[0].as_py())
    table = pq.read_table(pa.BufferReader(storage.read(report["output"]["file"])))
    return Segment.from_json(report["segment"]), table


@pytest.mark.long
def test_one_task_stores_more_than_2_gib_of_state(tmp_path, monkeypatch):
    """54 keys of 40 MB each; some are looked up in the next batch."""
    monkeypatch.setattr(task, "CHUNK_BYTES", 1 << 30)  # fewer copies, and less time
    keys, size, again = 54, 40_000_000, 3
    job, storage = (
        Job(("k",), ROWS, KeyedStates(Joined()), make("key"), 1),
        PosixStorage(str(tmp_path)),
    )
    segment, output = own(job, storage, (), 0, ((k, "x" * size) for k in range(keys)))
    assert output.column("length").to_pylist() == [size] * keys
    assert segment.bytes > 2**31
    _, output = own(job, storage, (segment,), 1, ((k, "y") for k in range(again)))
    assert output.column("length").to_pylist() == [size + 1] * again


@pytest.mark.long
def test_one_task_takes_more_than_2_gib_of_rows():
    """550,000 rows of 4 KB, by a task as Spark runs it: batch after batch."""
    job = Job(
        ("k",), ROWS, KeyedStates(Aggregates(n=ef.count(), last=ef.max("text"))), make("key"), 1
    )
    n = 5_000
    texts = pa.array(["y" * 4096] * n)
    batch = pa.record_batch(
        [pa.array([f"key {i % 7}" for i in range(n)]), texts, pa.nulls(n, ROWS[2].type)],
        schema=ROWS,
    )
    (found,) = OwnerTask(job, split=False)(0, iter([batch] * 110))
    assert sum(found.column("n").to_pylist()) == 110 * n
    assert found.num_rows == 7
