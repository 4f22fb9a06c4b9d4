"""Rows that an operator fails for: named, or set aside exactly once while all others count."""

import json

import numpy as np
import pyarrow as pa
import pytest

import evenflow as ef
from evenflow.engine.dead_letters import DeadLetters, letter_schema
from evenflow.engine.failures import FunctionFailed
from evenflow.engine.in_process import run_stream
from evenflow.engine.job import Job
from evenflow.engine.joined_rows import JoinedRows
from evenflow.engine.keyed_states import KeyedStates
from evenflow.engine.ordered_states import OrderedStates
from evenflow.engine.output import Tables
from evenflow.engine.windowed_states import WindowedStates
from evenflow.grouping import make
from evenflow.operators.interval_join import IntervalJoin
from evenflow.operators.windows import APPEND, Window
from evenflow.ordering import Writer
from evenflow.storage import MemoryStorage
from evenflow.storage.faults import Crash, Faults, FaultyStorage

ROWS = pa.schema([("k", pa.string()), ("v", pa.string())])
SECOND = 1_000_000


def total(key, rows, state):
    return {"n": (state or {"n": 0})["n"] + sum(int(v) for v in rows["v"])}


def added(a, b):
    if a["n"] + b["n"] > 1000:
        raise OverflowError("too much")
    return {"n": a["n"] + b["n"]}


def shown(key, state):
    if state["n"] % 100 == 66:
        raise ValueError(f"{state['n']} cannot be shown")
    return {"total": state["n"]}


SUM = ef.PerKey(total, state={"n": "int64"}, columns=["v"])
PARTED = ef.PerKey(total, state={"n": "int64"}, columns=["v"], merge=added)


def table(*pairs):
    return pa.table({"k": [k for k, _ in pairs], "v": [v for _, v in pairs]}, schema=ROWS)


def job_of(operator, scheme="key", partitions=3, work=None, rows=ROWS):
    return Job(("k",), rows, work or KeyedStates(operator), make(scheme), partitions)


def run(job, batches, storage=None, sink=None, letters=None, limit=1000):
    """The metrics of each batch, the newest row of each key, the letters."""
    sink, letters = sink or Tables(), letters or Tables()
    metrics = list(
        run_stream(
            job, storage or MemoryStorage(), batches, sink, dead_letters=DeadLetters(letters, limit)
        )
    )
    return metrics, sink, letters


def latest(sink):
    return {row["k"]: row["n"] for row in sink.latest("k").to_pylist()}


BATCHES = [
    table(("a", "1"), ("b", "2"), ("c", "x"), ("a", "3")),
    table(("a", "5"), ("b", "y"), ("b", "4"), ("c", "1"), ("a", "zz"), ("d", None)),
    table(("a", "1"), ("b", "1"), ("c", "1"), ("d", "1")),
]
BAD = [("c", "x", 0), ("b", "y", 1), ("a", "zz", 1), ("d", None, 1)]


@pytest.mark.parametrize("scheme", ["key", "table"])
def test_without_a_place_for_them_the_first_failure_stops_the_query_and_names_the_key(scheme):
    with pytest.raises(FunctionFailed) as caught:
        list(run_stream(job_of(SUM, scheme), MemoryStorage(), BATCHES))
    [text] = str(caught.value).splitlines()
    assert text.startswith("update (")
    assert 'total) failed for the key ["c"] in batch 0, partition ' in text
    assert (
        "ValueError: invalid literal for int() with base 10: 'x' (test_guarding.py, line " in text
    )
    assert "deadLetterPath" in text


@pytest.mark.parametrize(
    ("operator", "scheme"), [(SUM, "key"), (SUM, "table"), (PARTED, "shuffle")]
)
def test_rows_that_fail_are_set_aside_once_and_all_others_count(operator, scheme):
    metrics, sink, letters = run(job_of(operator, scheme), BATCHES)
    assert latest(sink) == {"a": 10, "b": 7, "c": 2, "d": 1}
    found = letters.table().to_pylist()
    assert sorted((json.loads(r["key"])[0], r["record"]["v"], r["batch"]) for r in found) == sorted(
        BAD, key=str
    )
    for row in found:
        assert row["record"]["k"] == json.loads(row["key"])[0]
        assert row["state"] is None
        assert "Error: " in row["error"]
    assert [m["dead_letters"] for m in metrics] == [1, 3, 0]
    assert metrics[-1]["dead_letters_total"] == 4


def test_a_key_none_of_whose_rows_count_keeps_its_state_and_has_no_output():
    batches = [table(("a", "1"), ("b", "7")), table(("a", "x"), ("a", "y"), ("b", "1"))]
    _, sink, letters = run(job_of(SUM), [*batches, table(("a", "2"))])
    assert sink.tables[1].to_pylist() == [{"k": "b", "n": 8}]
    assert sink.tables[2].to_pylist() == [{"k": "a", "n": 3}]
    assert letters.table().num_rows == 2


