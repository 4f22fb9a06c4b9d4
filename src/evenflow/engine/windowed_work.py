"""Work in event-time windows: rows by key and window, windows that are over, state that expires.

Rows are first put together by key and *pane*, the stretch of time whose rows are all in the same
windows; only then is the state of a pane added to every window that it is in. So a row is worked on
once, however many windows overlap, and where keys are split, panes travel and not windows. An operator
that cannot merge is given its rows once for every window.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from evenflow.engine.event_time import Seen, Watermarks
from evenflow.engine.job import FINGERPRINT, REPORT, WORKER, Job
from evenflow.engine.rows import Keys, as_stored, chunks, from_stored, merged, nullable
from evenflow.engine.statistics import KeyTally
from evenflow.engine.tally import Tally
from evenflow.engine.work import (
    LookUp,
    Store,
    arrived_states,
    counted_keys,
    file_report,
    key_tally,
    latest_of,
    overlaid,
    partition,
    stored_names,
    stored_states,
    versioned,
    with_arrived,
    write_output,
)
from evenflow.model.owners import Owners
from evenflow.operators import Rows, no_state
from evenflow.operators.grouping_rows import group_rows
from evenflow.operators.windows import APPEND, Window, as_times, times_of
from evenflow.state.expiry import Expiry, rows_expiring, unexpired
from evenflow.state.folding import fold, newest
from evenflow.state.segments import VERSION, Segment, numbers_of, write_segment


@dataclass(frozen=True)
class WindowSplitWork:
    """A `mapInArrow` function like `SplitWork`: parts of states, by key and pane."""

    job: Job
    owners: Owners
    store: Store | None = None

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        tally, seen = Tally(), Seen()
        table = pane_parts(self.job, tally, seen, _watermarks(self.store), batches)
        keys = 0
        if table is not None:
            fingerprints = table.column(FINGERPRINT).to_numpy().view(np.uint64)
            keys = _distinct(table)
            homes = pa.array(self.owners(fingerprints).astype(np.int32))
            table = table.add_column(0, WORKER, homes)
            yield from table.cast(self.job.parts_schema()).combine_chunks().to_batches()
        if self.store is not None:
            worker = partition()
            report = tally.report(stage="work", worker=worker, keys=keys, **seen.report())
            file_report(self.store, worker, report)


@dataclass(frozen=True)
class WindowOwnerWork:
    """A `mapInArrow` function like `OwnerWork`: new states of windows, and what is over.

    Parameters:
        job: the computation, with a window.
        split: True where parts of states come in, False where rows do.
        store: the state; None to begin with none and to return the output itself.
    """

    job: Job
    split: bool
    store: Store | None = None

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        owner, tally, seen = partition(), Tally(), Seen()
        counted = key_tally(self.store)
        states = self._states(owner, tally, seen, counted, batches)
        if self.store is None:
            if states is not None and states.num_rows:
                output = emitted_windows(self.job, states)
                yield from output.combine_chunks().to_batches(max_chunksize=1 << 16)
            return
        stored_at = time.perf_counter()
        arrived = arrived_states(self.store, owner, tally, states)
        written = _write(self.job, self.store, owner, states, arrived)
        written |= counted_keys(counted, self.store, owner, states)
        report = tally.report(
            stage="state",
            worker=owner,
            keys=0 if states is None else _distinct(states),
            windows=0 if states is None else states.num_rows,
            split=self.split,
            write_seconds=time.perf_counter() - stored_at,
            **written,
            **({} if self.split else seen.report()),
        )
        yield pa.record_batch([pa.array([report], pa.string())], names=[REPORT])

    def _states(
        self,
        owner: int,
        tally: Tally,
        seen: Seen,
        counted: KeyTally | None,
        batches: Iterator[pa.RecordBatch],
    ) -> pa.Table | None:
        """The new states of all windows that this batch touches, one row a key and window."""
        job, marks = self.job, _watermarks(self.store)
        look_up = _stored_windows(job, self.store, owner, tally)
        if not self.split and not job.operator.mergeable:
            return _from_rows(job, tally, seen, marks, look_up, batches, counted)
        if self.split:
            parts = [part.select(stored_names(job)) for part in chunks(batches)]
            tally.rows = sum(part.num_rows for part in parts)
            panes = merged(job, pa.concat_tables(parts)) if parts else None
        else:
            panes = pane_parts(job, tally, seen, marks, batches, counted)
        if panes is None:
            return None
        with tally.updating():
            table = over_windows(job, panes, marks)
        if look_up is None or not table.num_rows:
            return table
        keys, _ = from_stored(job, table)
        states, known = look_up(keys)
        if not known.any():
            return table
        old = as_stored(keys, states).filter(pa.array(known))
        with tally.updating():
            return merged(job, pa.concat_tables([old.cast(table.schema), table]))


def _stored_windows(job: Job, store: Store | None, owner: int, tally: Tally) -> LookUp:
    """Looks up the states of windows; segments that have no window of that time are not opened."""
    if store is None or job.expires is None:
        return None
    column = job.expires

    def look_up(keys: Keys) -> tuple[pa.Table, np.ndarray]:
        ends = numbers_of(keys.columns.combine_chunks(), column)
        low, high = int(ends.min()), int(ends.max())
        near = tuple(
            segment
            for segment in store.segments
            if segment.expires is None or (segment.expires[0] <= high and segment.expires[1] >= low)
        )
        found = stored_states(job, store._replace(segments=near), owner, tally)
        if found is None:
            nothing = no_state(nullable(job.state_schema()), len(keys))
            return nothing, np.zeros(len(keys), bool)
        return found(keys)

    return look_up


# --- rows ----------------------------------------------------------------------------------------


class Arrived(NamedTuple):
    """The rows of a chunk that are not late."""

    table: pa.Table
    moments: np.ndarray
    key: np.ndarray  #: row → number of its key
    keys: Keys  #: the distinct keys, in the user's key columns alone


def pane_parts(
    job: Job,
    tally: Tally,
    seen: Seen,
    marks: Watermarks,
    batches: Iterator[pa.RecordBatch],
    counted: KeyTally | None = None,
) -> pa.Table | None:
    """The rows that came in as states, one a key and pane; None if there are none."""
    parts = []
    for chunk in chunks(batches):
        arrived = _arrived(job, tally, seen, marks, chunk)
        if not len(arrived.key):
            continue
        if counted is not None:
            counted.add(arrived.keys.fingerprints, arrived.key)
        rows, keys = _grouped(job, arrived, _window(job).panes(arrived.moments))
        with tally.updating():
            states = job.operator.update(rows, no_state(nullable(job.state_schema()), len(keys)))
        parts.append(as_stored(keys, states))
    return merged(job, pa.concat_tables(parts)) if parts else None


def _from_rows(
    job: Job,
    tally: Tally,
    seen: Seen,
    marks: Watermarks,
    look_up: LookUp,
    batches: Iterator[pa.RecordBatch],
    counted: KeyTally | None = None,
) -> pa.Table | None:
    """The new states of an operator that cannot merge: it sees its rows once a window."""
    table: pa.Table | None = None
    for chunk in chunks(batches):
        arrived = _arrived(job, tally, seen, marks, chunk)
        if not len(arrived.key):
            continue
        row, ends = _window(job).ends(arrived.moments)
        if marks.late is not None:
            row, ends = row[ends > marks.late], ends[ends > marks.late]
        expanded = arrived._replace(
            table=arrived.table.take(pa.array(row)), key=arrived.key[row], moments=ends
        )
        if counted is not None:
            counted.add(expanded.keys.fingerprints, expanded.key)
        rows, keys = _grouped(job, expanded, ends)
        states = no_state(nullable(job.state_schema()), len(keys))
        if look_up is not None:
            states = look_up(keys)[0].cast(states.schema)
        if table is not None:
            states = overlaid(job, keys, states, table)
        with tally.updating():
            states = job.operator.update(rows, states)
        table = latest_of(job, table, as_stored(keys, states))
    return table


def _arrived(job: Job, tally: Tally, seen: Seen, marks: Watermarks, chunk: pa.Table) -> Arrived:
    """The rows of a chunk without those that are late or have no event time, which are counted."""
    rows = chunk.select(job.rows.names).cast(job.rows)
    key, first = group_rows([rows.column(name) for name in job.key])
    fingerprints = np.zeros(len(first), np.uint64)
    if FINGERPRINT in chunk.column_names:
        fingerprints = chunk.column(FINGERPRINT).to_numpy()[first].view(np.uint64)
    keys = Keys(fingerprints, rows.select(list(job.key)).take(pa.array(first)))
    tally.add(keys, key)
    window = _window(job)
    moments, kept = times_of(rows.column(window.column))
    seen.unknown += int(len(kept) - kept.sum())
    seen.add(moments[kept])
    if marks.late is not None:
        in_time = window.last_end(moments) > marks.late
        seen.late += int((kept & ~in_time).sum())
        kept = kept & in_time
        seen.partly_late += int((kept & (window.first_end(moments) <= marks.late)).sum())
    if not kept.all():
        rows, key, moments = rows.filter(pa.array(kept)), key[kept], moments[kept]
    return Arrived(rows, moments, key, keys)


def _grouped(job: Job, arrived: Arrived, moments: np.ndarray) -> tuple[Rows, Keys]:
    """Rows by key and moment (a pane or a window), and these as stored keys."""
    group, first = group_rows([pa.array(arrived.key), pa.array(moments)])
    chosen = pa.array(arrived.key[first])
    own = arrived.keys.columns.take(chosen)
    columns = [*own.columns, pa.chunked_array([pa.array(moments[first])])]
    stored_keys = Keys(
        arrived.keys.fingerprints[arrived.key[first]],
        pa.table(columns, names=job.key_schema().names),
    )
    return Rows(arrived.table, group, own), stored_keys


def over_windows(job: Job, panes: pa.Table, marks: Watermarks) -> pa.Table:
    """States of panes as states of the windows that are not over yet, one row a key and window."""
    window, name = _window(job), job.expires
    assert name is not None
    pane, ends = window.ends(numbers_of(panes.combine_chunks(), name))
    if marks.late is not None:
        pane, ends = pane[ends > marks.late], ends[ends > marks.late]
    table = panes.take(pa.array(pane))
    table = table.set_column(table.column_names.index(name), name, pa.array(ends))
    return table if window.pane == window.size else merged(job, table)


# --- output and state ----------------------------------------------------------------------------


def emitted_windows(job: Job, table: pa.Table) -> pa.Table:
    """The output rows of windows with these stored rows."""
    window, schema = _window(job), job.output_schema()
    keys, states = from_stored(job, table)
    named = keys.columns.select(range(len(job.key))).rename_columns(list(job.key))
    output = job.operator.emit(named, states)
    ends = keys.columns.column(len(job.key)).combine_chunks().to_numpy()
    kind = window.time_type(job.rows)
    bounds = [as_times(ends - window.size, kind), as_times(ends, kind)]
    rest = [output.column(name) for name in schema.names[len(job.key) + 2 :]]
    return pa.table([*named.columns, *bounds, *rest], names=schema.names).cast(schema)


def _write(
    job: Job, store: Store, owner: int, states: pa.Table | None, arrived: pa.Table | None
) -> dict[str, Any]:
    """Write the states of windows that are not over, and the output; what was written."""
    new = None
    if states is not None and states.num_rows:
        new = versioned(states, store.batch).combine_chunks()
    written = write_lasting(job, store, owner, with_arrived(new, arrived))
    over = _over(job, store, owner, new)
    shown = over if _window(job).mode == APPEND else states
    output = None if shown is None else write_output(store, owner, [emitted_windows(job, shown)])
    closed = {} if over is None else {"closed_windows": over.num_rows}
    return {**written, **closed, "output": output}


def write_lasting(job: Job, store: Store, owner: int, new: pa.Table | None) -> dict[str, Any]:
    """Write the rows of state that do not expire with this batch; the segment and what it replaces."""
    assert job.expires is not None
    expiry = Expiry(job.expires, store.watermarks.closed)
    lasting = None if new is None else expiry.alive(new.combine_chunks())
    if lasting is None or not lasting.num_rows:
        return {"segment": None, "consumed": []}
    own = [segment for segment in store.segments if segment.owner == owner]
    own = list(unexpired(own, expiry.watermark))  # the others vanish with this batch, unread
    table, consumed = fold(Path(store.directory), own, lasting, expiry, store.now())
    epochs = store.epochs(consumed)
    segment = write_segment(Path(store.directory), table, owner, epochs, job.expires)
    return {"segment": segment.to_json(), "consumed": [old.file for old in consumed]}


def _over(job: Job, store: Store, owner: int, new: pa.Table | None) -> pa.Table | None:
    """The final states of an owner's windows that this batch closes; None if nobody wants them.

    Keys that have moved here since are taken from their former owner's segments: of each window all
    versions meet at its present owner, and the newest one counts.
    """
    window, name = _window(job), job.expires
    late, closed = store.watermarks.late, store.watermarks.closed
    if window.mode != APPEND or name is None:
        return None
    found = [] if new is None else [new]
    if closed is None:
        return None
    if late is None or window.any_ends(late, closed):

        def settled(segment: Segment) -> bool:
            return set(segment.epochs) == {store.epoch}

        place, times = store.owners[store.epoch], (late, closed)
        found += rows_expiring(store.directory, store.segments, name, times, settled, place, owner)
    if not found:
        return None
    names = [FINGERPRINT, VERSION, *stored_names(job)[1:]]
    tables = [table.select(names).cast(found[0].select(names).schema) for table in found]
    table = newest(pa.concat_tables(tables))
    return table.filter(pa.array(numbers_of(table, name) <= closed)).drop_columns([VERSION])


def _window(job: Job) -> Window:
    assert job.window is not None
    return job.window


def _watermarks(store: Store | None) -> Watermarks:
    return Watermarks() if store is None else store.watermarks


def _distinct(table: pa.Table) -> int:
    """How many keys, of which each may have several windows."""
    return len(np.unique(table.column(FINGERPRINT).to_numpy()))
