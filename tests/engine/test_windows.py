"""Windows and window joins without a JVM: assignment, lateness, eviction, pairs, against slow twins."""

import datetime as dt
from collections import Counter
from functools import partial

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import evenflow as ef
from evenflow.model.durations import microseconds
from evenflow.operators import Aggregates, PerKey, Window, WindowJoin, on_table
from evenflow.operators.pairing import pairs_across, pairs_within
from naive_windows import NaiveJoin, NaiveStream, windows_of

pytest.importorskip("pyspark")

from evenflow.engine import windowed_work
from evenflow.engine.event_time import Watermarks
from evenflow.engine.job import Job
from evenflow.engine.rows import chunks
from evenflow.state import read_segment
from evenflow.state.verification import verify_segment
from windowed_run import LocalRun

# --- durations -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("10 minutes", 600_000_000),
        ("interval 1 hour 30 minutes", 5_400_000_000),
        ("1 Week", 604_800_000_000),
        ("1 day", 86_400_000_000),
        ("1.5 seconds", 1_500_000),
        ("250 milliseconds", 250_000),
        ("7 microseconds", 7),
        (dt.timedelta(minutes=1, microseconds=1), 60_000_001),
    ],
)
def test_durations_are_read_as_spark_reads_them(text, expected):
    assert microseconds("size", text) == expected


@pytest.mark.parametrize(
    ("duration", "message"),
    [
        ("1 month", "no fixed length"),
        ("2 years", "no fixed length"),
        ("0 seconds", "longer than nothing"),
        ("-5 minutes", "longer than nothing"),
        (dt.timedelta(), "longer than nothing"),
        ("ten minutes", "not a duration"),
        ("10", "not a duration"),
        ("", "not a duration"),
        ("10 minutes and more", "not a duration"),
        ("0.1 microseconds", "whole number of microseconds"),
        (600, "takes a duration"),
        (None, "takes a duration"),
    ],
)
def test_durations_that_are_none_are_refused(duration, message):
    with pytest.raises(ef.InputError, match=f"size.*{message}"):
        microseconds("size", duration)


# --- windows -------------------------------------------------------------------------------------

shapes = st.integers(1, 40).flatmap(
    lambda size: st.integers(1, size).flatmap(
        lambda slide: st.tuples(
            st.just(size), st.just(slide), st.integers(-slide + 1, slide - 1), st.integers(0, 30)
        )
    )
)
moments = st.integers(-200, 200)


@given(shape=shapes, times=st.lists(moments, max_size=20))
def test_a_row_is_in_the_windows_that_hold_it(shape, times):
    size, slide, start, _ = shape
    window = Window("ts", size, slide, start=start)
    row, ends = window.ends(np.array(times, np.int64))
    expected = [(i, e) for i, t in enumerate(times) for e in windows_of(t, size, slide, start)]
    assert list(zip(row.tolist(), ends.tolist(), strict=True)) == expected
    own = [windows_of(t, size, slide, start) for t in times]
    assert window.last_end(np.array(times, np.int64)).tolist() == [e[0] for e in own]
    assert window.first_end(np.array(times, np.int64)).tolist() == [e[-1] for e in own]


@given(shape=shapes, times=st.lists(moments, max_size=20))
def test_rows_of_a_pane_are_in_the_same_windows(shape, times):
    size, slide, start, _ = shape
    window = Window("ts", size, slide, start=start)
    panes = window.panes(np.array(times, np.int64)).tolist()
    for time, pane in zip(times, panes, strict=True):
        assert pane <= time < pane + window.pane
        assert windows_of(pane, size, slide, start) == windows_of(time, size, slide, start)


@given(shape=shapes, after=moments, until=moments)
def test_whether_a_window_ends_between_two_moments(shape, after, until):
    size, slide, start, _ = shape
    ends = {e for t in range(-300, 300) for e in windows_of(t, size, slide, start)}
    expected = any(after < end <= until for end in ends)
    assert Window("ts", size, slide, start=start).any_ends(after, until) == expected


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"slide": 11}, "leave rows out"),
        ({"size": 0}, "above 0"),
        ({"slide": 0}, "above 0"),
        ({"delay": -1}, "at least 0"),
        ({"start": 5}, "less than the slide"),
        ({"mode": "complete"}, '"update" or "append"'),
        ({"column": ""}, "timestamp column"),
    ],
)
def test_windows_that_make_no_sense_are_refused(changes, message):
    with pytest.raises(ef.InputError, match=message):
        Window(**{"column": "ts", "size": 10, "slide": 5, **changes})


