"""Committed state as tables: every key once, as of any kept batch, against counts in plain Python."""

import itertools
from collections import Counter

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evenflow.engine.in_process import run_stream
from evenflow.engine.job import Job
from evenflow.engine.keyed_states import KeyedStates
from evenflow.engine.session_states import SessionStates
from evenflow.engine.stored_state import BATCH, StoredState, changes
from evenflow.engine.windowed_states import WindowedStates
from evenflow.grouping import make
from evenflow.model import InputError
from evenflow.operators import Aggregates, count
from evenflow.operators.sessions import Session
from evenflow.operators.windows import Window
from evenflow.state import Checkpoint
from evenflow.state.journal import request_partitions
from evenflow.storage import MemoryStorage

KEYS = st.sampled_from(["a", "b", "", None, "é\u202e", "a\0b", *map(str, range(20))])
NUMBERS = st.sampled_from([0.0, -0.0, 1.5, float("nan"), float("inf"), None])
SCHEMA = pa.schema([("user", pa.string()), ("at", pa.float64())])


def run(storage, batches, scheme, sizes=()):
    """The stream, batch by batch, with another number of partitions before some of them."""
    work = KeyedStates(Aggregates(n=count()))
    made = None if scheme == "auto" else make(scheme)
    job = Job(("user", "at"), SCHEMA, work, made, 3)

    def tables():
        for number, rows in enumerate(batches):
            if number and number - 1 < len(sizes):
                request_partitions(storage.under("evenflow"), sizes[number - 1], 3)
            columns = zip(*rows, strict=True) if rows else ([], [])
            yield pa.table([list(column) for column in columns], schema=SCHEMA)

    for _ in run_stream(job, storage, tables()):
        pass
    return Checkpoint.open(storage)


def name(key):
    user, at = key
    return user, "nan" if at is not None and at != at else at if at is None else at + 0.0


def states(state):
    rows = [state.rows(owner) for owner in range(state.partitions)]
    return pa.concat_tables(rows).to_pylist()


@settings(max_examples=40)
@given(
    batches=st.lists(st.lists(st.tuples(KEYS, NUMBERS), max_size=30), min_size=1, max_size=5),
    scheme=st.sampled_from(["auto", "key", "d-choices", "table"]),
    sizes=st.lists(st.integers(1, 6), max_size=4),
)
def test_every_key_is_there_once_with_its_state_after_every_kept_batch(batches, scheme, sizes):
    storage = MemoryStorage()
    checkpoint = run(storage, batches, scheme, sizes)
    expected, last_of, past = Counter(), {}, []
    for number, rows in enumerate(batches):
        for key in rows:
            expected[name(key)] += 1
            last_of[name(key)] = number
        past.append((dict(expected), dict(last_of)))
    for number, (counts, written) in enumerate(past):
        if not counts:
            with pytest.raises(InputError, match=f"no keyed state after batch {number}"):
                StoredState.of(checkpoint, number)
            continue
        state = StoredState.of(checkpoint, number)
        found = states(state)
        assert {name((one["user"], one["at"])): one["n__count"] for one in found} == counts
        assert {name((one["user"], one["at"])): one[BATCH] for one in found} == written
        assert len(found) == len(counts)
        assert state.schema().names == ["user", "at", "n__count", BATCH]
        keys = pa.table([[one[c] for one in found] for c in ("user", "at")], schema=SCHEMA)
        again = state.rows_like(keys).to_pylist()
        assert sorted(map(str, again)) == sorted(map(str, found))
    for early, late in itertools.combinations(range(len(past)), 2):
        if past[early][0]:
            check_changes(checkpoint, early, late, past)
    storage.clear()


def check_changes(checkpoint, early, late, past):
    before, after = StoredState.of(checkpoint, early), StoredState.of(checkpoint, late)
    found = {}
    for owner in range(after.partitions):
        for one in changes(before, after, owner).to_pylist():
            was = None if one["before"] is None else one["before"]["n__count"]
            found[name((one["user"], one["at"]))] = (was, one["after"]["n__count"])
    old, new = past[early][0], past[late][0]
    assert found == {k: (old.get(k), n) for k, n in new.items() if old.get(k) != n}


def test_windows_that_are_over_are_not_there_and_the_others_have_their_end():
    schema = pa.schema([("page", pa.string()), ("time", pa.timestamp("us", "UTC"))])
    window = Window("time", 10_000_000, 10_000_000)
    work = WindowedStates(Aggregates(n=count()), window)
    job = Job(("page",), schema, work, make("key"), 2)
    storage = MemoryStorage()
    second = 1_000_000
    tables = [
        pa.table([["a", "a", "b"], [1 * second, 12 * second, 13 * second]], schema=schema),
        pa.table([["a"], [25 * second]], schema=schema),
        pa.table([["a"], [26 * second]], schema=schema),
    ]
    for _ in run_stream(job, storage, tables):
        pass
    found = states(StoredState.of(Checkpoint.open(storage)))
    ends = {(one["page"], one["_window_end"].timestamp()): one["n__count"] for one in found}
    assert ends == {("a", 30.0): 2}
    first = states(StoredState.of(Checkpoint.open(storage), 0))
    assert sorted((one["page"], one["_window_end"].timestamp()) for one in first) == [
        ("a", 10.0),
        ("a", 20.0),
        ("b", 20.0),
    ]
    storage.clear()


def test_sessions_of_a_key_are_those_of_its_newest_batch():
    schema = pa.schema([("page", pa.string()), ("time", pa.timestamp("us", "UTC"))])
    work = SessionStates(Aggregates(n=count()), Session("time", 5_000_000))
    job = Job(("page",), schema, work, make("key"), 2)
    storage = MemoryStorage()
    second = 1_000_000
    tables = [
        pa.table([["a", "a", "b"], [10 * second, 18 * second, 17 * second]], schema=schema),
        pa.table([["a"], [14 * second]], schema=schema),  # joins both sessions of a
    ]
    for _ in run_stream(job, storage, tables):
        pass
    checkpoint = Checkpoint.open(storage)

    def sessions(batch):
        return sorted(
            (one["page"], one["_window_start"].timestamp(), one["_window_end"].timestamp())
            for one in states(StoredState.of(checkpoint, batch))
        )

    assert sessions(0) == [("a", 10.0, 15.0), ("a", 18.0, 23.0), ("b", 17.0, 22.0)]
    assert sessions(1) == [("a", 10.0, 23.0), ("b", 17.0, 22.0)]
    before, after = StoredState.of(checkpoint, 0), StoredState.of(checkpoint, 1)
    new = [one for p in range(2) for one in changes(before, after, p).to_pylist()]
    assert [(one["page"], one["before"], one["after"]) for one in new] == [
        ("a", None, {"n__count": 3})
    ]
    storage.clear()


def test_what_is_not_there_is_said():
    storage = MemoryStorage()
    checkpoint = Checkpoint.open(storage, {"key": {"k": "string"}})
    with pytest.raises(InputError, match="no batch has been committed yet"):
        StoredState.of(checkpoint)
    storage.clear()
    checkpoint = run(storage, [[("a", 1.0)]], "key")
    with pytest.raises(Exception, match="batch 7 is not kept"):
        StoredState.of(checkpoint, 7)
    storage.clear()