def test_rows_that_fail_only_together_are_set_aside_together():
    def few(key, rows, state):
        if len(rows["v"]) > 2:
            raise RuntimeError("too many")
        return total(key, rows, state)

    operator = ef.PerKey(few, state={"n": "int64"}, columns=["v"])
    batches = [table(("a", "1"), *[("b", "1")] * 4, ("b", "x"), ("c", "2"))]
    _, sink, letters = run(job_of(operator), batches)
    assert latest(sink) == {"a": 1, "c": 2}
    errors = letters.table().to_pylist()
    assert sorted(row["error"].split(":")[0] for row in errors) == ["RuntimeError"] * 4 + [
        "ValueError"
    ]


def test_a_merge_that_fails_leaves_the_former_state_and_sets_the_parts_aside():
    batches = [table(("a", "900"), ("b", "1")), table(("a", "200"), ("b", "1")), table(("a", "7"))]
    _, sink, letters = run(job_of(PARTED, "shuffle"), batches)
    assert latest(sink) == {"a": 907, "b": 2}
    [letter] = letters.table().to_pylist()
    assert letter["state"] == {"n": 200}
    assert letter["record"] is None
    assert letter["function"].startswith("merge (")
    with pytest.raises(FunctionFailed, match=r'added\) failed for the key \["a"\] in batch 1'):
        list(run_stream(job_of(PARTED, "shuffle"), MemoryStorage(), batches))


def test_an_emit_that_fails_sets_the_state_aside_and_the_key_goes_on():
    operator = ef.PerKey(
        total, state={"n": "int64"}, columns=["v"], emit=shown, output={"total": "int64"}
    )
    batches = [table(("a", "66"), ("b", "1")), table(("a", "1"))]
    _, sink, letters = run(job_of(operator), batches)
    assert sink.table().to_pylist() == [
        {"k": "b", "total": 1, "batch": 0},
        {"k": "a", "total": 67, "batch": 1},
    ]
    [letter] = letters.table().to_pylist()
    assert letter["state"] == {"n": 66}
    assert letter["error"].startswith("ValueError: 66 cannot be shown")


TIMED = pa.schema([("k", pa.string()), ("t", pa.timestamp("us")), ("v", pa.string())])


@pytest.mark.parametrize("operator", [SUM, PARTED])
@pytest.mark.parametrize("mode", ["update", APPEND])
def test_in_windows_that_overlap_a_row_is_set_aside_from_all_of_them_once(operator, mode):
    window = Window("t", size=4 * SECOND, slide=2 * SECOND, delay=0, mode=mode)
    job = job_of(operator, work=WindowedStates(operator, window), rows=TIMED)
    rows = [("a", 1, "1"), ("a", 3, "x"), ("a", 3, "2"), ("b", 3, "9"), ("b", 50, "1")]
    moments = np.array([t * SECOND for _, t, _ in rows]).view("datetime64[us]")
    batch = pa.table(
        {"k": [r[0] for r in rows], "t": moments, "v": [r[2] for r in rows]}, schema=TIMED
    )
    _, sink, letters = run(job, [batch, batch.slice(4)])
    found = {(r["k"], r["window"]["end"].second): r["n"] for r in sink.table().to_pylist()}
    truth = {("a", 2): 1, ("a", 4): 3, ("a", 6): 2, ("b", 4): 9, ("b", 6): 9}
    assert {key: n for key, n in found.items() if key[1] < 10} == truth
    [letter] = letters.table().to_pylist()
    assert letter["record"]["v"] == "x"


def test_a_window_whose_merge_fails_is_in_the_letter():
    window = Window("t", size=4 * SECOND, slide=2 * SECOND, delay=0, mode="update")
    job = job_of(PARTED, "shuffle", work=WindowedStates(PARTED, window), rows=TIMED)
    moments = np.array([1, 3]).astype("datetime64[s]").astype("datetime64[us]")
    batch = pa.table({"k": ["a", "a"], "t": moments, "v": ["600", "700"]}, schema=TIMED)
    _, sink, letters = run(job, [batch])
    assert {r["window"]["end"].second: r["n"] for r in sink.table().to_pylist()} == {2: 600, 6: 700}
    found = letters.table().to_pylist()
    assert sorted((r["window"]["end"].second, r["state"]["n"]) for r in found) == [
        (4, 600),
        (4, 700),
    ]


def test_more_than_the_limit_stops_the_query_and_a_higher_one_goes_on():
    storage, sink, letters = MemoryStorage(), Tables(), Tables()
    with pytest.raises(
        FunctionFailed, match=r"deadLetterLimit allows, 2 since the query began"
    ) as e:
        run(job_of(SUM), BATCHES, storage, sink, letters, limit=2)
    assert "failed for the key" in str(e.value)
    assert list(letters.tables) == [0]
    assert list(sink.tables) == [0]
    run(job_of(SUM), BATCHES, storage, sink, letters, limit=4)
    assert latest(sink) == {"a": 10, "b": 7, "c": 2, "d": 1}
    assert letters.table().num_rows == 4


