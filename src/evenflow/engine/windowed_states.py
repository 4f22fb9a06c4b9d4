"""Event-time windows: one state per key and window, windows that are over, state that expires.

Rows are first put together by key and *pane*, the stretch of time whose rows are all in the same
windows; only then is the state of a pane added to every window that it is in. So a row is worked on
once, however many windows overlap, and where keys are split, panes travel and not windows. An operator
that cannot merge is given its rows once per window.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from evenflow.engine.event_time_states import EventTimeStates
from evenflow.engine.job import Job
from evenflow.engine.keyed_states import Grouped
from evenflow.engine.layout import FINGERPRINT, Keys
from evenflow.engine.pieces import roomy
from evenflow.engine.task import Task, keys_of
from evenflow.operators import Rows
from evenflow.operators.grouping_rows import group_rows
from evenflow.operators.windows import Window, times_of
from evenflow.state.compaction import newest
from evenflow.state.evolution import evolved
from evenflow.state.expiry import rows_expiring
from evenflow.state.segments import VERSION, Segment, numbers_of


@dataclass(frozen=True)
class WindowedStates(EventTimeStates):
    """An operator on the rows of each key and window.

    The stored key has one more column: a window's end, and in parts of states the beginning of a pane.

    Guarantee: the windows of Spark's `window` function, and the rows that Spark's own streaming
    aggregation takes in and drops. State is gone once its window is over.

    Parameters:
        operator: what happens to the rows of a key in a window.
        window: which windows there are, and when they are put out.
    """

    window: Window

    @property
    def by_parts(self) -> bool:
        return self.operator.mergeable

    def key_types(self) -> list[pa.DataType]:
        return [pa.int64()]

    # --- rows ------------------------------------------------------------------------------------

    def grouped_for_parts(self, task: Task, chunk: pa.Table) -> Grouped:
        """The rows by key and pane."""
        rows, key, keys, moments = self._in_time(task, chunk)
        return _by_moment(task.job, rows, key, keys, self.window.panes(moments))

    def grouped(self, task: Task, chunk: pa.Table) -> Grouped:
        """The rows by key and window: every row once for each of its windows that is not over."""
        rows, key, keys, moments = self._in_time(task, chunk)
        row, ends = self.window.ends(moments)
        if task.watermarks.late is not None:
            open_ = ends > task.watermarks.late
            row, ends = row[open_], ends[open_]
        return _by_moment(task.job, rows.take(pa.array(row)), key[row], keys, ends, row)

    def _in_time(
        self, task: Task, chunk: pa.Table
    ) -> tuple[pa.Table, np.ndarray, Keys, np.ndarray]:
        """The rows that are not late and have an event time, the others counted: (rows, number of
        each row's key, keys, event times)."""
        rows, key, keys = keys_of(task.job, chunk)
        task.tally.add(keys, key)
        moments, kept = times_of(rows.column(self.window.column))
        times, late = task.times, task.watermarks.late
        times.unknown += int(len(kept) - kept.sum())
        times.add(moments[kept])
        if late is not None:
            in_time = self.window.last_end(moments) > late
            times.late += int((kept & ~in_time).sum())
            kept = kept & in_time
            times.partly_late += int((kept & (self.window.first_end(moments) <= late)).sum())
        if not kept.all():
            rows, key, moments = rows.filter(pa.array(kept)), key[kept], moments[kept]
        return rows, key, keys, moments

    def spread(self, task: Task, parts: pa.Table) -> pa.Table:
        """States of panes as states of the windows that are not over yet."""
        name = task.job.expires
        assert name is not None
        pane, ends = self.window.ends(numbers_of(parts.combine_chunks(), name))
        if task.watermarks.late is not None:
            open_ = ends > task.watermarks.late
            pane, ends = pane[open_], ends[open_]
        table = parts.take(pa.array(pane))
        table = table.set_column(table.column_names.index(name), name, pa.array(ends))
        single = self.window.pane == self.window.size
        return table if single else self._merged(task, table)

    # --- output ----------------------------------------------------------------------------------

    def bounds(self, job: Job, table: pa.Table, parts: bool) -> tuple[np.ndarray, np.ndarray]:
        moments = numbers_of(table.combine_chunks(), f"k{len(job.key)}")
        if parts:  # the key of a part is where its pane begins
            return moments, moments + self.window.pane
        return moments - self.window.size, moments

    def closed(self, task: Task, states: pa.Table | None) -> pa.Table | None:
        """The final states of the task's windows that this batch closes; None if there are none.

        Keys that have moved here since are taken from their former owner's segments: of each window all
        versions meet at its present owner, and the newest one counts.
        """
        batch, name = task.batch, task.job.expires
        assert batch is not None
        assert name is not None
        late, closed = batch.watermarks.late, batch.watermarks.closed
        if closed is None:
            return None
        found = []
        if states is not None and states.num_rows:
            found = [task.versioned(states).combine_chunks()]
        if late is None or self.window.any_ends(late, closed):

            def settled(segment: Segment) -> bool:
                return set(segment.epochs) == {batch.epoch}

            place = batch.owners[batch.epoch]
            found += rows_expiring(
                batch.storage, batch.segments, name, (late, closed), settled, place, task.partition
            )
        if not found:
            return None
        plain = [(FINGERPRINT, pa.int64()), (VERSION, pa.int64()), *task.job.key_schema()]
        schema = roomy(pa.schema([*plain, *task.kept_schema()]))
        table = newest(pa.concat_tables([evolved(table, schema) for table in found]))
        return table.filter(pa.array(numbers_of(table, name) <= closed)).drop_columns([VERSION])


def _by_moment(
    job: Job,
    rows: pa.Table,
    key: np.ndarray,
    keys: Keys,
    moments: np.ndarray,
    origin: np.ndarray | None = None,
) -> Grouped:
    """Rows by key and moment (a pane's beginning or a window's end), and these as stored keys."""
    if not len(key):
        return None
    group, first = group_rows([pa.array(key), pa.array(moments)])
    own = keys.columns.take(pa.array(key[first]))
    columns = [*own.columns, pa.chunked_array([pa.array(moments[first])])]
    stored = Keys(keys.fingerprints[key[first]], pa.table(columns, names=job.key_schema().names))
    return stored, Rows(rows, group, own, origin)
