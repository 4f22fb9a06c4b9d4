"""Stateful processors in the engine: calls, timers, ends of values, moves, and what a failure says."""

from collections import Counter
from dataclasses import dataclass, replace
from typing import ClassVar
from unittest import mock

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evenflow.engine.dead_letters import letter_schema
from evenflow.engine.failures import FunctionFailed
from evenflow.engine.in_process import InProcess, run_stream
from evenflow.engine.job import Job, check_fit
from evenflow.engine.output import Tables
from evenflow.engine.plans import first_plan
from evenflow.engine.processor_states import ProcessorStates
from evenflow.engine.processors import EVENT_TIME, NONE, PROCESSING_TIME
from evenflow.engine.program import Stages
from evenflow.grouping import make
from evenflow.kernels.fingerprints import fingerprint
from evenflow.model import InputError, RoutingTable
from evenflow.operators.state_variables import read_states, state_columns
from evenflow.planning.controller import Controller, Decision, Replanning
from evenflow.state.checkpoint import Checkpoint
from evenflow.state.compaction import newest
from evenflow.state.metrics import read_metrics
from evenflow.state.segments import read_segment
from evenflow.state.verification import verify
from evenflow.storage.faults import Crash, Faults, FaultyStorage
from evenflow.storage.memory import MemoryStorage
from plain_processor import Counting

TIMES = pa.timestamp("us", "UTC")
ROWS = pa.schema([("k", pa.string()), ("ts", TIMES), ("v", pa.int64())])


def rows_of(*rows):
    """Rows of (key, event time in milliseconds, value)."""
    columns = list(zip(*rows, strict=True)) if rows else [[], [], []]
    times = pa.array([None if t is None else t * 1_000 for t in columns[1]], pa.int64()).cast(TIMES)
    arrays = [pa.array(columns[0], pa.string()), times, pa.array(columns[2], pa.int64())]
    return pa.table(arrays, schema=ROWS)


def job_of(processor, mode=PROCESSING_TIME, scheme="key", partitions=3, **work):
    return Job(("k",), ROWS, ProcessorStates(processor, mode, **work), make(scheme), partitions)


def outputs(job, batches, moments, storage=None, first=0):
    """What each batch has put out, sorted."""
    sink = Tables()
    storage = storage or MemoryStorage()
    for _ in run_stream(job, storage, batches, sink, first=first, moments=moments):
        pass
    assert not verify(storage).problems
    return {
        n: sorted(map(tuple, map(dict.values, t.to_pylist())), key=str)
        for n, t in sink.tables.items()
    }


@settings(max_examples=40)
@given(
    st.lists(
        st.lists(st.tuples(st.sampled_from(["a", "ä", "", None]), st.integers(0, 60)), max_size=8),
        min_size=1,
        max_size=6,
    ),
    st.lists(st.integers(1, 40), min_size=6, max_size=6),
)
def test_timers_and_ttl_are_those_of_a_plain_dictionary(batches, steps):
    """An oracle in plain Python: counts, what is remembered until when, and a timer for each key."""
    moments = [sum(steps[: i + 1]) for i in range(6)]
    given_rows = [rows_of(*((k, 0, v % 3) for k, v in batch)) for batch in batches]
    job = job_of(Counting(PROCESSING_TIME, after=35, ttl=25), partitions=2)
    found = outputs(job, given_rows, lambda batch: moments[batch])
    known = {}
    for number, batch in enumerate(batches):
        now, expected = moments[number], []
        for state in known.values():
            state["recent"] = [(n, until) for n, until in state["recent"] if until > now]
            state["by"] = {v: until for v, until in state["by"].items() if until > now}
        for key in dict.fromkeys(k for k, _ in batch):
            values = [v % 3 for k, v in batch if k == key]
            state = known.setdefault(key, {"n": 0, "recent": [], "by": {}, "timer": None})
            state["n"] += len(values)
            state["recent"].append((len(values), now + 25))
            state["by"].update(dict.fromkeys(values, now + 25))
            state["timer"] = state["timer"] or now + 35
            expected += [(key, "row", state["n"])] * len(values)
            expected.append((key, "recent", sum(n for n, _ in state["recent"])))
            expected.append((key, "by", len(state["by"])))
        for key, state in known.items():
            if state["timer"] is not None and state["timer"] <= now:
                expected.append((key, f"closed at {state['timer']}", state["n"]))
                state.update(n=0, timer=None)
        assert found.get(number, []) == sorted(expected, key=str)