def test_a_window_needs_a_timestamp():
    window = Window("ts", 10, 5)
    with pytest.raises(ef.InputError, match=r"int64.*must be a timestamp.*cast"):
        window.time_type(pa.schema([("ts", pa.int64())]))
    with pytest.raises(ef.InputError, match="no column 'ts'; columns: tz"):
        window.time_type(pa.schema([("tz", pa.int64())]))


@pytest.mark.parametrize("unit", ["s", "ms", "us"])
def test_a_table_at_hand_in_windows(unit):
    seconds = (
        pa.array([1, 7, None, 12], pa.int64()).cast(pa.timestamp("s")).cast(pa.timestamp(unit))
    )
    rows = pa.table({"k": ["a", "a", "a", "b"], "ts": seconds, "v": [1, 2, 4, 8]})
    window = Window("ts", 10_000_000, 5_000_000)
    found = on_table(Aggregates(n=ef.count(), v=ef.sum("v")), rows, "k", window)
    assert found.schema.field("window_start").type == pa.timestamp(unit)
    shown = {(r["k"], r["window_end"].second): (r["n"], r["v"]) for r in found.to_pylist()}
    assert shown == {
        ("a", 5): (1, 1),
        ("a", 10): (2, 3),
        ("a", 15): (1, 2),
        ("b", 15): (1, 8),
        ("b", 20): (1, 8),
    }


# --- streams of windows --------------------------------------------------------------------------

ROWS = pa.schema([("k", pa.string()), ("ts", pa.timestamp("us", "UTC")), ("v", pa.int64())])


def table_of(rows):
    keys, times, values = ([row[i] for row in rows] for i in range(3))
    stamps = pa.array(times, pa.int64()).cast(pa.timestamp("us", "UTC"))
    return pa.table(
        [pa.array(keys, pa.string()), stamps, pa.array(values, pa.int64())], schema=ROWS
    )


def gathered(key, rows, state):
    """Has no merge: the values of a key, in order."""
    return {"values": sorted([*(state["values"] if state else []), *rows["v"].tolist()])}


GATHER = PerKey(gathered, state={"values": pa.list_(pa.int64())}, columns=["v"])
COUNT = Aggregates(n=ef.count(), total=ef.sum("v"), kinds=ef.distinct("v"))


def shown(table, operator):
    """{(key, end): what a window shows}."""
    found = {}
    for row in table.to_pylist():
        end = int(row["window_end"].timestamp() * 1_000_000 + 0.5)
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
#: Routing tables of six batches: some keys are with workers of their own.
tables = st.lists(
    st.dictionaries(st.sampled_from(["a", "b", None]), st.integers(0, 2), max_size=3),
    min_size=6,
    max_size=6,
)


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
def test_a_stream_gives_what_sparks_rules_give(
    tmp_path_factory, shape, batches, mode, how, workers, tables, tries
):
    """Whatever the rows, however they are cut into batches, and although the number of workers
    changes and keys move: late rows, changed windows, closed windows, state."""
    size, slide, start, delay = shape
    window = Window("ts", size, slide, delay, start, mode)
    operator = GATHER if how == "no merge" else COUNT
    job = Job(("k",), ROWS, operator, None, 3, window=window)
    run = LocalRun(job, tmp_path_factory.mktemp("windows"))
    naive = NaiveStream(size, slide, delay, start)
    with pytest.MonkeyPatch.context() as patched:  # so that a task takes its rows in several turns
        patched.setattr(windowed_work, "chunks", partial(chunks, most=5))
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
    placements = {epoch: place.to_json() for epoch, place in run.owners.items()}
    kept = set()
    for segment in run.segments:
        verify_segment(run.directory, segment, placements)
        table = read_segment(run.directory, segment)
        ends = table.column("k1").to_pylist()
        assert segment.expires == (min(ends), max(ends))
        kept |= set(zip(table.column("k0").to_pylist(), ends, strict=True))
    assert {w for w in kept if naive.over is None or w[1] > naive.over} == set(naive.open)


def test_state_is_evicted_and_its_size_stays_bounded(tmp_path):
    """Sixty batches of a minute each: what is kept is what the last ones left open."""
    minute = 60_000_000
    window = Window("ts", 5 * minute, 5 * minute, minute)
    run = LocalRun(Job(("k",), ROWS, COUNT, None, 2, window=window), tmp_path)
    sizes = []
    for batch in range(60):
        times = batch * minute + np.arange(40) * minute // 40
        _, metrics = run.batch(table_of([(f"key {t % 9}", int(t), 1) for t in times]), 1)
        sizes.append(metrics["state_rows"])
    assert metrics["watermark"] == "1970-01-01T00:58:58.500000+00:00"
    # 9 keys, of whose windows two are open; older versions of them lie in other segments.
    assert max(sizes[10:]) <= 9 * 2 * 4
    assert max(sizes[30:]) <= max(sizes[10:30])


