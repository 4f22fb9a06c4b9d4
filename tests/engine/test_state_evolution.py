"""A query that is started again with other aggregates, functions and types, against a plain oracle."""

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import evenflow as ef
from evenflow.engine.in_process import run_stream
from evenflow.engine.job import Job
from evenflow.engine.keyed_states import KeyedStates
from evenflow.engine.one_key import state_of_key
from evenflow.engine.output import Tables
from evenflow.engine.session_states import SessionStates
from evenflow.engine.stored_state import StoredState
from evenflow.engine.windowed_states import WindowedStates
from evenflow.grouping import make
from evenflow.model import InputError
from evenflow.operators import Aggregates, PerKey, Window
from evenflow.operators.service_time import ServiceTime
from evenflow.operators.sessions import Session
from evenflow.planning.controller import Replanning
from evenflow.state.checkpoint import Checkpoint
from evenflow.state.verification import verify
from evenflow.storage.faults import Crash, Faults, FaultyStorage
from evenflow.storage.memory import MemoryStorage

TIMES = pa.timestamp("us", "UTC")
ROWS = pa.schema([("k", pa.string()), ("ts", TIMES), ("v", pa.int32())])
WIDER = ROWS.set(2, pa.field("v", pa.int64()))

# What each aggregate gives, in plain Python, for the values of a key since it has been there.
PLAIN = {
    "count": (ef.count(), len),
    "sum": (ef.sum("v"), lambda vs: sum(vs) if vs else None),
    "min": (ef.min("v"), lambda vs: min(vs, default=None)),
    "distinct": (ef.distinct("v"), lambda vs: len(set(vs))),
    "list": (ef.collect_set("v"), lambda vs: sorted(set(vs))),
    "top": (
        ef.top_k("v", 1),
        lambda vs: [
            {"item": v, "count": -n} for n, v in sorted((-vs.count(v), v) for v in set(vs))[:1]
        ],
    ),
}


def rows_of(*rows, schema=ROWS):
    """Rows of (key, event time in microseconds, value)."""
    columns = list(zip(*rows, strict=True)) if rows else [[], [], []]
    times = pa.array(columns[1], pa.int64()).cast(TIMES)
    return pa.table(
        [pa.array(columns[0], pa.string()), times, pa.array(columns[2], pa.int64())],
        names=ROWS.names,
    ).cast(schema)


def job_of(work, scheme="w-choices", partitions=3, rows=ROWS):
    replanning = Replanning(theta=0.01, certainty=0) if scheme == "table" else None
    return Job(("k",), rows, work, make(scheme), partitions, 0, replanning)


def started(job, storage, batches, first):
    """A start with these batches; what each of them put out, by key."""
    sink = Tables()
    for _ in run_stream(job, storage, batches, sink, first=first):
        pass
    assert not verify(storage).problems
    return {
        number: {row.pop("k"): row for row in table.to_pylist()}
        for number, table in sink.tables.items()
    }


class Oracle:
    """Every aggregate as the values of each key since it has been there."""

    def __init__(self):
        self.seen = {}  #: name → (kind, key → values)

    def add(self, name, kind):
        self.seen[name] = (kind, {})

    def rows(self, rows):
        """What these rows put out: every key that they have, with all aggregates."""
        for _, of in self.seen.values():
            for k, _, v in rows:
                of.setdefault(k, []).append(v)
        keys = {k for k, _, _ in rows}
        return {
            k: {name: PLAIN[kind][1](of.get(k, [])) for name, (kind, of) in self.seen.items()}
            for k in keys
        }

    def aggregates(self, order):
        """The operator of today."""
        return Aggregates(**{name: PLAIN[self.seen[name][0]][0] for name in order})


NAMES = st.sampled_from(["a", "b", "c", "d"])
EDITS = st.lists(
    st.one_of(
        st.tuples(st.just("add"), NAMES, st.sampled_from(list(PLAIN))),
        st.tuples(st.just("drop"), NAMES),
        st.tuples(st.just("rename"), NAMES, NAMES),
    ),
    max_size=3,
)
BATCHES = st.lists(
    st.lists(
        st.tuples(st.sampled_from(["x", "y", "", None]), st.just(0), st.integers(-3, 3)),
        max_size=6,
    ),
    min_size=1,
    max_size=2,
)