def test_all_rows_of_a_key_come_in_one_call():
    rows = rows_of(*((("hot", f"k{i % 50}")[i % 2], 0, i) for i in range(40_000)))
    made = outputs(job_of(Counting(NONE, after=1), NONE), [rows], None)[0]
    assert made.count(("hot", "recent", 20_000)) == 1
    assert len([one for one in made if one[1] == "recent"]) == 26


def test_a_timer_fires_once_without_rows_of_its_key():
    batches = [rows_of(("a", 0, 1), ("b", 0, 1)), rows_of(("b", 0, 1)), rows_of(), rows_of()]
    found = outputs(job_of(Counting(PROCESSING_TIME, after=10)), batches, lambda n: 100 + 6 * n)
    closed = {n: [row for row in rows if "closed" in row[1]] for n, rows in found.items()}
    fired = [("a", "closed at 110", 1), ("b", "closed at 110", 2)]
    assert {n: rows for n, rows in closed.items() if rows} == {2: fired}


def test_rows_that_are_late_are_dropped_in_event_time_alone():
    batches = [rows_of(("a", 50, 1)), rows_of(("a", 60, 1)), rows_of(("a", 40, 1), ("a", None, 2))]
    counts = {}
    for mode in (EVENT_TIME, PROCESSING_TIME, NONE):
        job = job_of(Counting(mode, after=1_000), mode, event_time="ts", late=5_000)
        found = outputs(job, batches, lambda n: n)
        counts[mode] = max(n for key, what, n in found[2] if what == "row")
    # The watermark for late rows is the one before: 50 − 5.
    assert counts == {EVENT_TIME: 3, PROCESSING_TIME: 4, NONE: 4}


def test_timers_move_with_their_keys():
    """To other partitions, by a new number of them, before the timers fire."""
    processor = Counting(PROCESSING_TIME, after=50)
    rows = rows_of(*((f"k{i}", 0, 1) for i in range(40)))
    storage, fired = MemoryStorage(), []
    for number, partitions in enumerate([2, 5, 3, 4]):
        job = job_of(processor, scheme="table", partitions=partitions)
        some = rows if number == 0 else rows_of(("other", 0, 1))
        made = outputs(job, [some], lambda n: 20 * n, storage, number)[number]
        fired.append(sorted(key for key, what, _ in made if what == "closed at 50"))
    assert fired == [[], [], [], sorted(f"k{i}" for i in range(40))]


#: Keys move in almost every batch, whatever their work is measured to cost.
EAGER = Replanning(theta=0.01, margin=0.0, certainty=0.0, memory=0.5)


def test_keys_move_while_the_query_runs_and_every_timer_fires_once():
    processor = Counting(EVENT_TIME, after=300)
    work = ProcessorStates(processor, EVENT_TIME, "ts", late=1_000)
    job = Job(("k",), ROWS, work, make("table"), 3, 0, EAGER)
    batches = [
        rows_of(
            *((f"hot{n // 4}" if i % 3 else f"k{(i + n) % 17}", n * 100 + i, 1) for i in range(60))
        )
        for n in range(16)
    ]
    storage = MemoryStorage()
    found = outputs(job, batches, None, storage)
    other = outputs(job_of(processor, EVENT_TIME, event_time="ts", late=1_000), batches, None)
    assert found == other
    metrics = read_metrics(storage.under("evenflow"))
    assert sum(one["migrated_keys"] for one in metrics) > 0
    assert sum("closed" in what for rows in found.values() for _, what, _ in rows) > 20