def test_a_segment_whose_windows_are_over_is_dropped_without_being_read(tmp_path):
    run = LocalRun(Job(("k",), ROWS, COUNT, None, 1, window=Window("ts", 10, 10)), tmp_path)
    run.batch(table_of([(str(i), 5, 1) for i in range(9)]), 1)
    run.batch(table_of([("b", 105, 1)]), 1)  # too small to be folded with the first
    (first, *_) = run.segments
    (tmp_path / first.file).unlink()  # whoever reads it fails
    run.batch(table_of([("b", 106, 1)]), 1)
    assert first.file not in {segment.file for segment in run.segments}


def test_append_reads_only_segments_in_which_a_window_ends(tmp_path):
    window = Window("ts", 10, 10, mode="append")
    run = LocalRun(Job(("k",), ROWS, COUNT, None, 1, window=window), tmp_path)
    run.batch(table_of([("far", 1005, 1)] * 9 + [(str(i), 1006, 1) for i in range(9)]), 1)
    (far,) = run.segments
    hidden = tmp_path / "hidden"
    (tmp_path / far.file).rename(hidden)
    found, _ = run.batch(table_of([("b", 999, 1)]), 1)  # over when it comes, and not yet late
    assert found.column("k").to_pylist() == ["b"]
    hidden.rename(tmp_path / far.file)
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


def test_windows_that_have_many_rows_of_state_cost_linear_time(tmp_path):
    """300 windows of one key share a fingerprint: compared one with all others they would be 90 000
    comparisons. Counted, not timed: how many rows are compared."""
    window = Window("ts", 300, 1)
    run = LocalRun(Job(("k",), ROWS, COUNT, None, 1, window=window), tmp_path)
    compared = []
    with pytest.MonkeyPatch.context() as patched:
        from evenflow.state import key_values, segments

        for module in (key_values, segments):
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


# --- joins ---------------------------------------------------------------------------------------

SELF = WindowJoin(
    ("ts", "ts"),
    5,
    (("ts", "left_ts"), ("v", "left_v")),
    (("ts", "right_ts"), ("v", "right_v")),
)
BOTH = pa.schema(
    [
        ("k", pa.string()),
        ("right", pa.bool_()),
        ("left_ts", pa.timestamp("us", "UTC")),
        ("left_v", pa.int64()),
        ("right_ts", pa.timestamp("us", "UTC")),
        ("right_v", pa.int64()),
    ]
)


def two_sided(within, delay):
    left, right = (tuple((f"{s}_{c}",) * 2 for c in ("ts", "v")) for s in ("left", "right"))
    return WindowJoin(("left_ts", "right_ts"), within, left, right, "right", delay)


def one_sided(within, delay):
    return WindowJoin(SELF.times, within, SELF.left, SELF.right, None, delay)


def both_table(rows):
    stamps = [pa.array([None if r[3] != s else r[1] for r in rows], pa.int64()) for s in (0, 1)]
    values = [pa.array([None if r[3] != s else r[2] for r in rows], pa.int64()) for s in (0, 1)]
    return pa.table(
        [
            pa.array([r[0] for r in rows], pa.string()),
            pa.array([bool(r[3]) for r in rows], pa.bool_()),
            stamps[0].cast(pa.timestamp("us", "UTC")),
            values[0],
            stamps[1].cast(pa.timestamp("us", "UTC")),
            values[1],
        ],
        schema=BOTH,
    )


def pairs_of(table):
    columns = [table.column("k").to_pylist()]
    for name in ("left_ts", "left_v", "right_ts", "right_v"):
        column = table.column(name)
        columns.append((column.cast(pa.int64()) if name.endswith("ts") else column).to_pylist())
    return Counter(zip(*columns, strict=True))


join_rows = st.tuples(
    st.sampled_from(["a", "b", None]),
    st.one_of(st.none(), st.integers(0, 60)),
    st.integers(0, 2),
    st.integers(0, 1),
)


@settings(max_examples=60)
@given(
    within=st.integers(0, 20),
    delay=st.integers(0, 20),
    sides=st.integers(1, 2),
    batches=st.lists(st.lists(join_rows, max_size=12), min_size=1, max_size=6),
    workers=st.lists(st.sampled_from([1, 2, 3, 3, 3]), min_size=6, max_size=6),
    tables=tables,
    tries=st.integers(1, 2),
)
def test_every_pair_comes_exactly_once(
    tmp_path_factory, within, delay, sides, batches, workers, tables, tries
):
    """In the batch in which its later row arrives, unless that row is late; also if the number of
    workers changes, keys move, and batches are run again."""
    operator = (two_sided if sides == 2 else one_sided)(within, delay)
    job = Job(("k",), BOTH if sides == 2 else ROWS, operator, None, 3)
    run = LocalRun(job, tmp_path_factory.mktemp("join"))
    naive = NaiveJoin(within, delay, sides)
    for batch, n, homes in zip(batches, workers, tables, strict=False):
        batch = [(*row[:3], row[3] if sides == 2 else 0) for row in batch]
        table = both_table(batch) if sides == 2 else table_of(batch)
        found, metrics = run.batch(table, n, tries=tries, table=homes)
        pairs, late = naive.batch(batch)
        assert pairs_of(found) == Counter(pairs)
        assert metrics["late_rows"] == late
        assert metrics["pairs"] == len(pairs)
        kept = [s for s in run.segments if naive.over is not None and s.expires[1] <= naive.over]
        assert not kept


