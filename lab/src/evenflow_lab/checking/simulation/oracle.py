"""What must come out, computed from the rows alone: plain Python, one row at a time, no engine."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

Row = tuple[Any, ...]
Rows = Sequence[Row]
MODULUS = 1_000_003  #: of the digest that depends on the order of a key's messages


class Expected(NamedTuple):
    """What a batch must put out, and may.

    Parameters:
        rows: the output, in any order.
        also: keys that may have a row in addition, with what is known of them.
    """

    rows: list[Row]
    also: dict[Any, Row] = {}  # noqa: RUF012


class Oracle:
    """What becomes of a stream, batch by batch.

    Attributes:
        moment: when the batch began, in milliseconds.
    """

    moment = 0


class Counts(Oracle):
    """Key → (rows, sum), and the sum of squares: every key of a batch is put out."""

    def __init__(self, squares: bool = False) -> None:
        self._squares = squares
        self.known: dict[Any, tuple[int, ...]] = {}

    def batch(self, rows: Rows) -> Expected:
        touched: dict[Any, None] = {}
        for key, _, value in rows:
            if self._squares:
                (before,) = self.known.get(key, (0,))
                self.known[key] = (before + value * value,)
            else:
                n, total = self.known.get(key, (0, 0))
                self.known[key] = (n + 1, total + value)
            touched[key] = None
        return Expected([(key, *self.known[key]) for key in touched])

    def state(self) -> list[Row]:
        return [(key, *values) for key, values in self.known.items()]


class Windows(Oracle):
    """(Key, end of window) → (rows, sum), as Spark aggregates with a watermark."""

    def __init__(self, size: int, slide: int, delay: int, append: bool) -> None:
        self._size, self._slide, self._delay, self._append = size, slide, delay, append
        self._open: dict[tuple[Any, int], tuple[int, int]] = {}
        self._closed: int | None = None
        self._watermark: int | None = None

    def batch(self, rows: Rows) -> Expected:
        late, self._closed = self._closed, self._watermark
        touched: dict[tuple[Any, int], None] = {}
        for key, time, value in rows:
            for start in range(time // self._slide * self._slide, time - self._size, -self._slide):
                end = start + self._size
                if late is None or end > late:
                    n, total = self._open.get((key, end), (0, 0))
                    self._open[key, end] = (n + 1, total + value)
                    touched[key, end] = None
        updated = [(key, end, *self._open[key, end]) for key, end in touched]
        over = [w for w in self._open if self._closed is not None and w[1] <= self._closed]
        closed = [(*window, *self._open.pop(window)) for window in over]
        for _, time, _ in rows:
            reached = time - self._delay
            self._watermark = reached if self._watermark is None else max(self._watermark, reached)
        return Expected(closed if self._append else updated)

    def state(self) -> list[Row]:
        return [(*window, *values) for window, values in self._open.items()]


class Sessions(Oracle):
    """(Key, end, start) → (rows, sum), as Spark aggregates in session windows: put out when over."""

    def __init__(self, gap: int, delay: int) -> None:
        self._gap, self._delay = gap, delay
        self._open: defaultdict[Any, list[tuple[int, int, int, int]]] = defaultdict(list)
        self._closed: int | None = None
        self._watermark: int | None = None

    def batch(self, rows: Rows) -> Expected:
        late, self._closed = self._closed, self._watermark
        for key, time, value in rows:
            new = (time + self._gap, time, 1, value)
            if late is not None and new[0] <= late:
                continue
            met = [s for s in self._open[key] if s[1] <= new[0] and new[1] <= s[0]]
            apart = [s for s in self._open[key] if s not in met]
            both = [new, *met]
            end, start = max(s[0] for s in both), min(s[1] for s in both)
            one = (end, start, sum(s[2] for s in both), sum(s[3] for s in both))
            self._open[key] = [*apart, one]
        closed: list[Row] = []
        for key, sessions in self._open.items():
            over = [s for s in sessions if self._closed is not None and s[0] <= self._closed]
            closed += [(key, end, n, total) for end, _, n, total in over]
            self._open[key] = [s for s in sessions if s not in over]
        for _, time, _ in rows:
            reached = time - self._delay
            self._watermark = reached if self._watermark is None else max(self._watermark, reached)
        return Expected(closed)

    def state(self) -> list[Row]:
        return [(key, *session) for key, sessions in self._open.items() for session in sessions]


class Distinct(Oracle):
    """(Key, time) of the rows seen so far, as Spark drops duplicates whose event time is in the key."""

    def __init__(self, delay: int) -> None:
        self._delay = delay
        self._known: dict[tuple[Any, int], None] = {}
        self._closed: int | None = None
        self._watermark: int | None = None

    def batch(self, rows: Rows) -> Expected:
        late, self._closed = self._closed, self._watermark
        first: list[Row] = []
        for key, time, _ in rows:
            if (key, time) not in self._known and (late is None or time > late):
                self._known[key, time] = None
                first.append((key, time))
        if self._closed is not None:
            self._known = {one: None for one in self._known if one[1] > self._closed}
        for _, time, _ in rows:
            reached = time - self._delay
            self._watermark = reached if self._watermark is None else max(self._watermark, reached)
        return Expected(first)

    def state(self) -> list[Row]:
        return [(key, time, time) for key, time in self._known]


class Pairs(Oracle):
    """A self-join in event time: all rows that were taken in are kept."""

    def __init__(self, within: int, delay: int) -> None:
        self._within, self._delay = within, delay
        self._rows: defaultdict[Any, list[Row]] = defaultdict(list)
        self._closed: int | None = None
        self._watermark: int | None = None

    def batch(self, rows: Rows) -> Expected:
        late, self._closed = self._closed, self._watermark
        pairs: list[Row] = []
        for row in rows:
            key, time, _ = row
            if key is None or (late is not None and time <= late):
                continue
            for old in self._rows[key]:
                if abs(old[1] - time) <= self._within:
                    a, b = sorted([old, row], key=lambda one: one[1:])
                    pairs.append((key, *a[1:], *b[1:]))
            self._rows[key].append(row)
        for _, time, _ in rows:
            reached = time - self._delay
            self._watermark = reached if self._watermark is None else max(self._watermark, reached)
        return Expected(pairs)

    def state(self) -> None:
        return None  # what is kept is known by the pairs that it makes


class Ordered(Oracle):
    """Key → (messages, digest in the order written), of the messages whose turn has come.

    Parameters:
        written: of each record, in the order written: its key, its value (None for a marker), and its
            place in the order in which records are read.
    """

    def __init__(self, written: Iterable[tuple[Any, int | None, int]]) -> None:
        self._written: dict[Any, list[tuple[int | None, int]]] = defaultdict(list)
        for key, value, place in written:
            self._written[key].append((value, place))
        self._read = 0
        self._known: dict[Any, tuple[int, int]] = {}

    def batch(self, rows: Rows) -> Expected:
        self._read += len(rows)
        before = dict(self._known)
        for key, records in self._written.items():
            n = digest = 0
            for value, place in records:
                if place >= self._read:
                    break
                if value is not None:
                    n, digest = n + 1, (digest * 31 + value) % MODULUS
            if n:
                self._known[key] = (n, digest)
        changed = [(k, *now) for k, now in self._known.items() if before.get(k) != now]
        waiting = dict.fromkeys(self._written, ())
        known = {key: (key, *now) for key, now in self._known.items()}
        return Expected(changed, {**waiting, **known})

    def state(self) -> list[Row]:
        return [(key, *values) for key, values in self._known.items()]


class Ending(Oracle):
    """Key → (rows, sum) until no row has come for a while of processing time: what is over is put out,
    with its number of rows negative, before the rows of a batch count."""

    def __init__(self, lives: int) -> None:
        self._lives = lives
        self._known: dict[Any, tuple[int, int, int]] = {}

    def batch(self, rows: Rows) -> Expected:
        over = [key for key, (_, _, until) in self._known.items() if until <= self.moment]
        put_out = [(key, -n, total) for key in over for n, total, _ in [self._known.pop(key)]]
        touched: dict[Any, None] = {}
        for key, _, value in rows:
            n, total, _ = self._known.get(key, (0, 0, 0))
            self._known[key] = (n + 1, total + value, self.moment + self._lives)
            touched[key] = None
        return Expected([*put_out, *((key, *self._known[key][:2]) for key in touched)])

    def state(self) -> list[Row]:
        return [(key, *known) for key, known in self._known.items()]


class Timed(Oracle):
    """What a `Visits` puts out: of keys with rows, how many there were and how many lately; and of keys
    whose timer is due, how many there were, which are forgotten then."""

    def __init__(self, after: int, lives: int) -> None:
        self._after, self._lives = after, lives
        self._rows: defaultdict[Any, int] = defaultdict(int)
        self._lately: dict[Any, tuple[int, int]] = {}
        self._timers: dict[Any, int] = {}

    def batch(self, rows: Rows) -> Expected:
        now = self.moment
        self._lately = {key: one for key, one in self._lately.items() if one[1] > now}
        put_out: list[Row] = []
        for key in dict.fromkeys(row[0] for row in rows):
            came = sum(row[0] == key for row in rows)
            self._rows[key] += came
            self._lately[key] = (self._lately.get(key, (0, 0))[0] + came, now + self._lives)
            self._timers.setdefault(key, now + self._after)
            put_out += [(key, "rows", self._rows[key]), (key, "lately", self._lately[key][0])]
        for key in [key for key, moment in self._timers.items() if moment <= now]:
            del self._timers[key]
            put_out.append((key, "timer", self._rows.pop(key, 0)))
        return Expected(put_out)

    def state(self) -> None:
        return None  # what is kept is known by what is put out


class Outer(Oracle):
    """A join of two sides in event time: pairs, and left rows that can find no partner any more."""

    def __init__(self, within: int, delay: int) -> None:
        self._within, self._delay = within, delay
        self._rows: list[list[Any]] = []  # key, time, value, side, whether it is settled
        self._newest: dict[bool, int] = {}
        self._closed: int | None = None
        self._watermark: int | None = None

    def batch(self, rows: Rows) -> Expected:
        late, self._closed = self._closed, self._watermark
        put_out: list[Row] = []
        for key, time, value, right in rows:
            if late is not None and time <= late:
                continue
            new = [key, time, value, right, bool(right)]
            for old in self._rows:
                near = abs(old[1] - time) <= self._within
                if key is not None and old[0] == key and old[3] != right and near:
                    a, b = (old, new) if right else (new, old)
                    put_out.append((key, *a[1:3], *b[1:3]))
                    a[4] = True
            self._rows.append(new)
        for row in self._rows:
            if self._closed is not None and not row[4] and row[1] <= self._closed - self._within:
                put_out.append((*row[:3], None, None))
                row[4] = True
        for _, time, _, right in rows:
            self._newest[right] = max(self._newest.get(right, time), time)
        if len(self._newest) == 2:
            reached = min(self._newest.values()) - self._delay
            self._watermark = reached if self._watermark is None else max(self._watermark, reached)
        return Expected(put_out)

    def state(self) -> None:
        return None