@settings(max_examples=40)
@given(
    st.lists(
        st.tuples(EDITS, BATCHES, st.integers(1, 4), st.randoms(use_true_random=False)),
        min_size=2,
        max_size=5,
    ),
    st.sampled_from(["w-choices", "key", "table"]),
)
def test_aggregates_come_go_and_change_their_names_as_in_a_plain_oracle(starts, scheme):
    """Names of the past come back for something else, and keys move with the number of partitions."""
    storage, oracle, number = MemoryStorage(), Oracle(), 0
    oracle.add("a", "sum")
    for edits, batches, partitions, chance in starts:
        before, touched = set(oracle.seen), set()
        for what, name, *more in edits:
            # One edit for every kind: which of two equal aggregates is gone, nobody could say.
            kind = more[0] if what == "add" else oracle.seen.get(name, (None,))[0]
            free = (more[0] if what == "rename" else name) not in before | set(oracle.seen)
            if kind is None or kind in touched or (what != "drop" and not free):
                continue
            if what == "add":
                oracle.add(name, kind)
            elif what == "rename":
                oracle.seen[more[0]] = oracle.seen.pop(name)
            elif len(oracle.seen) > 1:
                del oracle.seen[name]
            touched.add(kind)
        order = sorted(oracle.seen)
        chance.shuffle(order)
        job = job_of(KeyedStates(oracle.aggregates(order)), scheme, partitions)
        put_out = started(job, storage, [rows_of(*rows) for rows in batches], number)
        for i, rows in enumerate(batches):
            assert put_out.get(number + i, {}) == oracle.rows(rows)
        number += len(batches)
    storage.clear()


def first_batches():
    return [rows_of(("x", 1, 2), ("y", 2, 5)), rows_of(("x", 3, 7), (None, 4, 1))]


ONE = Aggregates(n=ef.count(), total=ef.sum("v"))
TWO = Aggregates(top=ef.max("v"), sum=ef.sum("v"))


def changes_of(caplog):
    return [record.getMessage().partition(": ")[2] for record in caplog.records]


def test_what_becomes_of_the_state_is_in_the_log_once(caplog):
    storage = MemoryStorage()
    started(job_of(KeyedStates(ONE)), storage, first_batches(), 0)
    assert changes_of(caplog) == []
    for first in (2, 3):
        made = started(job_of(KeyedStates(TWO)), storage, [rows_of(("x", 5, 1))], first)
    assert changes_of(caplog) == [
        "top is new and starts empty with batch 2",
        "sum goes on with the state of total",
        "n is dropped with batch 2",
    ]
    assert made == {3: {"x": {"top": 1, "sum": 11}}}
    found = state_of_key(storage, ["x"])["rows"]
    assert found[0]["state"] == {"top@2__max": 1, "total__sum": 11}


def test_a_name_that_comes_back_starts_empty():
    storage = MemoryStorage()
    started(job_of(KeyedStates(ONE)), storage, first_batches(), 0)
    started(job_of(KeyedStates(Aggregates(n=ef.count()))), storage, [rows_of(("y", 5, 1))], 2)
    made = started(job_of(KeyedStates(ONE)), storage, [rows_of(("x", 6, 1), ("y", 6, 1))], 3)
    assert made == {3: {"x": {"n": 3, "total": 1}, "y": {"n": 3, "total": 1}}}


def test_until_a_batch_is_committed_the_version_before_may_come_back():
    storage = MemoryStorage()
    started(job_of(KeyedStates(ONE)), storage, first_batches(), 0)
    started(job_of(KeyedStates(TWO)), storage, [], 2)
    started(job_of(KeyedStates(Aggregates(sum=ef.sum("v")))), storage, [], 2)
    made = started(job_of(KeyedStates(ONE)), storage, [rows_of(("x", 5, 1))], 2)
    assert made == {2: {"x": {"n": 3, "total": 10}}}


def test_before_the_first_batch_anything_goes():
    storage = MemoryStorage()
    started(job_of(KeyedStates(ONE)), storage, [], 0)
    other = Aggregates(n=ef.sum("v"), total=ef.count())
    made = started(job_of(KeyedStates(other)), storage, first_batches(), 0)
    assert made[1] == {"x": {"n": 9, "total": 2}, None: {"n": 1, "total": 1}}


def test_another_aggregate_under_an_old_name_is_refused_with_what_to_do():
    storage = MemoryStorage()
    started(job_of(KeyedStates(ONE)), storage, first_batches(), 0)
    for aggregate in (ef.max("v"), ef.count("v")):
        other = job_of(KeyedStates(Aggregates(n=aggregate)))
        message = (
            "n was count.column=None. and is .* now; give the new one another name, under which"
        )
        with pytest.raises(InputError, match=message):
            started(other, storage, [], 2)
    # Two that change places are what they were.
    swapped = Aggregates(n=ef.sum("v"), total=ef.count())
    made = started(job_of(KeyedStates(swapped)), storage, [rows_of(("x", 5, 1))], 2)
    assert made == {2: {"x": {"n": 10, "total": 3}}}


