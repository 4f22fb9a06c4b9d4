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
        self.put_out = set()

    def unmatched(self, how):
        """Rows of kept sides that have no partner and, since the last batch, cannot get one."""
        kept = {"left": [0], "right": [1], "full": [0, 1], "inner": []}[how]
        found = []
        for number, row in enumerate(self.rows):
            over = self.over is not None and row[1] + self.within <= self.over
            if number in self.put_out or not over or int(row[3]) not in kept:
                continue
            self.put_out.add(number)
            if row[0] is None or not any(self._fit(row, other) for other in self.rows):
                nothing = (None, None)
                sides = (nothing, row[1:3]) if row[3] else (row[1:3], nothing)
                found.append((row[0], *sides[0], *sides[1]))
        return found

    def batch(self, rows, keep_nulls=()):
        late_before, self.over = self.over, self.watermark
        pairs, late = [], 0
        for row in rows:
            key, time, _, is_right = row
            side = int(is_right)
            if time is None:
                continue
            newest = self.newest[side]
            self.newest[side] = time if newest is None else max(newest, time)
            if key is None and side not in keep_nulls:
                continue
            if late_before is not None and time <= late_before:
                late += 1
                continue
            if key is None:
                self.rows.append(row)
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


class NaiveSessions:
    """A streaming aggregation in session windows as Spark runs it, row by row.

    `batch(rows)` takes (key, time, value, gap) and gives what "append" puts out:
    (key, start, end) → values.
    """

    def __init__(self, delay):
        self.delay = delay
        self.open = defaultdict(list)  # key → [start, end, values]
        self.over = self.watermark = self.newest = None

    def batch(self, rows):
        late_before, self.over = self.over, self.watermark
        late = 0
        for key, time, value, gap in rows:
            if time is None:
                continue
            self.newest = time if self.newest is None else max(self.newest, time)
            if gap is None or gap <= 0:
                continue
            if late_before is not None and time + gap <= late_before:
                late += 1
                continue
            met = [s for s in self.open[key] if s[0] <= time + gap and time <= s[1]]
            self.open[key] = [s for s in self.open[key] if s not in met]
            start = min([time, *(s[0] for s in met)])
            end = max([time + gap, *(s[1] for s in met)])
            values = [value] + [v for s in met for v in s[2]]
            self.open[key].append([start, end, values])
        closed = {}
        for key, sessions in self.open.items():
            for start, end, values in sessions:
                if self.over is not None and end <= self.over:
                    closed[key, start, end] = values
            self.open[key] = [s for s in sessions if self.over is None or s[1] > self.over]
        if self.newest is not None:
            reached = self.newest - self.delay
            self.watermark = reached if self.watermark is None else max(self.watermark, reached)
        return closed, late


class NaiveDistinct:
    """Deduplication as Spark's streams do it, row by row. `batch(rows)` takes (key, time, value).

    Parameters:
        delay: how late rows may be; None without a watermark.
        within: whether a key is forgotten `delay` after its row.
        by_time: whether the time is part of the key.
    """

    def __init__(self, delay, within=False, by_time=False):
        self.delay, self.within, self.by_time = delay, within, by_time
        self.known = {}  # key → until when
        self.over = self.watermark = self.newest = None

    def batch(self, rows):
        late_before, self.over = self.over, self.watermark
        out, late = [], 0
        for key, time, value in rows:
            if time is not None:
                self.newest = time if self.newest is None else max(self.newest, time)
            timed = self.delay is not None and time is not None
            if timed and late_before is not None and time <= late_before:
                late += 1
                continue
            own = (key, time) if self.by_time else key
            if own in self.known:
                continue
            out.append((key, time, value))
            if self.delay is None:
                self.known[own] = None
            elif self.within:
                self.known[own] = (time or 0) + self.delay
            else:
                self.known[own] = time if self.by_time else None
        if self.over is not None:
            alive = self.known.items()
            self.known = {k: u for k, u in alive if u is None or u > self.over}
        if self.delay is not None and self.newest is not None:
            reached = self.newest - self.delay
            self.watermark = reached if self.watermark is None else max(self.watermark, reached)
        return out, late
