"""Streams of session windows: late rows, sessions that grow and meet, sessions that are over."""

from functools import partial

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import evenflow as ef
from evenflow.engine import keyed_states
from evenflow.engine.dead_letters import DeadLetters
from evenflow.engine.in_process import run_stream
from evenflow.engine.job import Job, check_fit
from evenflow.engine.output import Tables
from evenflow.engine.session_states import SessionStates
from evenflow.engine.task import chunks
from evenflow.grouping import make
from evenflow.model import InputError
from evenflow.operators import Aggregates, PerKey
from evenflow.operators.sessions import Session
from evenflow.state.compaction import newest
from evenflow.state.segments import read_segment
from evenflow.state.verification import verify_segment
from evenflow.storage.memory import MemoryStorage
from naive_windows import NaiveSessions, tables
from windowed_run import LocalRun

TIMES = pa.timestamp("us", "UTC")
ROWS = pa.schema([("k", pa.string()), ("ts", TIMES), ("v", pa.int64()), ("end", TIMES)])
COUNT = Aggregates(n=ef.count(), total=ef.sum("v"), kinds=ef.distinct("v"))


def table_of(rows):
    """(key, time, value, gap) as a table; the end of each row's own session is a column."""
    ends = [None if t is None or gap is None else t + gap for _, t, _, gap in rows]
    columns = [[row[i] for row in rows] for i in range(3)]
    return pa.table(
        [
            pa.array(columns[0], pa.string()),
            pa.array(columns[1], pa.int64()).cast(TIMES),
            pa.array(columns[2], pa.int64()),
            pa.array(ends, pa.int64()).cast(TIMES),
        ],
        schema=ROWS,
    )


def micro(moment):
    return int(moment.timestamp() * 1_000_000 + 0.5)


def shown(table):
    found = {}
    for row in table.to_pylist():
        window = row["session_window"]
        key = (row["k"], micro(window["start"]), micro(window["end"]))
        assert key not in found
        found[key] = (row["n"], row["total"], row["kinds"])
    return found


rows = st.tuples(
    st.sampled_from(["a", "a", "b", "", None]),
    st.one_of(st.none(), st.integers(0, 90)),
    st.integers(0, 3),
    st.sampled_from([None, -1, 0, 1, 3, 10, 25]),
)
batches = st.lists(st.lists(rows, max_size=12), min_size=1, max_size=6)


@settings(max_examples=100)
@given(
    gap=st.sampled_from([None, 1, 4, 20]),
    delay=st.integers(0, 30),
    batches=batches,
    split=st.booleans(),
    workers=st.lists(st.sampled_from([1, 2, 3, 3, 3]), min_size=6, max_size=6),
    tables=tables,
    tries=st.integers(1, 2),
)
def test_a_stream_gives_the_sessions_that_sparks_rules_give(
    gap, delay, batches, split, workers, tables, tries
):
    """Whatever the rows and gaps, however they are cut into batches, and although the number of workers
    changes and keys move: late rows, sessions that grow, meet and close, state."""
    session = Session("ts", gap, None if gap else "end", delay)
    job = Job(("k",), ROWS, SessionStates(COUNT, session), None, 3)
    run, naive = LocalRun(job, MemoryStorage()), NaiveSessions(delay)
    with pytest.MonkeyPatch.context() as patched:  # so that a task takes its rows in several turns
        patched.setattr(keyed_states, "chunks", partial(chunks, most=5))
        for batch, n, table in zip(batches, workers, tables, strict=False):
            own = [(key, time, value, gap or each) for key, time, value, each in batch]
            found, metrics = run.batch(table_of(batch), n, split, tries=tries, table=table)
            closed, late = naive.batch(own)
            assert shown(found) == {key: (len(v), sum(v), len(set(v))) for key, v in closed.items()}
            assert metrics["late_rows"] == late
            assert metrics["null_times"] == sum(t is None or (g or 0) <= 0 for _, t, _, g in own)
            check_state(run, naive)


def check_state(run, naive):
    """Of what is kept, the newest rows of each key are its open sessions."""
    assert all(naive.over is None or s.expires[1] > naive.over for s in run.segments)
    owners = {epoch: place.to_json() for epoch, place in run.owners.items()}
    for segment in run.segments:
        verify_segment(run.storage, segment, owners)
    expected = {(key, s[0], s[1]) for key, sessions in naive.open.items() for s in sessions}
    kept = set()
    if run.segments:
        stored = [read_segment(run.storage, segment) for segment in run.segments]
        state = newest(pa.concat_tables(stored)).to_pylist()
        kept = {(row["k0"], row["w1"], row["w0"]) for row in state}
    assert {s for s in kept if naive.over is None or s[2] > naive.over} == expected


def test_the_state_of_a_session_that_goes_on_for_long_stays_one_row():
    session = Session("ts", gap=50, delay=1000)
    run = LocalRun(Job(("k",), ROWS, SessionStates(COUNT, session), None, 2), MemoryStorage())
    for batch in range(40):
        run.batch(table_of([("a", 10 * batch, 1, None), ("b", 5 * batch, 1, None)]), 2)
    # Segments of one row, of which log₂ of the batches may stay until they are compacted.
    assert sum(segment.rows for segment in run.segments) <= 4


def added(key, rows, state):
    if (rows["v"] == 13).any():
        raise ValueError("thirteen")
    return {"n": (state["n"] if state else 0) + len(rows["v"])}


ADDED = PerKey(
    added,
    state={"n": pa.int64()},
    columns=["v"],
    merge=lambda a, b: {"n": a["n"] + b["n"]},
)


@pytest.mark.parametrize("scheme", ["key", "d-choices"])
def test_a_function_with_a_merge_has_sessions_and_rows_that_fail_are_set_aside(scheme):
    """A row between two sessions makes them one, in the batch after; the row that fails does not."""
    work = SessionStates(ADDED, Session("ts", gap=5, delay=2))
    job = Job(("k",), ROWS, work, make(scheme), 3)
    batches = [
        [("a", 10, 1, None), ("a", 18, 1, None), ("a", 30, 13, None)],
        [("a", 14, 1, None), ("b", 14, 13, None)],
    ]
    sink, letters = Tables(), Tables()
    dead = DeadLetters(letters, 10)
    for _ in run_stream(job, MemoryStorage(), map(table_of, batches), sink, dead_letters=dead):
        pass
    (row,) = sink.tables[1].to_pylist()
    window = row["session_window"]
    assert (row["k"], micro(window["start"]), micro(window["end"]), row["n"]) == ("a", 10, 23, 3)
    assert sorted(letters.table().column("key").to_pylist()) == ['["a"]', '["b"]']


def test_keys_of_work_without_a_merge_have_no_sessions():
    def first(key, rows, state):
        return {"n": 1}

    operator = PerKey(first, state={"n": pa.int64()}, columns=["v"])
    work = SessionStates(operator, Session("ts", gap=1))
    with pytest.raises(InputError, match="has no `merge`"):
        check_fit(work, make("d-choices"))