def test_wider_numbers_are_carried_over_and_others_refused():
    storage = MemoryStorage()
    kinds = {name: aggregate for name, (aggregate, _) in PLAIN.items()}
    work = KeyedStates(Aggregates(**kinds))
    started(job_of(work), storage, first_batches(), 0)
    row = rows_of(("x", 5, 1 << 40), schema=WIDER)
    made = started(job_of(work, rows=WIDER), storage, [row], 2)
    values = [2, 7, 1 << 40]
    assert made == {2: {"x": {name: plain(values) for name, (_, plain) in PLAIN.items()}}}
    with pytest.raises(InputError, match=r"the state of min=min.'v'. does not fit: min was int64"):
        started(job_of(work), storage, [], 3)
    storage = MemoryStorage()
    work = KeyedStates(Aggregates(n=ef.approx_count_distinct("v")))
    started(job_of(work), storage, first_batches(), 0)
    with pytest.raises(InputError, match=r"v was int32 and is int64 now.*cast the column back"):
        started(job_of(work, rows=WIDER), storage, [], 2)


WINDOWED = {
    "windows, update": lambda operator: WindowedStates(operator, Window("ts", 20, 10, 5)),
    "windows, append": lambda operator: WindowedStates(
        operator, Window("ts", 20, 10, 5, mode="append")
    ),
    "sessions": lambda operator: SessionStates(operator, Session("ts", gap=6, delay=5)),
}


@pytest.mark.parametrize("kind", WINDOWED)
def test_windows_that_are_open_go_on_with_what_is_new_since_then(kind):
    """Also those that no row touches after the change: they close with empty new aggregates."""
    made, storage = WINDOWED[kind], MemoryStorage()
    one = Aggregates(n=ef.count(), gone=ef.sum("v"))
    two = Aggregates(**{name: aggregate for name, (aggregate, _) in PLAIN.items()})
    everything = Aggregates(n=ef.count(), gone=ef.sum("v"), **dict(two))
    batches = [
        rows_of(("x", 1, 3), ("y", 2, 4), ("z", 3, 9)),
        rows_of(("x", 4, 5), (None, 4, 6)),
        rows_of(("x", 6, 1), ("y", 24, 2)),
        rows_of(("w", 61, 1)),
        rows_of(("w", 62, 1)),
    ]
    before = list(run_with(job_of(made(one)), storage, batches[:2], 0))
    after = list(run_with(job_of(made(two)), storage, batches[2:], 2))
    whole = list(run_with(job_of(made(everything)), MemoryStorage(), batches, 0))
    # The windows are the same, and what was there before counts from the beginning.
    assert [sorted(out) for out in before + after] == [sorted(out) for out in whole]
    for mine, theirs in zip(after, whole[2:], strict=True):
        for window, row in mine.items():
            assert row["sum"] == theirs[window]["gone"]
            assert row["count"] == theirs[window]["n"]
    empty = {name: plain([]) for name, (_, plain) in PLAIN.items() if name not in ("count", "sum")}
    closed = [row for out in after for window, row in out.items() if window[0] == "z"]
    if kind != "windows, update":
        assert closed
        assert all(row.items() >= empty.items() for row in closed)
    assert StoredState.of(Checkpoint.open(storage)).rows(0).num_rows >= 0
    storage.clear()


def run_with(job, storage, batches, first):
    """What each batch has put out, by key and window."""
    sink = Tables()
    for number, rows in enumerate(batches, first):
        for _ in run_stream(job, storage, [rows], sink, first=number):
            pass
        table = sink.tables.get(number)
        found = [] if table is None else table.to_pylist()
        yield {(str(row.pop("k")), str(row.pop(job.work.window.name))): row for row in found}


