"""Event time: how far it has come, and what comes too late. All moments are microseconds since 1970."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

import numpy as np

from evenflow.engine.job import Job
from evenflow.model import InputError, shapes
from evenflow.state.segments import Segment

Moment = int | None  #: None: before all that has been seen
_EARLIEST = -(1 << 63)  # of all timestamps


_MOMENT = shapes.or_none(shapes.whole())
_SHAPE = shapes.fields(
    {"closed": _MOMENT, "watermark": _MOMENT, "newest": shapes.a_list(_MOMENT)},
)


class Watermarks(NamedTuple):
    """How far event time had come when a batch began.

    Guarantee: a function of the manifest of the batch before, so a batch that is run again sees the
    same; neither ever goes back. They are Spark's own two: in the first batch whose watermark has
    passed a window's end, rows of that window still count, and after it they are late.

    Parameters:
        late: what was over by then has been closed; rows that belong to nothing else are dropped.
        closed: what is over by then is closed by this batch, and its state is gone after it.
        newest: the latest event time seen so far, of each source.
    """

    late: Moment = None
    closed: Moment = None
    newest: tuple[Moment, ...] = ()

    @classmethod
    def after(cls, event_time: Mapping[str, Any]) -> Watermarks:
        """Those of the batch after the one that left this in its manifest.

        Example:
            >>> Watermarks.after({"closed": 5, "watermark": 7, "newest": [9]})
            Watermarks(late=5, closed=7, newest=(9,))
        """
        if not event_time:
            return cls()
        if wrong := _SHAPE(event_time, "it"):
            raise InputError(
                f"these are not the watermarks of a batch: {wrong}; read this checkpoint with the "
                "version of evenflow that wrote it"
            )
        return cls(event_time["closed"], event_time["watermark"], tuple(event_time["newest"]))

    @property
    def waiting(self) -> bool:
        """Whether a batch without rows would close something."""
        return self.closed is not None and self.closed != self.late

    def left_behind(self, seen: Iterable[Sequence[Moment]], delay: int) -> dict[str, Any]:
        """What this batch leaves in its manifest.

        With several sources, the slowest one counts: rows of the others wait for it.

        Parameters:
            seen: the latest event time that each task has seen, of each source.
            delay: how long rows may be late.

        Example:
            >>> Watermarks(5, 7, (9,)).left_behind([[12], [None]], delay=2)
            {'closed': 7, 'watermark': 10, 'newest': [12]}
        """
        newest = list(self.newest)
        for moments in seen:
            newest += [None] * (len(moments) - len(newest))
            newest = [latest(a, b) for a, b in zip(newest, moments, strict=True)]
        known = [moment for moment in newest if moment is not None]
        reached = None
        if known and len(known) == len(newest):
            reached = max(min(known) - delay, _EARLIEST)  # else the next batch could not read it
        return {
            "closed": self.closed,
            "watermark": latest(self.closed, reached),
            "newest": newest,
        }


class EventTimes:
    """What a task notes of its rows' event times.

    Parameters:
        sources: how many sources the rows come from.
    """

    def __init__(self, sources: int = 1) -> None:
        self.newest: list[Moment] = [None] * sources
        self.late = 0
        self.partly_late = 0
        self.unknown = 0

    def add(self, moments: np.ndarray, source: int = 0) -> None:
        """Note the event times of rows of a source."""
        if len(moments):
            self.newest[source] = latest(self.newest[source], int(moments.max()))

    def report(self) -> dict[str, Any]:
        """For the task's report."""
        return {
            "event_times": self.newest,
            "late_rows": self.late,
            "partly_late_rows": self.partly_late,
            "null_times": self.unknown,
        }


def event_time_after(
    job: Job, watermarks: Watermarks, work: Iterable[Mapping[str, Any]]
) -> dict[str, Any]:
    """What a batch leaves in its manifest about event time; nothing if the work has none."""
    if not job.work.tracks_event_time:
        return {}
    return watermarks.left_behind((report["event_times"] for report in work), job.work.delay)


def event_time_metrics(
    work: Sequence[Mapping[str, Any]],
    state: Sequence[Mapping[str, Any]],
    segments: Iterable[Segment],
    left_behind: Mapping[str, Any],
) -> dict[str, Any]:
    """What a batch's metrics say about event time; nothing if the work has none.

    `late_rows` came after all that they belong to was closed, and were dropped; `partly_late_rows`
    after some of their windows were. `null_times` have no event time and belong nowhere. `windows`
    were touched, `closed_windows` put out for good, or `pairs` made and `unmatched` rows put out.
    `state_rows` is what is kept.
    """
    if not left_behind:
        return {}
    return {
        **{
            name: sum(report[name] for report in work)
            for name in ("late_rows", "partly_late_rows", "null_times")
        },
        **{
            name: sum(report.get(name, 0) for report in state)
            for name in ("windows", "closed_windows", "pairs", "unmatched")
            if any(name in report for report in state)
        },
        "state_rows": sum(segment.rows for segment in segments),
        "watermark": as_text(left_behind["watermark"]),
    }


def latest(a: Moment, b: Moment) -> Moment:
    """The later one of two moments.

    Example:
        >>> latest(None, 3), latest(None, None)
        (3, None)
    """
    if a is None or b is None:
        return b if a is None else a
    return max(a, b)


def as_text(moment: Moment) -> str | None:
    """A moment as a person reads it.

    Example:
        >>> as_text(1_700_000_000_000_000)
        '2023-11-14T22:13:20+00:00'
    """
    if moment is None:
        return None
    try:
        return (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=moment)).isoformat()
    except OverflowError:  # before the year 1 or after 9999, which Spark knows and Python does not
        return f"{moment} µs"
