"""Operators and functions whose states end: TTL, timers, several rows per key, append mode."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import evenflow as ef
from evenflow.engine.expiring_states import ExpiringStates
from evenflow.engine.failures import FunctionFailed
from evenflow.engine.in_process import run_stream
from evenflow.engine.job import Job
from evenflow.engine.one_key import state_of_key
from evenflow.engine.output import Tables
from evenflow.engine.processors import EVENT_TIME, PROCESSING_TIME
from evenflow.engine.stored_state import StoredState, changes
from evenflow.grouping import make
from evenflow.model import InputError
from evenflow.operators import Aggregates, PerKey
from evenflow.operators.expiring import Expiring
from evenflow.operators.service_time import ServiceTime
from evenflow.planning.controller import Replanning
from evenflow.state.checkpoint import Checkpoint
from evenflow.state.verification import verify
from evenflow.storage.memory import MemoryStorage

TIMES = pa.timestamp("us", "UTC")
ROWS = pa.schema([("k", pa.string()), ("ts", TIMES), ("v", pa.int64())])
OUTPUT = "what string, n bigint"


def added(key, rows, state):
    """Counts and adds up; a negative value forgets the key."""
    if (rows["v"] < 0).any():
        return None
    before = state or {"n": 0, "total": 0}
    return {"n": before["n"] + len(rows["v"]), "total": before["total"] + int(rows["v"].sum())}


def both(a, b):
    return {name: a[name] + b[name] for name in a}


def touched(key, state):
    """No row, one row or two."""
    if state is None:
        return None
    row = {"what": "n", "n": state["n"]}
    return [row, {"what": "total", "n": state["total"]}] if state["total"] % 2 else row


def over(key, state):
    """One row for each that was counted, three at most."""
    return ({"what": "over", "n": state["total"]} for _ in range(min(state["n"], 3)))


def moment(key, state):
    """Milliseconds; never for a total that three divides."""
    return state["total"] * 10 if state["total"] % 3 else None


def counting(**more):
    given = {"emit": touched, "output": OUTPUT, "columns": ["v"], **more}
    return PerKey(added, "n bigint, total bigint", **given)


def rows_of(*rows):
    """Rows of (key, event time in milliseconds, value)."""
    columns = list(zip(*rows, strict=True)) if rows else [[], [], []]
    times = pa.array([None if t is None else t * 1_000 for t in columns[1]], pa.int64()).cast(TIMES)
    arrays = [pa.array(columns[0], pa.string()), times, pa.array(columns[2], pa.int64())]
    return pa.table(arrays, schema=ROWS)


def job_of(operator, mode=PROCESSING_TIME, scheme="key", partitions=3, **more):
    wrapped = Expiring(operator, "ts" if mode == EVENT_TIME else None)
    replanning = Replanning(theta=0.01, certainty=0) if scheme == "table" else None
    work = ExpiringStates(wrapped, mode, **more)
    return Job(("k",), ROWS, work, make(scheme), partitions, 0, replanning)


def outputs(job, batches, moments=None, storage=None, first=0):
    """What each batch has put out, sorted."""
    sink, storage = Tables(), storage or MemoryStorage()
    for _ in run_stream(job, storage, batches, sink, first=first, moments=moments):
        pass
    assert not verify(storage).problems
    found = {n: [tuple(row.values()) for row in t.to_pylist()] for n, t in sink.tables.items()}
    return {n: sorted(rows, key=str) for n, rows in found.items() if rows}


class Oracle:
    """States, and when they end, in a dictionary."""

    def __init__(self, ends, expired, append):
        self.ends, self.expired, self.append = ends, expired, append
        self.states, self.until = {}, {}

    def end(self, keys):
        """Forget keys; what is put out for them."""
        made = []
        for key in keys:
            state = self.states.pop(key)
            del self.until[key]
            if self.expired or self.append:
                rows = over(key, state) if self.expired else touched(key, state)
                made += _rows(key, rows)
        return made

    def add(self, rows, now):
        """Count these rows; what is put out for their keys, and which are forgotten."""
        made, keys = [], dict.fromkeys(k for k, _, _ in rows)
        for key in keys:
            mine = [(t, v) for k, t, v in rows if k == key]
            values = {"v": np.array([v for _, v in mine])}
            state = added(key, values, self.states.get(key))
            self.until.pop(key, None) if state is None else None
            self.states.pop(key, None) if state is None else self.states.update({key: state})
            if not self.append:
                made += _rows(key, touched(key, state))
            if state is not None:
                self.until[key] = self.ends(state, self.until.get(key), [t for t, _ in mine], now)
        return made

    def due(self, now):
        return [key for key, until in self.until.items() if until is not None and until <= now]


def _rows(key, rows):
    rows = [] if rows is None else [rows] if isinstance(rows, dict) else list(rows)
    return [(key, row["what"], row["n"]) for row in rows]


KEYS = st.sampled_from(["a", "ä", "", None])
BATCHES = st.lists(
    st.lists(st.tuples(KEYS, st.integers(1, 60), st.integers(-1, 9)), max_size=7),
    min_size=1,
    max_size=8,
)
STEPS = st.lists(st.integers(1, 40), min_size=8, max_size=8)
SCHEMES = st.sampled_from(["key", "table"])


@settings(max_examples=30)
@given(BATCHES, STEPS, SCHEMES, st.booleans(), st.booleans(), st.booleans())
def test_ttl_and_timers_in_processing_time_are_those_of_a_plain_dictionary(
    batches, steps, scheme, ttl, expired, append
):
    moments = [sum(steps[: i + 1]) for i in range(len(steps))]

    def ends(state, before, times, now):
        return now + 30 if ttl else moment(None, state)

    oracle, wanted = Oracle(ends, expired, append), {}
    for number, rows in enumerate(batches):
        now = moments[number]
        made = oracle.end(oracle.due(now))
        wanted[number] = sorted(made + oracle.add(rows, now), key=str)
    more = {"ttl": "30 milliseconds"} if ttl else {"timer": moment}
    operator = counting(**more, **({"expired": over} if expired else {}))
    storage = MemoryStorage()
    made = {}
    for number, rows in enumerate(batches):  # every batch with another number of partitions
        job = job_of(operator, scheme=scheme, partitions=1 + number % 3, append=append)
        made |= outputs(job, [rows_of(*rows)], moments.__getitem__, storage, number)
    assert {n: rows for n, rows in wanted.items() if rows} == made
    assert stored(storage) == oracle.states
    storage.clear()


def stored(storage):
    """The states that are kept, by key."""
    checkpoint = Checkpoint.open(storage)
    if not checkpoint.last().segments:
        return {}
    state = StoredState.of(checkpoint)
    rows = [row for owner in range(state.partitions) for row in state.rows(owner).to_pylist()]
    return {r["k"]: {"n": r["n"], "total": r["total"]} for r in rows if r["n"] is not None}


@settings(max_examples=30)
@given(
    BATCHES,
    st.sampled_from(["key", "table", "w-choices"]),
    st.booleans(),
    st.booleans(),
    st.booleans(),
    st.integers(0, 20),
)
def test_ttl_and_timers_in_event_time_are_those_of_a_plain_dictionary(
    batches, scheme, ttl, expired, append, delay
):
    """Rows that are not late count first; what was over before them and is so after them ends."""

    def ends(state, before, times, now):
        if not ttl:
            return moment(None, state)
        return max([t + 30 for t in times] + ([] if before is None else [before]))

    if scheme == "w-choices":  # parts of keys meet: to forget one is for the owner alone
        batches = [[(k, t, abs(v)) for k, t, v in rows] for rows in batches]
    oracle, wanted = Oracle(ends, expired, append), {}
    late = closed = newest = 0
    for number, rows in enumerate(batches):
        before = oracle.due(closed)
        made = oracle.add([row for row in rows if row[1] > late], closed)
        wanted[number] = sorted(made + oracle.end(set(before) & set(oracle.due(closed))), key=str)
        newest = max([newest, *(t for _, t, _ in rows)])
        late, closed = closed, max(closed, newest - delay, 0)
    more = {"ttl": "30 milliseconds"} if ttl else {"timer": moment}
    more |= {"expired": over} if expired else {}
    operator = counting(merge=both, timeMode="eventTime", **more)
    storage, made = MemoryStorage(), {}
    for number, rows in enumerate(batches):
        settings_of = {"append": append, "late": delay * 1_000}
        job = job_of(operator, EVENT_TIME, scheme, 1 + number % 3, **settings_of)
        made |= outputs(job, [rows_of(*rows)], None, storage, number)
    assert {n: rows for n, rows in wanted.items() if rows} == made
    assert stored(storage) == oracle.states
    storage.clear()


def test_the_last_batch_of_a_stream_puts_out_what_is_over():
    operator = counting(ttl="30 milliseconds", timeMode="eventTime")
    job = job_of(operator, EVENT_TIME, append=True, late=0)
    sink = Tables()
    batches = [rows_of(("a", 5, 1), ("b", 50, 2))]
    for _ in run_stream(job, MemoryStorage(), batches, sink, close=True):
        pass
    (made,) = [table for table in sink.tables.values() if table.num_rows]
    assert made.to_pylist() == [
        {"k": "a", "what": "n", "n": 1},
        {"k": "a", "what": "total", "n": 1},
    ]


def test_a_state_that_is_gone_leaves_the_segments_too():
    storage = MemoryStorage()
    job = job_of(counting(ttl="10 milliseconds"), partitions=1)
    batches = [rows_of(*((f"k{i}", 0, 1) for i in range(40))), *([rows_of(("x", 0, 1))] * 8)]
    outputs(job, batches, lambda n: 8 * n, storage)
    segments = Checkpoint.open(storage).last().segments
    assert sum(segment.rows for segment in segments) < 5


@dataclass(frozen=True)
class Totals(ef.Operator):
    """Whole tables: the sum of a key, which ends by itself."""

    ttl: ClassVar[str] = "30 milliseconds"

    def state_schema(self, rows):
        return pa.schema([("total", pa.int64())])

    def update(self, rows, state):
        new = np.bincount(rows.group, rows.table.column("v").to_numpy(), rows.n_keys)
        return pa.table({"total": state.column("total").fill_null(0).to_numpy() + new.astype(int)})

    def merge(self, a, b):
        return pa.table({"total": pa.compute.add(a.column("total"), b.column("total"))})

    def expired(self, keys, state):
        """Two rows for every key that ends."""
        twice = np.repeat(np.arange(keys.num_rows), 2)
        return pa.table({"total": state.column("total").take(pa.array(twice))}), twice


@pytest.mark.parametrize("scheme", ["key", "table", "d-choices"])
def test_an_operator_on_whole_tables_ends_its_states_under_every_scheme(scheme):
    batches = [
        rows_of(("a", 0, 1), ("a", 0, 2)),
        rows_of(),
        rows_of(("b", 0, 4)),
        rows_of(("a", 0, 8)),
    ]
    made = outputs(job_of(Totals(), scheme=scheme), batches, [0, 29, 30, 70].__getitem__)
    assert made == {
        0: [("a", 3)],
        2: [("a", 3), ("a", 3), ("b", 4)],
        3: [("a", 8), ("b", 4), ("b", 4)],
    }


def failing(key, state):
    if key == "b":
        raise KeyError("price")


def test_an_error_names_the_function_the_key_and_the_batch():
    rows = rows_of(("a", 0, 1), ("b", 0, 1), ("c", 0, 1))
    job = job_of(counting(timer=failing))
    message = r"^timer \(.*failing\) failed for the key \[\"b\"\] in batch 0"
    with pytest.raises(FunctionFailed, match=message) as raised:
        outputs(job, [rows], lambda n: n)
    assert "deadLetterPath" not in str(raised.value)
    job = job_of(counting(ttl="1 second", expired=failing))
    message = r"^expired \(.*failing\) failed for the key \[\"b\"\] in batch 1"
    with pytest.raises(FunctionFailed, match=message):
        outputs(job, [rows, rows_of()], lambda n: n * 5_000)
    job = job_of(counting(ttl="1 second", emit=lambda key, state: "n"))
    with pytest.raises(FunctionFailed, match="returned 'n'; expected a dict with what, n"):
        outputs(job, [rows], lambda n: n)


def test_what_does_not_fit_is_refused():
    for operator, message in (
        (counting(ttl="1 second", timer=moment), "has a ttl and timers"),
        (counting(ttl="soon"), "PerKey: ttl: 'soon' is not a duration"),
        (counting(ttl="0 seconds"), "PerKey: ttl must be longer than nothing"),
    ):
        with pytest.raises(InputError, match=message):
            Expiring(operator)
    with pytest.raises(InputError, match="a state column 'until', which says here"):
        job_of(PerKey(added, "until bigint", ttl="1 second")).state_schema()
    with pytest.raises(InputError, match="a service time cannot be given"):
        ServiceTime(counting(ttl="1 second"), 0.1)
    with pytest.raises(InputError, match="timer must be a function, got 'soon'"):
        counting(timer="soon")
    with pytest.raises(InputError, match="the source of batch 0 does not say when it began"):
        outputs(job_of(counting(ttl="1 second")), [rows_of(("a", 0, 1))])


def test_a_changed_ttl_is_carried_over_and_another_time_mode_refused():
    storage = MemoryStorage()
    rows = rows_of(("a", 5, 1))
    outputs(job_of(counting(ttl="1 hour")), [rows], lambda n: n, storage)
    longer = job_of(counting(ttl="10 milliseconds"))
    assert outputs(longer, [rows], lambda n: n, storage, 1) == {1: [("a", "n", 2)]}
    assert outputs(longer, [rows], lambda n: 50, storage, 2)[2][0] == ("a", "n", 1)
    other = job_of(counting(ttl="1 hour", timeMode="eventTime"), EVENT_TIME)
    with pytest.raises(InputError, match=r"another computation .*time: "):
        outputs(other, [rows], None, storage, 3)
    assert not Aggregates(n=ef.count()).ends


@pytest.mark.parametrize("scheme", ["key", "table", "w-choices"])
def test_a_key_whose_state_has_ended_is_not_in_the_state_that_people_read(scheme):
    """Its row of nulls is stored until no older version of it can lie elsewhere."""
    job, storage = (
        job_of(counting(ttl="10 milliseconds", merge=both), scheme=scheme),
        MemoryStorage(),
    )
    keys = [f"k{i}" for i in range(60)]
    over, left = keys[:6], keys[6:]
    batches = [rows_of(*((key, 0, 1) for key in some)) for some in (over, left, [])]
    outputs(job, batches, [0, 8, 15].__getitem__, storage)
    assert {row["k"] for row in listed(storage)} == {*left}
    assert {row["k"] for row in listed(storage, 1)} == {*keys}
    for key in keys:
        rows = state_of_key(storage, [key])["rows"]
        assert [row["state"]["n"] for row in rows] == ([] if key in over else [1])
    before, after = (StoredState.of(Checkpoint.open(storage), batch) for batch in (1, 2))
    asked = pa.table({"k": keys})
    assert [one.rows_like(asked).num_rows for one in (before, after)] == [60, 54]
    changed = [row for n in range(3) for row in changes(before, after, n).to_pylist()]
    assert sorted((row["k"], row["after"]["n"]) for row in changed) == [(k, None) for k in over]


def listed(storage, batch=None):
    state = StoredState.of(Checkpoint.open(storage), batch)
    return [row for owner in range(state.partitions) for row in state.rows(owner).to_pylist()]