def test_a_key_without_state_leaves_the_storage():
    """What has ended is gone after the next full compaction, and no trace of the key is left."""

    @dataclass(frozen=True)
    class Forgetful(Counting):
        def begin(self, times):
            calls = super().begin(times)
            handle = calls.input

            def handed(key, state, rows):
                handle(key, state, rows)
                state.timers.clear()
                state.values.clear()

            calls.input = handed
            return calls

    job = job_of(Forgetful(PROCESSING_TIME, after=5, ttl=10), partitions=1)
    batches = [rows_of(*((f"k{i}", 0, 1) for i in range(100)))]
    batches += [rows_of(*((f"n{n}-{i}", 0, 1) for i in range(60))) for n in range(6)]
    storage = MemoryStorage()
    outputs(job, batches, lambda n: 20 * n, storage)
    keys = _states(storage)["k0"].to_pylist()
    assert not any(key.startswith("k") for key in keys)
    assert len(Checkpoint.open(storage).last().due) <= 2


@dataclass(frozen=True)
class Erasing(Counting):
    """Erases all state of a key that has a row with 0."""

    def begin(self, times):
        calls = super().begin(times)
        handle = calls.input

        def handed(key, state, rows):
            handle(key, state, rows)
            state.timers.clear()
            if any(row["v"] == 0 for row in rows):
                for part in (state.values, state.lists, state.maps):
                    part.clear()

        calls.input = handed
        return calls


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.lists(st.tuples(st.sampled_from("abcdef"), st.integers(0, 2)), max_size=5),
            st.dictionaries(st.sampled_from("abcdef"), st.integers(0, 1), max_size=4),
        ),
        min_size=2,
        max_size=9,
    )
)
def test_what_a_key_has_forgotten_does_not_come_back_wherever_it_moves(batches):
    """An oracle in plain Python: a row with 0 clears its key; tables send keys to and fro."""
    prints = dict(zip("abcdef", fingerprint(pa.array(list("abcdef"))).tolist(), strict=True))
    tables = [
        RoutingTable({prints[k]: owner for k, owner in where.items()}) for _, where in batches
    ]
    decisions = [Decision(table, "drawn", 0.0) for table in tables]
    job = job_of(Erasing(NONE, 0), NONE, "table", 2)
    known, expected = Counter(), {}
    for number, (rows, _) in enumerate(batches):
        for key in dict.fromkeys(key for key, _ in rows):
            values = [value for k, value in rows if k == key]
            known[key] += len(values)
            expected.setdefault(number, []).append((key, "row", known[key]))
            if 0 in values:
                del known[key]
    with mock.patch.object(Controller, "decide", side_effect=decisions):
        found = outputs(job, [rows_of(*((k, 0, v) for k, v in rows)) for rows, _ in batches], None)
    found = {n: sorted({row for row in rows if row[1] == "row"}) for n, rows in found.items()}
    assert {n: rows for n, rows in found.items() if rows} == {
        n: sorted(r) for n, r in expected.items()
    }


def test_the_initial_state_comes_before_the_rows():
    struct = pa.struct([("k", pa.string()), ("n", pa.int64())])
    schema = ROWS.append(pa.field("initial", struct))
    work = ProcessorStates(Counting(NONE, after=1), NONE, initial="initial")
    job = Job(("k",), schema, work, make("key"), 2)
    plain = rows_of(("a", 0, 1), ("b", 0, 1)).append_column("initial", pa.nulls(2, struct))
    initial = pa.Table.from_pylist(
        [{"k": key, "initial": {"k": key, "n": n}} for key, n in (("a", 10), ("c", 5), ("a", 7))],
        schema=schema,
    )
    more = rows_of(("c", 0, 1)).append_column("initial", pa.nulls(1, struct))
    found = outputs(job, [pa.concat_tables([plain, initial]), more], None)
    assert [row for row in found[0] if row[1] == "row"] == [("a", "row", 18), ("b", "row", 1)]
    assert [row for row in found[1] if row[1] == "row"] == [("c", "row", 6)]