def test_a_hot_key_full_of_bad_rows_stops_soon():
    calls = []

    def counted(key, rows, state):
        calls.append(len(rows["v"]))
        return total(key, rows, state)

    operator = ef.PerKey(counted, state={"n": "int64"}, columns=["v"])
    batch = table(*[("a", "x")] * 20_000)
    with pytest.raises(FunctionFailed, match="deadLetterLimit"):
        run(job_of(operator), [batch], limit=10)
    assert len(calls) < 200


def test_one_bad_row_among_many_costs_few_calls_and_none_without_it():
    calls = []

    class Counting(ef.Operator):
        def state_schema(self, rows):
            return pa.schema([("n", pa.int64())])

        def update(self, rows, state):
            calls.append(rows.n_keys)
            if "x" in rows.table.column("v").to_pylist():
                raise ValueError("x")
            return pa.table({"n": pa.array(np.bincount(rows.group, minlength=rows.n_keys))})

    good = [(f"{i}", "1") for i in range(1000)]
    run(job_of(Counting(), partitions=1), [table(*good)])
    assert len(calls) == 1
    calls.clear()
    _, sink, letters = run(
        job_of(Counting(), partitions=1), [table(*good, ("5", "x"), *[("5", "2")] * 9)]
    )
    assert len(calls) < 50
    assert latest(sink)["5"] == 10
    assert letters.table().num_rows == 1


def test_a_driver_killed_at_a_storage_call_has_every_letter_once():
    """Also between the delivery of the letters and the commit; every fifth call."""
    job, batches, faults = job_of(PARTED, "shuffle", 2), BATCHES[:2], Faults()
    _, truth, expected = run(job, batches, FaultyStorage(MemoryStorage(), faults))
    assert expected.table().num_rows == 4
    for call in range(0, faults.calls, 5):
        storage, sink, letters = MemoryStorage(), Tables(), Tables()
        with pytest.raises(Crash):
            run(job, batches, FaultyStorage(storage, Faults(crash_at=call)), sink, letters)
        run(job, batches, storage, sink, letters)
        assert set(map(str, letters.table().to_pylist())) == set(
            map(str, expected.table().to_pylist())
        ), call
        assert letters.table().num_rows == 4
        assert latest(sink) == latest(truth), call
        storage.clear()


LOG = pa.schema(
    [
        ("key", pa.binary()),
        ("headers", pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("value", pa.string()),
    ]
)


def read(records):
    """A batch as Spark reads it: (record, offset, value), of which there are no values in markers."""
    columns = [
        [record.key for record, _, _ in records],
        [[{"key": n, "value": v} for n, v in record.headers] for record, _, _ in records],
        [record.partition for record, _, _ in records],
        [offset for _, offset, _ in records],
        [value for _, _, value in records],
    ]
    return pa.table(columns, schema=LOG)


def test_in_order_a_message_that_is_set_aside_was_read_and_its_key_goes_on():
    """Also one that has waited in the state: its marker must not be lost with it."""

    def joined(key, rows, state):
        texts = [str(int(value)) for value in rows["value"]]
        return {"texts": (state["texts"] if state else "") + "".join(texts)}

    writer = Writer(writer=1, partitions=2, home=lambda key: 0)
    first = [(writer.message(b"k", b""), 0, "1")]
    moved = writer.move(b"k", 1)
    early = [
        (moved[1], 0, None)
    ]  # the beginning at the new partition comes before the end of the old
    early += [(writer.message(b"k", b""), 1 + i, value) for i, value in enumerate(["x", "2"])]
    late = [(moved[0], 1, None), (writer.message(b"k", b""), 3, "3")]
    operator = ef.PerKey(joined, state={"texts": "string"}, columns=["value"])
    job = Job(("key",), LOG, OrderedStates(operator), make("key"), 2)
    again = [read(late[1:]), read([(writer.message(b"k", b""), 4, "4")])]
    _, sink, letters = run(job, [read(first), read(early), read(late), *again])
    assert sink.latest("key").to_pylist() == [{"key": b"k", "texts": "1234"}]
    [letter] = letters.table().to_pylist()
    assert (letter["record"]["value"], letter["record"]["offset"], letter["batch"]) == ("x", 1, 2)


def test_a_join_names_its_function_and_cannot_set_rows_aside():
    def close(pairs):
        raise KeyError("price")

    join = IntervalJoin(("t", "t"), 4, (("v", "a"),), (("v", "b"),), None, 0, close)
    job = job_of(None, work=JoinedRows(join), rows=TIMED)
    batch = pa.table(
        {"k": ["a", "a"], "t": np.array([1, 2], "datetime64[us]"), "v": ["1", "2"]}, schema=TIMED
    )
    with pytest.raises(
        FunctionFailed, match=r"where \(.*close\) failed in batch 0, part.*'price'"
    ) as e:
        list(run_stream(job, MemoryStorage(), [batch]))
    assert "deadLetterPath" not in str(e.value)
    with pytest.raises(ef.InputError, match="an interval join cannot set rows aside"):
        letter_schema(job)
