"""The slow, obvious twins of windows and interval joins: plain Python, one row at a time."""

from collections import defaultdict

import pyarrow as pa
from hypothesis import strategies as st


def windows_of(time, size, slide, start=0):
    """The ends of the windows that a moment is in, latest first: every window there is is tried."""
    first = start + ((time - start) // slide - size // slide - 2) * slide
    starts = range(first, time + slide, slide)
    return sorted((s + size for s in starts if s <= time < s + size), reverse=True)


class NaiveStream:
    """A streaming aggregation in windows as Spark runs it: lists of rows per key and window.

    `batch(rows)` takes (key, time, value) and gives what "update" and "append" put out.
    """

    def __init__(self, size, slide, delay, start=0):
        self.size, self.slide, self.delay, self.start = size, slide, delay, start
        self.open = defaultdict(list)
        self.over = self.watermark = self.newest = None

    def batch(self, rows):
        late_before, self.over = self.over, self.watermark
        changed, late, partly = set(), 0, 0
        for key, time, value in rows:
            if time is None:
                continue
            ends = windows_of(time, self.size, self.slide, self.start)
            taken = [end for end in ends if late_before is None or end > late_before]
            late += not taken
            partly += 0 < len(taken) < len(ends)
            for end in taken:
                self.open[key, end].append(value)
                changed.add((key, end))
            self.newest = time if self.newest is None else max(self.newest, time)
        updated = {window: list(self.open[window]) for window in changed}
        closing = [w for w in self.open if self.over is not None and w[1] <= self.over]
        closed = {window: self.open.pop(window) for window in closing}
        if self.newest is not None:
            reached = self.newest - self.delay
            self.watermark = reached if self.watermark is None else max(self.watermark, reached)
        return updated, closed, late, partly


class NaiveJoin:
    """A window join as the rows come in. `batch(rows)` takes (key, time, value, is_right); a self-join
    has `sides=1`. All rows that were taken in are kept; only too late ones are dropped."""

    def __init__(self, within, delay, sides=1):
        self.within, self.delay, self.sides = within, delay, sides
        self.rows, self.newest = [], [None] * sides
        self.over = self.watermark = None

    def batch(self, rows):
        late_before, self.over = self.over, self.watermark
        pairs, late = [], 0
        for row in rows:
            key, time, _, is_right = row
            side = int(is_right)
            if time is None:
                continue
            newest = self.newest[side]
            self.newest[side] = time if newest is None else max(newest, time)
            if key is None:
                continue
            if late_before is not None and time <= late_before:
                late += 1
                continue
            pairs += [self._pair(old, row) for old in self.rows if self._fit(old, row)]
            self.rows.append(row)
        if None not in self.newest:
            reached = min(self.newest) - self.delay
            self.watermark = reached if self.watermark is None else max(self.watermark, reached)
        return pairs, late

    def _fit(self, a, b):
        other_side = self.sides == 1 or a[3] != b[3]
        return a[0] == b[0] and other_side and abs(a[1] - b[1]) <= self.within

    def _pair(self, a, b):
        if self.sides == 2:
            left, right = (b, a) if a[3] else (a, b)
        else:
            left, right = sorted([a, b], key=lambda row: (row[1], row[2]))
        return (left[0], *left[1:3], *right[1:3])


#: (size, slide, start, delay) of windows
shapes = st.integers(1, 40).flatmap(
    lambda size: st.integers(1, size).flatmap(
        lambda slide: st.tuples(
            st.just(size), st.just(slide), st.integers(-slide + 1, slide - 1), st.integers(0, 30)
        )
    )
)

#: Routing tables of six batches: some keys have owners of their own.
tables = st.lists(
    st.dictionaries(st.sampled_from(["a", "b", None]), st.integers(0, 2), max_size=3),
    min_size=6,
    max_size=6,
)

ROWS = pa.schema([("k", pa.string()), ("ts", pa.timestamp("us", "UTC")), ("v", pa.int64())])


def table_of(rows):
    keys, times, values = ([row[i] for row in rows] for i in range(3))
    stamps = pa.array(times, pa.int64()).cast(pa.timestamp("us", "UTC"))
    return pa.table(
        [pa.array(keys, pa.string()), stamps, pa.array(values, pa.int64())], schema=ROWS
    )
