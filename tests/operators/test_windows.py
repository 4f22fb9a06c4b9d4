"""Event-time windows: which of them a row falls into, and how durations are read."""

import datetime as dt

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import evenflow as ef
from evenflow.model import InputError
from evenflow.model.durations import microseconds
from evenflow.operators import Aggregates, Window, on_table
from naive_windows import shapes, windows_of

moments = st.integers(-200, 200)


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
        ({"slide": 11}, "would skip rows"),
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
    assert found.schema.field("window").type.field("start").type == pa.timestamp(unit)
    shown = {(r["k"], r["window"]["end"].second): (r["n"], r["v"]) for r in found.to_pylist()}
    assert shown == {
        ("a", 5): (1, 1),
        ("a", 10): (2, 3),
        ("a", 15): (1, 2),
        ("b", 15): (1, 8),
        ("b", 20): (1, 8),
    }


@pytest.mark.parametrize("moment", [-(2**63), 2**63 - 1, -(2**63) + 9])
def test_a_window_beyond_the_range_of_timestamps_is_an_error(moment):
    """NumPy would wrap: the window of the first moment would begin in the year 294247."""
    window = Window("ts", size=20, slide=10)
    for ends in (window.ends, window.panes, window.last_end, window.first_end):
        with pytest.raises(InputError, match=r"column 'ts'.*outside the range of timestamps"):
            ends(np.array([0, moment]))
