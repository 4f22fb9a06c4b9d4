"""Streams of windows: late rows, changed windows, closed windows, state that expires."""

from functools import partial

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import evenflow as ef
from evenflow.engine import keyed_states
from evenflow.engine.event_time import Watermarks
from evenflow.engine.job import Job
from evenflow.engine.task import chunks
from evenflow.engine.windowed_states import WindowedStates
from evenflow.operators import Aggregates, PerKey, Window
from evenflow.state.segments import read_segment
from evenflow.state.verification import verify_segment
from evenflow.storage.memory import MemoryStorage
from naive_windows import ROWS, NaiveStream, shapes, table_of, tables
from windowed_run import LocalRun


def gathered(key, rows, state):
    """Has no merge: the values of a key, in order."""
    return {"values": sorted([*(state["values"] if state else []), *rows["v"].tolist()])}


GATHER = PerKey(gathered, state={"values": pa.list_(pa.int64())}, columns=["v"])
COUNT = Aggregates(n=ef.count(), total=ef.sum("v"), kinds=ef.distinct("v"))


def shown(table, operator):
    """{(key, end): what a window shows}."""
    found = {}
    for row in table.to_pylist():
        end = int(row["window"]["end"].timestamp() * 1_000_000 + 0.5)
        values = row["values"] if operator is GATHER else (row["n"], row["total"], row["kinds"])
        assert (row["k"], end) not in found
        found[row["k"], end] = values
    return found


def expected_of(windows, operator):
    if operator is GATHER:
        return {window: sorted(values) for window, values in windows.items()}
    return {w: (len(v), sum(v), len(set(v))) for w, v in windows.items()}


rows = st.tuples(
    st.sampled_from(["a", "b", "c", "", None]),
    st.one_of(st.none(), st.integers(0, 120)),
    st.integers(0, 3),
)
batches = st.lists(st.lists(rows, max_size=12), min_size=1, max_size=6)


@settings(max_examples=60)
@given(
    shape=shapes,
    batches=batches,
    mode=st.sampled_from(["update", "append"]),
    how=st.sampled_from(["split", "whole", "no merge"]),
    workers=st.lists(st.sampled_from([1, 2, 3, 3, 3]), min_size=6, max_size=6),
    tables=tables,
    tries=st.integers(1, 2),
)
def test_a_stream_gives_what_sparks_rules_give(shape, batches, mode, how, workers, tables, tries):
    """Whatever the rows, however they are cut into batches, and although the number of workers
    changes and keys move: late rows, changed windows, closed windows, state."""
    size, slide, start, delay = shape
    window = Window("ts", size, slide, delay, start, mode)
    operator = GATHER if how == "no merge" else COUNT
    job = Job(("k",), ROWS, WindowedStates(operator, window), None, 3)
    run = LocalRun(job, MemoryStorage())
    naive = NaiveStream(size, slide, delay, start)
    with pytest.MonkeyPatch.context() as patched:  # so that a task takes its rows in several turns
        patched.setattr(keyed_states, "chunks", partial(chunks, most=5))
        for batch, n, table in zip(batches, workers, tables, strict=False):
            found, metrics = run.batch(table_of(batch), n, how == "split", tries=tries, table=table)
            updated, closed, late, partly = naive.batch(batch)
            expected = updated if mode == "update" else closed
            assert shown(found, operator) == expected_of(expected, operator)
            assert (metrics["late_rows"], metrics["partly_late_rows"]) == (late, partly)
            assert metrics["null_times"] == sum(time is None for _, time, _ in batch)
            check_state(run, naive)


def check_state(run, naive):
    """What is kept is what is open: every open window is there, and no segment is wholly over."""
    assert all(naive.over is None or s.expires[1] > naive.over for s in run.segments)
    owners = {epoch: place.to_json() for epoch, place in run.owners.items()}
    kept = set()
    for segment in run.segments:
        verify_segment(run.storage, segment, owners)
        table = read_segment(run.storage, segment)
        ends = table.column("k1").to_pylist()
        assert segment.expires == (min(ends), max(ends))
        kept |= set(zip(table.column("k0").to_pylist(), ends, strict=True))
    assert {w for w in kept if naive.over is None or w[1] > naive.over} == set(naive.open)