def test_variables_are_added_and_dropped_between_starts():
    storage = MemoryStorage()
    old = job_of(Counting(NONE, after=1), NONE)
    outputs(old, [rows_of(("a", 0, 1))], None, storage)

    @dataclass(frozen=True)
    class Newer(Counting):
        deleted: ClassVar[tuple[str, ...]] = ("by",)

        def variables(self):
            count, recent, _ = super().variables()
            wider = pa.struct([("m", pa.string()), ("n", pa.int64())])
            return count, replace(recent, value=wider), replace(count, name="new")

        def begin(self, times):
            calls = super().begin(times)

            def handed(key, state, rows):
                assert state.lists["recent"] == [((None, 1), None)]
                count = state.values["count"][0][0] + len(rows)
                state.values["count"] = ((count,), None)
                calls.made.append((key[0], "row", count))

            calls.input = handed
            return calls

    work = ProcessorStates(Newer(NONE, after=1), NONE)
    assert work.carries_over(old.identity())
    kept = replace(work, processor=Counting(NONE, after=1))
    assert not kept.carries_over({**work.signature(), "processor": "another"})
    with pytest.raises(
        InputError, match=r"list_recent.value.*|map_by is missing|value_new is missing"
    ):
        kept.carries_over(work.signature())
    made = outputs(replace(old, work=work), [rows_of(("a", 0, 2))], None, storage, 1)
    assert made[1] == [("a", "row", 2)]  # its count is still there
    states = _states(storage)
    assert states["s_list_recent"].to_pylist()[-1][0]["value"] == {"m": None, "n": 1}
    assert "s_map_by" not in states.column_names


def _states(storage):
    """The stored rows of all keys."""
    checkpoint = Checkpoint.open(storage)
    segments = checkpoint.last().segments
    return newest(pa.concat_tables([read_segment(checkpoint.storage, one) for one in segments]))


@dataclass(frozen=True)
class Failing(Counting):
    """Fails in one of its methods, for one key."""

    where: str = "input"

    def begin(self, times):
        calls = super().begin(times)
        handle = getattr(calls, self.where)

        def failing(*args):
            if not args or args[0] == ("b",):
                raise KeyError("price")
            handle(*args)

        setattr(calls, self.where, failing)
        return calls


@pytest.mark.parametrize("where", ["input", "expired", "close"])
def test_an_error_names_the_method_the_key_and_the_batch(where):
    job = job_of(Failing(PROCESSING_TIME, after=0, where=where))
    key = "" if where == "close" else r' for the key \["b"\]'
    batches = [rows_of(("a", 0, 1)), rows_of(("a", 0, 1), ("b", 0, 1))]
    batches = batches[1:] if where == "close" else batches
    number = len(batches) - 1
    message = (
        rf"^Counting\.{where} failed{key} in batch {number}, partition \d: KeyError: 'price' \("
    )
    with pytest.raises(FunctionFailed, match=message) as raised:
        outputs(job, batches, lambda n: n)
    assert "deadLetterPath" not in str(raised.value)


def test_what_does_not_fit_is_refused():
    job = job_of(Counting(PROCESSING_TIME, after=1))
    with pytest.raises(InputError, match="no `merge`"):
        check_fit(job.work, make("d-choices"))
    with pytest.raises(InputError, match="its state may have changed before it fails"):
        letter_schema(job)
    with pytest.raises(InputError, match="does not say when it began"):
        outputs(job, [rows_of(("a", 0, 1))], None)


