"""Event-time windows: which ones contain a row, and when they end."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.types as types

from evenflow.model import InputError
from evenflow.operators.groups import I64
from evenflow.operators.input_columns import column_type, one_array

Booleans = npt.NDArray[np.bool_]

UPDATE, APPEND = "update", "append"
_FIRST, _LAST = -(1 << 63), (1 << 63) - 1  # of all timestamps, in microseconds
WINDOW = "window"  #: the column of the output, a struct of start and end as Spark has it


@dataclass(frozen=True)
class Window:
    """Tumbling or sliding windows over a column of timestamps.

    A window is [start, start + size), and windows start `slide` apart. All times are microseconds since
    1970, as in Spark, with or without a time zone.

    Guarantee: the same windows as Spark's `window(column, size, slide, start)`.

    Parameters:
        column: the event time.
        size: the length of a window.
        slide: the distance between window starts; equal to `size` for tumbling windows.
        delay: how late a row may be, in event time.
        start: the offset of the first window from 1970-01-01 00:00:00 UTC.
        mode: "update": after each batch, the windows that changed; "append": every window once, when
            it ends.

    Example:
        >>> window = Window("ts", size=10, slide=5)
        >>> row, end = window.ends(np.array([12, 3]))
        >>> row.tolist(), end.tolist()
        ([0, 0, 1, 1], [20, 15, 10, 5])
    """

    name: ClassVar[str] = WINDOW  # of the output column

    column: str
    size: int
    slide: int
    delay: int = 0
    start: int = 0
    mode: str = UPDATE

    def __post_init__(self) -> None:
        if not isinstance(self.column, str) or not self.column:
            raise InputError(f"window takes the name of a timestamp column, got {self.column!r}")
        if self.size < 1 or self.slide < 1 or self.delay < 0:
            raise InputError("a window's size and slide must be above 0, its delay at least 0")
        if self.slide > self.size:
            raise InputError(
                f"windows of {self.size} µs that start {self.slide} µs apart would skip rows; "
                "use a slide of at most the size"
            )
        if abs(self.start) >= self.slide:
            raise InputError(
                f"the first window's start, {self.start} µs, must be less than the slide, "
                f"{self.slide} µs"
            )
        if self.mode not in (UPDATE, APPEND):
            raise InputError(f'mode is "update" or "append", got {self.mode!r}')

    def time_type(self, rows: pa.Schema) -> pa.DataType:
        """The type of the event time, and so of a window's bounds."""
        found = column_type(rows, self.column, "window")
        check_time(found, self.column, "window")
        return found

    def columns(self) -> list[str]:
        """What it reads of a row."""
        return [self.column]

    @property
    def pane(self) -> int:
        """The length of the time slices whose rows are all in the same windows."""
        return math.gcd(self.size, self.slide)

    def _check(self, times: I64) -> None:
        """Refuse times whose windows no timestamp can bound; Spark does so, too, in ANSI mode. NumPy
        would wrap, and the window of the first moment begin in the year 294247."""
        room = self.size + self.slide + abs(self.start)
        for moment in (int(times.min()), int(times.max())) if len(times) else ():
            if not _FIRST + room <= moment <= _LAST - room:
                raise InputError(
                    f"window: the column {self.column!r} holds the event time {moment} µs after 1970, "
                    "whose window is outside the range of timestamps; leave such rows out, or set them "
                    "to null"
                )

    def panes(self, times: I64) -> I64:
        """Where the pane of each time begins."""
        self._check(times)
        return times - (times - self.start) % self.pane

    def ends(self, times: I64) -> tuple[I64, I64]:
        """(number of the time, end of a window that it is in), for every such pair."""
        self._check(times)
        since = (times - self.start) % self.slide
        counts = -(-(self.size - since) // self.slide)
        row = np.repeat(np.arange(len(times)), counts)
        back = np.arange(len(row)) - np.repeat(np.cumsum(counts) - counts, counts)
        return row, (times - since + self.size)[row] - back * self.slide

    def last_end(self, times: I64) -> I64:
        """When the last window of each time ends."""
        self._check(times)
        return times - (times - self.start) % self.slide + self.size

    def first_end(self, times: I64) -> I64:
        """When the first window of each time ends."""
        self._check(times)
        since = (times - self.start) % self.slide
        counts = -(-(self.size - since) // self.slide)
        return times - since + self.size - (counts - 1) * self.slide

    def any_ends(self, after: int, until: int) -> bool:
        """Whether some window ends in (after, until]."""
        return until > after and until - (until - self.start - self.size) % self.slide > after

    def signature(self) -> dict[str, int | str]:
        """What must stay the same for state to remain valid. The delay may change."""
        return {
            "column": self.column,
            "size": self.size,
            "slide": self.slide,
            "start": self.start,
            "mode": self.mode,
        }


def check_time(found: pa.DataType, column: str, user: str) -> None:
    """Reject a column that does not hold timestamps."""
    if not types.is_timestamp(found):
        raise InputError(
            f"{user}: column {column!r} is {found}, and must be a timestamp; cast it "
            f'(`df.withColumn("{column}", df["{column}"].cast("timestamp"))`)'
        )


def times_of(column: pa.ChunkedArray | pa.Array) -> tuple[I64, Booleans]:
    """Timestamps in microseconds, and which are not null; nulls are 0."""
    array = one_array(column)
    zone = array.type.tz
    numbers = array.cast(pa.timestamp("us", zone)).view(pa.int64())
    known = np.asarray(numbers.is_valid().to_numpy(zero_copy_only=False), np.bool_)
    return np.asarray(numbers.fill_null(0).to_numpy(), np.int64), known


def as_times(moments: I64, kind: pa.DataType) -> pa.Array:
    """Microseconds as timestamps of a type."""
    return pa.array(moments, pa.int64()).view(pa.timestamp("us", kind.tz)).cast(kind)


def window_type(kind: pa.DataType) -> pa.DataType:
    """The type of the output column `window`, for event times of a type."""
    return pa.struct([("start", kind), ("end", kind)])


def window_column(ends: I64, size: int | I64, kind: pa.DataType) -> pa.Array:
    """The windows with these ends, in the form of Spark's `window` function."""
    bounds = [as_times(ends - size, kind), as_times(ends, kind)]
    return pa.StructArray.from_arrays(bounds, fields=list(window_type(kind)))