def test_state_is_evicted_and_its_size_stays_bounded():
    """Sixty batches of a minute each: what is kept is what the last ones left open."""
    minute = 60_000_000
    window = Window("ts", 5 * minute, 5 * minute, minute)
    run = LocalRun(Job(("k",), ROWS, WindowedStates(COUNT, window), None, 2), MemoryStorage())
    sizes = []
    for batch in range(60):
        times = batch * minute + np.arange(40) * minute // 40
        _, metrics = run.batch(table_of([(f"key {t % 9}", int(t), 1) for t in times]), 1)
        sizes.append(metrics["state_rows"])
    assert metrics["watermark"] == "1970-01-01T00:58:58.500000+00:00"
    # 9 keys, of whose windows two are open; older versions of them lie in other segments.
    assert max(sizes[10:]) <= 9 * 2 * 4
    assert max(sizes[30:]) <= max(sizes[10:30])


def test_a_segment_whose_windows_are_over_is_dropped_without_being_read():
    run = LocalRun(
        Job(("k",), ROWS, WindowedStates(COUNT, Window("ts", 10, 10)), None, 1), MemoryStorage()
    )
    run.batch(table_of([(str(i), 5, 1) for i in range(9)]), 1)
    run.batch(table_of([("b", 105, 1)]), 1)  # too small to be compacted with the first
    (first, *_) = run.segments
    run.storage.delete(first.name)  # whoever reads it fails
    run.batch(table_of([("b", 106, 1)]), 1)
    assert first.file not in {segment.file for segment in run.segments}


def test_append_reads_only_segments_in_which_a_window_ends():
    window = Window("ts", 10, 10, mode="append")
    run = LocalRun(Job(("k",), ROWS, WindowedStates(COUNT, window), None, 1), MemoryStorage())
    run.batch(table_of([("far", 1005, 1)] * 9 + [(str(i), 1006, 1) for i in range(9)]), 1)
    (far,) = run.segments
    hidden = run.storage.read(far.name)
    run.storage.delete(far.name)
    found, _ = run.batch(table_of([("b", 999, 1)]), 1)  # over when it comes, and not yet late
    assert found.column("k").to_pylist() == ["b"]
    run.storage.put(far.name, [hidden])
    run.batch(table_of([("c", 1021, 1)]), 1)
    found, metrics = run.batch(table_of([("c", 1022, 1)]), 1)
    assert found.num_rows == metrics["closed_windows"] == 10
    assert set(found.column("k").to_pylist()) == {"far", *map(str, range(9))}


def test_a_watermark_never_goes_back():
    before = Watermarks(5, 7, (9,))
    assert before.left_behind([[3]], delay=100)["watermark"] == 7
    assert before.left_behind([], delay=0)["watermark"] == 9
    assert Watermarks().left_behind([[None]], delay=0)["watermark"] is None
    assert Watermarks().left_behind([[8, None]], delay=0)["watermark"] is None
    two = Watermarks().left_behind([[8, None], [2, 5]], delay=1)
    assert two == {"closed": None, "watermark": 4, "newest": [8, 5]}


def test_windows_that_have_many_rows_of_state_cost_linear_time():
    """300 windows of one key share a fingerprint: compared one with all others they would be 90 000
    comparisons. Counted, not timed: how many rows are compared."""
    window = Window("ts", 300, 1)
    run = LocalRun(Job(("k",), ROWS, WindowedStates(COUNT, window), None, 1), MemoryStorage())
    compared = []
    with pytest.MonkeyPatch.context() as patched:
        from evenflow.state import key_values, state_reader

        for module in (key_values, state_reader):
            original = key_values.equal_keys
            patched.setattr(
                module,
                "equal_keys",
                lambda a, b, same=original: (compared.append(a.num_rows), same(a, b))[1],
            )
        for batch in range(6):
            found, _ = run.batch(table_of([("hot", 1000 + batch, 1)]), 1)
            assert found.num_rows == 300
    assert sum(compared) < 6 * 300 * 10
