"""Session windows: which rows of a key belong together, and when a session ends."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyarrow as pa

from evenflow.model import InputError
from evenflow.operators.groups import I64
from evenflow.operators.input_columns import column_type
from evenflow.operators.windows import APPEND, Booleans, check_time, times_of

SESSION_WINDOW = (
    "session_window"  #: the column of the output, a struct of start and end, as in Spark
)
_LAST = (1 << 63) - 1  # of all timestamps, in microseconds


@dataclass(frozen=True)
class Session:
    """Session windows over a column of timestamps: a session goes on while rows of its key come within
    the gap.

    A row's own session is [time, time + gap); sessions of a key that overlap or touch are one. All
    times are microseconds since 1970, as in Spark, with or without a time zone.

    Guarantee: the sessions of Spark's `session_window(column, gap)`. Rows without a time, without a gap
    or with a gap of at most 0 are in no session.

    Parameters:
        column: the event time.
        gap: how long a session lasts after its last row; None if every row has its own.
        end: the column that says when the session of a row alone would end, where `gap` is None.
        delay: how late a row may be, in event time.
        name: of the output column.

    Example:
        >>> times = pa.table({"ts": pa.array([0, 30, 4], pa.timestamp("us"))})
        >>> start, end, known, counted = Session("ts", gap=10).alone(times)
        >>> merged_sessions(np.zeros(3, int), start, end)
        (array([0, 1, 0]), array([ 0, 30]), array([14, 40]))
    """

    mode: ClassVar[str] = APPEND  # every session once, when it is over, as in Spark

    column: str
    gap: int | None = None
    end: str | None = None
    delay: int = 0
    name: str = SESSION_WINDOW

    def __post_init__(self) -> None:
        if not isinstance(self.column, str) or not self.column:
            raise InputError(f"session takes the name of a timestamp column, got {self.column!r}")
        if (self.gap is None) == (self.end is None):
            raise InputError("a session has either a gap or a column that says when it ends")
        if (self.gap is not None and self.gap < 1) or self.delay < 0:
            raise InputError("a session's gap must be above 0, its delay at least 0")

    def time_type(self, rows: pa.Schema) -> pa.DataType:
        """The type of the event time, and so of a session's bounds."""
        found = column_type(rows, self.column, "session_window")
        check_time(found, self.column, "session_window")
        return found

    def columns(self) -> list[str]:
        """What it reads of a row."""
        return [self.column] if self.end is None else [self.column, self.end]

    def alone(self, rows: pa.Table) -> tuple[I64, I64, Booleans, Booleans]:
        """The session of each row alone: (starts, ends, has a time, is in a session)."""
        starts, known = times_of(rows.column(self.column))
        if self.end is not None:
            ends, ending = times_of(rows.column(self.end))
            return starts, ends, known, known & ending & (ends > starts)
        assert self.gap is not None
        if len(starts) and int(starts.max()) > _LAST - self.gap:
            raise InputError(
                f"session_window: the column {self.column!r} holds the event time {starts.max()} µs "
                "after 1970, whose session ends outside the range of timestamps; leave such rows out, "
                "or set them to null"
            )
        return starts, starts + self.gap, known, known

    def signature(self) -> dict[str, int | str | None]:
        """What must stay the same for state to remain valid. The delay may change."""
        return {"column": self.column, "gap": self.gap, "end": self.end, "name": self.name}


def merged_sessions(key: I64, starts: I64, ends: I64) -> tuple[I64, I64, I64]:
    """Sessions put together: (number of the merged one, starts, ends), in the order of keys and time.

    Guarantee: sessions of one key that overlap or touch, maybe through others, have one number.

    Parameters:
        key: the number of each session's key.
        starts, ends: of each session.

    Example:
        >>> start, end = np.array([20, 0, 9, 5]), np.array([25, 5, 12, 9])
        >>> merged_sessions(np.array([0, 0, 1, 0]), start, end)
        (array([1, 0, 2, 0]), array([ 0, 20,  9]), array([ 9, 25, 12]))
    """
    if not len(key):
        nothing = np.zeros(0, np.int64)
        return nothing, nothing, nothing
    order = np.lexsort((starts, key))
    own, begin = key[order], starts[order]
    # The latest end so far within each key: ranks, so that a number for key and end fits 64 bits.
    values, rank = np.unique(ends[order], return_inverse=True)
    base = own * len(values)
    reach = values[np.maximum.accumulate(base + rank) - base]
    first = np.append(True, (own[1:] != own[:-1]) | (begin[1:] > reach[:-1]))
    number = np.empty(len(key), np.int64)
    number[order] = np.cumsum(first) - 1
    return number, begin[first], reach[np.append(first[1:], True)]