def test_a_batch_dataframe_is_worked_on_once_and_its_timers_fire_at_the_end():
    work = ProcessorStates(Counting(PROCESSING_TIME, after=0), PROCESSING_TIME, began=1_000)
    job = Job(("k",), ROWS, work, make("key"), 2)
    rows = rows_of(("a", 0, 1), ("b", 0, 1), ("a", 0, 2))
    made = InProcess().output(rows, Stages.of(job, first_plan(job))).to_pylist()
    closed = sorted((row["k"], row["n"]) for row in made if row["what"] == "closed at 1000")
    assert closed == [("a", 2), ("b", 1)]
    assert InProcess().output(rows.slice(0, 0), Stages.of(job, first_plan(job))).num_rows == 0


def test_states_are_rows_that_can_be_read():
    """`evenflow state` shows them: a column per variable."""
    storage = MemoryStorage()
    processor = Counting(NONE, after=1)
    outputs(
        job_of(processor, NONE, partitions=1), [rows_of(("a", 0, 1), ("a", 0, 2))], None, storage
    )
    checkpoint = Checkpoint.open(storage)
    table = read_segment(checkpoint.storage, checkpoint.last().segments[0])
    schema = state_columns(processor.variables())
    assert [f"s_{name}" for name in schema.names] == table.column_names[3:]
    states = table.select(table.column_names[3:]).rename_columns(schema.names).cast(schema)
    (state,) = read_states(processor.variables(), states)
    assert state.values == {"count": ((2,), None)}


@dataclass(frozen=True)
class Sparing(Counting):
    """Counts the rows of each key, and has some variables more or less."""

    has: tuple[str, ...] = ("count", "recent", "by")

    @property
    def deleted(self):
        return tuple({"count", "recent", "by"} - set(self.has))

    def variables(self):
        return tuple(one for one in super().variables() if one.name in self.has)

    def begin(self, times):
        calls = super().begin(times)

        def handed(key, state, rows):
            state.values["count"] = ((state.values.get("count", ((0,), None))[0][0] + 1,), None)
            calls.made.append((key[0], "row", state.values["count"][0][0]))
            if "by" in self.has:
                by = state.maps.setdefault("by", {})
                by[(len(by),)] = ((len(by),), ((1,), None))
                calls.made.append((key[0], "by", len(by)))

        calls.input = handed
        return calls


def test_a_variable_that_was_deleted_does_not_come_back_with_its_old_values():
    """Keys that no row has touched meanwhile are still stored with them."""
    less, storage = ("count", "recent"), MemoryStorage()

    def run(number, *has, keys="a"):
        job = job_of(Sparing(NONE, 1, has=has or ("count", "recent", "by")), NONE)
        rows = rows_of(*((key, 0, 1) for key in keys))
        return outputs(job, [rows], None, storage, number)[number]

    assert run(0, keys="ab") == [(k, what, 1) for k in "ab" for what in ("by", "row")]
    run(1, *less, keys="b")
    with pytest.raises(InputError, match=r"'by' of Counting was deleted.*another name"):
        run(2)
    assert run(2, *less) == [("a", "row", 2)]
    with pytest.raises(InputError, match=r"'by' of Counting was deleted.*another name"):
        run(3)


def test_a_variable_comes_back_as_it_was_if_nothing_was_committed_without_it():
    whole, storage = ("count", "recent", "by"), MemoryStorage()
    jobs = [job_of(Sparing(NONE, 1, has=has), NONE) for has in (whole, ("count", "recent"))]
    rows = rows_of(("a", 0, 1))
    outputs(jobs[0], [rows], None, storage)
    calls = Faults()
    copy = MemoryStorage()
    for name in storage.list(""):
        copy.put(name, [storage.read(name)])
    outputs(jobs[1], [rows], None, FaultyStorage(copy, calls), 1)
    (fixed,) = [i for i, call in enumerate(calls.log) if call.startswith("create plans/")]
    with pytest.raises(Crash):
        outputs(jobs[1], [rows], None, FaultyStorage(storage, Faults(crash_at=fixed)), 1)
    assert "dropped" in Checkpoint.open(storage).identity
    assert outputs(jobs[0], [rows], None, storage, 1)[1] == [("a", "by", 2), ("a", "row", 2)]
    assert "dropped" not in Checkpoint.open(storage).identity
