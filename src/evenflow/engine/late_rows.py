"""Rows that come too late in event time, where keys have timers."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from evenflow.engine.layout import Keys
from evenflow.engine.processors import milliseconds
from evenflow.engine.task import Task
from evenflow.operators.grouping_rows import group_rows
from evenflow.operators.groups import I64
from evenflow.operators.windows import times_of

Booleans = npt.NDArray[np.bool_]


def in_time(task: Task, times: pa.ChunkedArray, counted: Booleans, drops: bool) -> Booleans:
    """Which rows are not late; the task notes their times, and how many there are of each kind.

    Parameters:
        times: the event times.
        counted: which of the rows have an event time that counts.
        drops: whether any row is late.
    """
    moments, known = times_of(times)
    task.times.unknown += int((counted & ~known).sum())
    task.times.add(moments[known & counted])
    if not drops:
        return np.ones(len(known), np.bool_)
    late = counted & known & (moments <= milliseconds(task.watermarks.late) * 1000)
    task.times.late += int(late.sum())
    return ~late


def only_rows(rows: pa.Table, group: I64, keys: Keys, kept: Booleans) -> tuple[pa.Table, I64, Keys]:
    """Some of the rows, with the number of each one's key, and these keys."""
    number, first = group_rows([pa.array(group[kept])])
    chosen = group[kept][first]
    left = Keys(keys.fingerprints[chosen], keys.columns.take(pa.array(chosen)))
    return rows.filter(pa.array(kept)), number, left