def test_a_function_is_known_by_its_name_or_by_the_one_it_was_given():
    def totals(key, rows, state):
        return {"total": (state["total"] if state else 0) + int(rows["v"].sum())}

    def renamed(key, rows, state):
        return totals(key, rows, state)

    storage = MemoryStorage()
    started(job_of(KeyedStates(PerKey(totals, "total bigint")), "key"), storage, first_batches(), 0)
    moved = PerKey(totals, "total bigint", merge=lambda a, b: a)
    assert moved.identity == "totals"
    row = [rows_of(("x", 5, 1))]
    made = started(job_of(KeyedStates(moved), "key"), storage, row, 2)
    assert made == {2: {"x": {"total": 10}}}
    with pytest.raises(
        InputError, match=r"its operator was 'totals' and is 'renamed' now; .* name='to"
    ):
        started(job_of(KeyedStates(PerKey(renamed, "total bigint")), "key"), storage, row, 3)
    named = PerKey(renamed, "total bigint", name="totals")
    made = started(job_of(KeyedStates(named), "key"), storage, row, 3)
    assert made == {3: {"x": {"total": 11}}}


def test_the_state_of_a_function_takes_new_columns_and_wider_numbers():
    def totals(key, rows, state):
        state = state or {}
        n = (state.get("n") or 0) + len(rows["v"])
        return {"total": (state.get("total") or 0) + int(rows["v"].sum()), "n": n}

    storage = MemoryStorage()
    one = PerKey(totals, "total int")
    started(job_of(KeyedStates(one), "key"), storage, first_batches(), 0)
    two = PerKey(totals, "n bigint, total bigint")
    made = started(job_of(KeyedStates(two), "key", 2), storage, [rows_of(("x", 5, 1))], 2)
    assert made == {2: {"x": {"n": 1, "total": 10}}}
    for other, why in (
        (one, "n is missing now; columns may be added"),
        (PerKey(totals, "n bigint, total string"), "total was int64 and is string now"),
    ):
        with pytest.raises(InputError, match=why):
            started(job_of(KeyedStates(other), "key"), storage, [], 3)


@dataclass(frozen=True)
class Totals(ef.Operator):
    """An operator with a parameter."""

    column: str = "v"

    def state_schema(self, rows):
        return pa.schema([("total", pa.int64())])

    def update(self, rows, state):
        old = state.column("total").fill_null(0).to_numpy()
        new = np.bincount(rows.group, rows.table.column(self.column).to_numpy(), rows.n_keys)
        return pa.table({"total": old + new.astype(np.int64)})


class Renamed(Totals):
    """The same in a class of another name."""

    name: ClassVar[str] = "Totals"


def test_an_operator_is_known_by_its_name_and_its_parameters():
    storage = MemoryStorage()
    started(job_of(KeyedStates(Totals()), "key"), storage, first_batches(), 0)
    made = started(job_of(KeyedStates(Renamed()), "key"), storage, [rows_of(("x", 5, 1))], 2)
    assert made == {2: {"x": {"total": 10}}}
    with pytest.raises(InputError, match=r"Totals had the parameters {'column': 'v'}, and has"):
        started(job_of(KeyedStates(Totals("k")), "key"), storage, [], 3)
    with pytest.raises(InputError, match="made by another computation"):
        started(job_of(KeyedStates(ONE), "key"), storage, [], 3)


def test_a_service_time_and_another_window_do_not_get_in_the_way_or_do():
    storage = MemoryStorage()
    started(job_of(KeyedStates(ONE)), storage, first_batches(), 0)
    slow = KeyedStates(ServiceTime(TWO, 0.0))
    made = started(job_of(slow), storage, [rows_of(("x", 5, 1))], 2)
    assert made == {2: {"x": {"top": 1, "sum": 10}}}
    for work in WINDOWED.values():
        with pytest.raises(InputError, match="made by another computation"):
            started(job_of(work(ONE)), storage, [], 3)
    with pytest.raises(InputError, match="made by another computation"):
        started(replace(job_of(slow), key=("v",)), storage, [], 3)


def _kill(every):
    """Kill the first starts of a newer version at some storage calls, while a table moves keys."""
    batches = [rows_of(*((k, 0, v % 5) for v, k in enumerate("xyzw" * 5))) for _ in range(6)]

    def run(operator, storage, first, stop, partitions, faults=None):
        job = job_of(KeyedStates(operator), "table", partitions)
        used = storage if faults is None else FaultyStorage(storage, faults)
        sink = Tables()
        try:
            for _ in run_stream(job, used, batches[first:stop], sink, first=first):
                pass
        except Crash:
            return None
        return sink.tables

    storage = MemoryStorage()
    run(ONE, storage, 0, 3, 3)
    stored = {name: storage.read(name) for name in storage.list("")}

    def copied():
        copy = MemoryStorage()
        for name, content in stored.items():
            copy.put(name, [content])
        return copy

    faults = Faults()
    truth = run(TWO, copied(), 3, 6, 2, faults)
    plain = {n: sorted(map(str, table.to_pylist())) for n, table in truth.items()}
    kills = 0
    for call in range(0, faults.calls, every):
        for applied in (False, True):
            storage = copied()
            crash = Faults(crash_at=call, applied=applied)
            assert run(TWO, storage, 3, 6, 2, crash) is None
            done = Checkpoint.open(storage).last().batch + 1
            rest = run(TWO, storage, 3, 6, 2)
            assert {n: sorted(map(str, table.to_pylist())) for n, table in rest.items()} == {
                n: rows for n, rows in plain.items() if n >= done
            }, (call, applied, crash.log[-1])
            storage.clear()
            kills += 1
    return kills