def test_the_state_of_a_join_is_the_rows_that_may_still_find_a_partner(tmp_path):
    run = LocalRun(Job(("k",), ROWS, one_sided(5, 2), None, 2), tmp_path)
    sizes = []
    for batch in range(40):
        _, metrics = run.batch(table_of([("a", 10 * batch + i, i) for i in range(10)]), 2)
        sizes.append(metrics["state_rows"])
    assert max(sizes) <= 40
    assert max(sizes[20:]) <= max(sizes[:20])


@given(
    rows=st.lists(st.tuples(st.integers(0, 2), st.integers(0, 15), st.booleans(), st.booleans())),
    within=st.integers(0, 20),
    block=st.integers(1, 7),
)
def test_pairing_is_trying_all_pairs(rows, within, block):
    group, times, fresh, right = (np.array([row[i] for row in rows], int) for i in range(4))
    fresh, right = fresh.astype(bool), right.astype(bool)
    fits = [
        (i, j)
        for i in range(len(rows))
        for j in range(len(rows))
        if group[i] == group[j] and abs(times[i] - times[j]) <= within and (fresh[i] or fresh[j])
    ]
    across = list(pairs_across(group, times, within, fresh, right, block))
    found = [pair for lefts, rights in across for pair in zip(lefts, rights, strict=True)]
    assert sorted(found) == [(i, j) for i, j in fits if not right[i] and right[j]]
    assert all(len(lefts) <= block for lefts, _ in across)
    own = [
        pair
        for lefts, rights in pairs_within(group, times, within, fresh, lambda rows: rows, block)
        for pair in zip(lefts, rights, strict=True)
    ]
    assert sorted(own) == [(i, j) for i, j in fits if (times[i], i) < (times[j], j)]


def test_which_row_is_on_the_left_does_not_depend_on_which_came_first(tmp_path):
    tie = [("a", 7, 2), ("a", 7, 1)]
    for number, batches in enumerate([[tie], [tie[::-1]], [tie[:1], tie[1:]], [tie[1:], tie[:1]]]):
        directory = tmp_path / str(number)
        directory.mkdir()
        run = LocalRun(Job(("k",), ROWS, SELF, None, 1), directory)
        found = [pair for batch in batches for pair in pairs_of(run.batch(table_of(batch), 1)[0])]
        assert found == [("a", 7, 1, 7, 2)]


def test_a_join_may_ask_more_of_its_pairs():
    join = WindowJoin(
        SELF.times,
        5,
        SELF.left,
        SELF.right,
        where=lambda p: pa.compute.less(p["left_v"], p["right_v"]),
    )
    table = table_of(
        [("a", 1, 5), ("a", 2, 7), ("a", 3, 6), ("b", 1, 0), (None, 1, 1), (None, 1, 2)]
    )
    found = pairs_of(join.on_table(table, "k"))
    assert set(found) == {("a", 1, 5, 2, 7), ("a", 1, 5, 3, 6)}
    for wrong in (lambda p: [True], lambda p: p["left_v"], lambda p: np.ones(1, bool)):
        broken = WindowJoin(SELF.times, 5, SELF.left, SELF.right, where=wrong)
        with pytest.raises(ef.InputError, match="one boolean for each"):
            broken.on_table(table, "k")


def test_joins_that_make_no_sense_are_refused():
    with pytest.raises(ef.InputError, match="not be negative"):
        WindowJoin(SELF.times, -1, SELF.left, SELF.right)
    with pytest.raises(ef.InputError, match=r"two columns 'left_ts'.*prefixes"):
        WindowJoin(SELF.times, 1, SELF.left, SELF.left)
    with pytest.raises(ef.InputError, match="where takes a function"):
        WindowJoin(SELF.times, 1, SELF.left, SELF.right, where="left_v < right_v")
    assert not SELF.mergeable
    assert one_sided(5, 1).signature() == one_sided(5, 9).signature()
    assert one_sided(5, 1).signature() != one_sided(6, 1).signature()
