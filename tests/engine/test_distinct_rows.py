"""Deduplication of streams: which rows are put out, which are late, and when a key is forgotten."""

from functools import partial

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import evenflow as ef
from evenflow.engine import distinct_rows
from evenflow.engine.distinct_rows import DistinctRows
from evenflow.engine.in_process import run_stream
from evenflow.engine.job import Job
from evenflow.engine.output import Tables
from evenflow.engine.session_states import SessionStates
from evenflow.engine.task import chunks
from evenflow.grouping import make
from evenflow.operators import Aggregates
from evenflow.operators.deduplication import Deduplication
from evenflow.operators.sessions import Session
from evenflow.state.checkpoint import Checkpoint
from evenflow.state.verification import verify_segment
from evenflow.storage.memory import MemoryStorage
from naive_windows import ROWS, NaiveDistinct, table_of, tables
from windowed_run import LocalRun

RULES = {
    "plain": (("k",), False, False),
    "time in the key": (("k", "ts"), False, False),
    "watermark beside": (("k",), True, False),
    "within": (("k",), True, True),
}

rows = st.tuples(
    st.sampled_from(["a", "a", "b", "c", "", None]),
    st.one_of(st.none(), st.integers(0, 60)),
    st.integers(0, 3),
)
batches = st.lists(st.lists(rows, max_size=12), min_size=1, max_size=6)


def job_of(kind, delay):
    keys, marked, within = RULES[kind]
    column = "ts" if marked or "ts" in keys else None
    rule = Deduplication(keys, ("ts", "k", "v"), column, delay, within)
    return Job(keys, ROWS, DistinctRows(rule), None, 3)


def micro(moment):
    return None if moment is None else int(moment.timestamp() * 1_000_000 + 0.5)


@settings(max_examples=100)
@given(
    kind=st.sampled_from([*RULES]),
    delay=st.integers(0, 30),
    batches=batches,
    split=st.booleans(),
    workers=st.lists(st.sampled_from([1, 2, 3, 3, 3]), min_size=6, max_size=6),
    tables=tables,
    tries=st.integers(1, 2),
)
def test_a_stream_keeps_the_rows_that_sparks_rules_keep(
    kind, delay, batches, split, workers, tables, tries
):
    """Whatever the rows, however they are cut into batches, and although keys move. Where keys are
    split, any row of a batch may be the first; here, all of a key in a batch are of one time then."""
    job = job_of(kind, delay)
    keys, _, within = RULES[kind]
    naive = NaiveDistinct(None if kind == "plain" else delay, within, "ts" in keys)
    run = LocalRun(job, MemoryStorage())
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(distinct_rows, "chunks", partial(chunks, most=5))
        for batch, n, table in zip(batches, workers, tables, strict=False):
            if split:
                times, values = {}, {}
                batch = [(k, times.setdefault(k, t), values.setdefault(k, v)) for k, t, v in batch]
            entries = {} if "ts" in keys else table
            found, metrics = run.batch(table_of(batch), n, split, tries=tries, table=entries)
            expected, late = naive.batch(batch)
            assert found.column_names == ["ts", "k", "v"]
            shown = [(row["k"], micro(row["ts"]), row["v"]) for row in found.to_pylist()]
            assert sorted(map(str, shown)) == sorted(map(str, expected))
            if kind != "plain":
                assert metrics["late_rows"] == late
                assert metrics["null_times"] == sum(time is None for _, time, _ in batch)
            owners = {epoch: place.to_json() for epoch, place in run.owners.items()}
            for segment in run.segments:
                verify_segment(run.storage, segment, owners)


def test_state_of_keys_that_are_forgotten_is_gone():
    run = LocalRun(job_of("within", 5), MemoryStorage())
    sizes = []
    for batch in range(40):
        run.batch(table_of([(f"k{batch}", 10 * batch, 1)] * 3))
        sizes.append(sum(segment.rows for segment in run.segments))
    assert max(sizes) <= 6


def test_one_row_per_key_is_handed_on_where_keys_are_split():
    job = job_of("plain", 0)
    run = LocalRun(job, MemoryStorage())
    found, _ = run.batch(table_of([("hot", 1, i) for i in range(1000)]), 3, split=True)
    assert found.num_rows == 1


def test_columns_that_are_no_keys_may_change_between_two_starts():
    storage, rule = MemoryStorage(), Deduplication(("k",), ("k", "v"))
    job = Job(("k",), ROWS, DistinctRows(rule), make("key"), 2)
    list(run_stream(job, storage, [table_of([("a", 1, 1)])]))
    wider = pa.schema([*ROWS, pa.field("until", pa.string())])
    rule = Deduplication(("k",), ("until", "k"))
    job = Job(("k",), wider, DistinctRows(rule), make("key"), 2)
    sink, rows = Tables(), table_of([("a", 1, 1), ("b", 2, 2)])
    rows = rows.append_column("until", pa.array(["x", "y"]))
    list(run_stream(job, storage, [rows], sink, first=1))
    assert sink.tables[1].to_pylist() == [{"until": "y", "k": "b"}]
    other = Job(
        ("k",), ROWS, DistinctRows(Deduplication(("k",), ("k",), "ts", within=True)), None, 2
    )
    assert Checkpoint.open(storage).differences(other.identity())


SPREAD = {
    "duplicates": DistinctRows(Deduplication(("k",), ("k", "v"))),
    "sessions": SessionStates(Aggregates(n=ef.count()), Session("ts", gap=50, delay=100)),
}


@pytest.mark.parametrize("name", SPREAD)
def test_the_rows_of_a_hot_key_are_spread_over_the_tasks(name):
    """A key with 30 % of the rows and 8 partitions: under the scheme "key", one has three times its
    share."""
    rng = np.random.default_rng(1)
    hot, keys, times = (
        rng.random(4000) < 0.3,
        rng.integers(0, 2000, 4000),
        rng.integers(0, 999, 4000),
    )
    rows = table_of(
        [("hot" if h else f"k{k}", int(t), 1) for h, k, t in zip(hot, keys, times, strict=True)]
    )
    fullest = {}
    for scheme in ("key", "d-choices"):
        job = Job(("k",), ROWS, SPREAD[name], make(scheme), 8)
        metrics = run_stream(job, MemoryStorage(), [rows, rows])
        fullest[scheme] = max(m["max_over_average"] for m in metrics)
    assert fullest["key"] > 2.5
    assert fullest["d-choices"] < 1.3


@pytest.mark.parametrize("kind", ["time in the key", "watermark beside", "within"])
@pytest.mark.parametrize("first", [-(1 << 63), -(1 << 63) + 3, (1 << 63) - 1, (1 << 63) - 3])
def test_times_at_the_ends_of_the_range_of_timestamps(kind, first):
    """A stream that had seen nothing later than the first of all moments could never go on, and a key
    of the last ones was forgotten at once."""
    storage, sink = MemoryStorage(), Tables()
    seen = table_of([("a", first, 0)])
    later = [seen] * 3 if first > 0 else [seen, table_of([("b", first + 20, 0)])]
    list(run_stream(job_of(kind, 5), storage, later, sink))
    assert [table.num_rows for table in sink.tables.values()] == (
        [1, 0, 0] if first > 0 else [1, 1]
    )