def test_a_change_of_aggregates_that_is_killed_at_a_storage_call_ends_at_the_oracle():
    """At some calls; `make test-slow` tries every one."""
    _kill(every=29)


@pytest.mark.slow
@pytest.mark.long
def test_a_change_of_aggregates_that_is_killed_at_any_storage_call_ends_at_the_oracle():
    assert _kill(every=1) > 100


@pytest.mark.parametrize("scheme", ["key", "table", "w-choices"])
def test_key_columns_in_another_order_are_refused(scheme):
    """(x, y) would go on with what is kept of (y, x), which is another key."""
    schema = pa.schema([("a", pa.string()), ("b", pa.string())])
    storage, work = MemoryStorage(), KeyedStates(Aggregates(n=ef.count()))
    rows = pa.table({"a": ["x", "x"], "b": ["y", "z"]}, schema=schema)
    list(run_stream(Job(("a", "b"), schema, work, make(scheme), 2), storage, [rows]))
    swapped = Job(("b", "a"), schema, work, make(scheme), 2)
    with pytest.raises(InputError, match=r"the key was a, b in the checkpoint .* is b, a now"):
        list(run_stream(swapped, storage, [rows], first=1))
    more = Job(("b", "a"), schema, KeyedStates(Aggregates(n=ef.count(), m=ef.max("a"))), None, 2)
    with pytest.raises(InputError, match="the key was a, b"):
        list(run_stream(more, storage, [rows], first=1))
    sink = Tables()
    list(run_stream(Job(("a", "b"), schema, work, make(scheme), 2), storage, [rows], sink, first=1))
    assert sink.latest("a", "b").column("n").to_pylist() == [2, 2]


@pytest.mark.parametrize("cut", [False, True], ids=["between batches", "within a batch"])
def test_an_operator_that_has_lost_its_merge_goes_on_with_whole_keys(cut):
    """Its keys were split, and the plan of the next batch may be written down already."""
    rows = rows_of(*[("hot", 0, 1)] * 50, ("a", 0, 1), ("b", 0, 2))
    both = PerKey(totals, {"total": pa.int64()}, merge=sums, columns=["v"], name="totals")
    storage = MemoryStorage()
    made = list(run_stream(split(both), storage, [rows] * 2))
    assert make(made[-1]["scheme"]).splits_keys
    if cut:
        calls = Faults()
        copy = MemoryStorage()
        for name in storage.list(""):
            copy.put(name, [storage.read(name)])
        list(run_stream(split(both), FaultyStorage(copy, calls), [rows], first=2))
        (fixed,) = [i for i, call in enumerate(calls.log) if call.startswith("create plans/")]
        dying = FaultyStorage(storage, Faults(crash_at=fixed, applied=True))
        with pytest.raises(Crash):
            list(run_stream(split(both), dying, [rows], first=2))
        assert storage.under("evenflow").list("plans/0000000002")
    sink = Tables()
    alone = PerKey(totals, {"total": pa.int64()}, columns=["v"], name="totals")
    made = list(run_stream(auto(alone), storage, [rows] * 2, sink, first=2))
    assert [metrics["scheme"] for metrics in made] == ["table"] * 2
    found = sink.latest("k").sort_by("k").to_pylist()
    assert found == [{"k": k, "total": 4 * n} for k, n in (("a", 1), ("b", 2), ("hot", 50))]


def split(operator):
    return replace(auto(operator), scheme=make("d-choices"))


def auto(operator):
    return Job(("k",), ROWS, KeyedStates(operator), None, 4)


def totals(key, rows, state):
    return {"total": (state["total"] if state else 0) + int(rows["v"].sum())}


def sums(a, b):
    return {"total": a["total"] + b["total"]}
