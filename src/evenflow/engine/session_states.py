"""Session windows: one state per key and session; sessions of a key that meet become one.

The rows of a task become partial sessions first. Where keys are split, these travel to the keys'
owners. There, they meet each other and the sessions that are kept, and those that overlap or touch are
merged.

A session's bounds change while it goes on, so they cannot name its stored row. A batch that touches a
key writes all of its open sessions, and of all stored rows of a key only those of its newest version
count.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from evenflow.engine.event_time_states import EventTimeStates
from evenflow.engine.job import Job
from evenflow.engine.keyed_states import Grouped
from evenflow.engine.layout import Keys, of_other_keys
from evenflow.engine.pieces import roomy
from evenflow.engine.task import Task, keys_of
from evenflow.operators import Rows
from evenflow.operators.grouping_rows import group_rows
from evenflow.operators.groups import I64
from evenflow.operators.sessions import Session, merged_sessions
from evenflow.state.expiry import rows_expiring
from evenflow.state.segments import FINGERPRINT, fingerprints_in, key_columns, numbers_of
from evenflow.state.whole_keys import rows_of_keys

_END, _START = "w0", "w1"  # the stored columns of a session's bounds


@dataclass(frozen=True)
class SessionStates(EventTimeStates):
    """An operator on the rows of each key and session.

    The stored key has two more columns: when a session ends, and when it begins.

    Guarantee: the sessions of Spark's `session_window` function, and the rows that Spark's own
    streaming aggregation takes in and drops. State is gone once its session is over.

    Parameters:
        operator: what happens to the rows of a key in a session; it must be able to merge.
        window: which rows are in one session.
    """

    window: Session

    by_parts = True
    rewrites_keys = True

    @property
    def added(self) -> tuple[str, ...]:  # type: ignore[override]
        return tuple(name for name in self.window.columns() if name.startswith("__"))

    def key_types(self) -> list[pa.DataType]:
        return [pa.int64(), pa.int64()]

    def grouped_for_parts(self, task: Task, chunk: pa.Table) -> Grouped:
        rows, key, keys = keys_of(task.job, chunk)
        task.tally.add(keys, key)
        starts, ends, known, counted = self.window.alone(rows)
        times, late = task.times, task.watermarks.late
        times.unknown += int(len(counted) - counted.sum())
        times.add(starts[known])
        if late is not None:
            times.late += int((counted & (ends <= late)).sum())
            counted = counted & (ends > late)
        if not counted.any():
            return None
        if not counted.all():
            rows, key = rows.filter(pa.array(counted)), key[counted]
            starts, ends = starts[counted], ends[counted]
        number, begin, end = merged_sessions(key, starts, ends)
        owner = np.empty(len(begin), np.int64)
        owner[number] = key
        own = keys.columns.take(pa.array(owner))
        columns = [*own.columns, pa.array(end), pa.array(begin)]
        stored = pa.table(columns, names=task.job.key_schema().names)
        return Keys(keys.fingerprints[owner], stored), Rows(rows, number, own)

    def merging(self, job: Job, keys: Keys) -> tuple[I64, Keys]:
        columns = keys.columns.combine_chunks()
        key, _ = group_rows(columns.select(range(len(job.key))).columns)
        starts, ends = self.bounds(job, columns, parts=True)
        number, begin, end = merged_sessions(key, starts, ends)
        first = np.empty(len(begin), np.int64)
        first[number[::-1]] = np.arange(len(key) - 1, -1, -1)
        merged = columns.take(pa.array(first))
        for name, moments in ((_END, end), (_START, begin)):
            at = merged.column_names.index(name)
            merged = merged.set_column(at, name, pa.array(moments))
        return number, Keys(keys.fingerprints[first], merged)

    def met(self, task: Task, table: pa.Table) -> pa.Table | None:
        """All open sessions of these rows' keys."""
        return self._open(task, table)

    def bounds(self, job: Job, table: pa.Table, parts: bool) -> tuple[np.ndarray, np.ndarray]:
        table = table.combine_chunks()
        return numbers_of(table, _START), numbers_of(table, _END)

    def closed(self, task: Task, states: pa.Table | None) -> pa.Table | None:
        batch = task.batch
        assert batch is not None
        closed = batch.watermarks.closed
        if closed is None:
            return None
        names, found = task.job.stored_names(), []
        if states is not None and states.num_rows:
            found = [states.select(names)]
        between = (batch.watermarks.late, closed)
        place = batch.owners[batch.epoch]
        # Which of these rows are the newest of their keys, only all rows of the keys tell.
        expiring = rows_expiring(
            batch.storage,
            batch.segments,
            _END,
            between,
            lambda segment: set(segment.epochs) == {batch.epoch},
            place,
            task.partition,
        )
        expiring = [table for table in expiring if table.num_rows]
        if expiring:
            keys = key_columns(expiring[0].column_names)
            some = pa.concat_tables([table.select([FINGERPRINT, *keys]) for table in expiring])
            stored = self._open(task, some)
            if stored is not None:
                found.append(of_other_keys(stored, states, keys).cast(roomy(stored.schema)))
        if not found:
            return None
        table = pa.concat_tables([one.cast(found[0].schema) for one in found])
        return table.filter(pa.array(numbers_of(table, _END) <= closed))

    def _open(self, task: Task, rows: pa.Table) -> pa.Table | None:
        """The stored sessions of these rows' keys that had not been closed before this batch."""
        batch, job = task.batch, task.job
        if batch is None or not batch.segments or not rows.num_rows:
            return None
        keys = rows.select(job.key_schema().names[: len(job.key)])
        _, first = group_rows(keys.columns)
        prints = fingerprints_in(rows.select([FINGERPRINT]).combine_chunks())[first]
        keys = keys.take(pa.array(first))
        schema = task.kept_schema()
        found = rows_of_keys(batch.storage, batch.segments, batch.owners, prints, keys, schema)
        if found is None:
            return None
        stored = found[1].select(job.stored_names()).combine_chunks()
        if task.watermarks.late is not None:
            stored = stored.filter(pa.array(numbers_of(stored, _END) > task.watermarks.late))
        return stored.cast(roomy(stored.schema)) if stored.num_rows else None
