"""Work: what a worker does with the rows that it was sent, and an owner with the states of its keys."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple
from uuid import uuid4

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from evenflow.engine.event_time import Watermarks
from evenflow.engine.job import FINGERPRINT, REPORT, WORKER, Job, stored
from evenflow.engine.rows import (
    Keys,
    as_stored,
    chunks,
    from_stored,
    keyed_rows,
    merged,
    nullable,
)
from evenflow.engine.statistics import KeyTally
from evenflow.engine.tally import Tally
from evenflow.model.owners import Owners
from evenflow.operators import no_state
from evenflow.operators.grouping_rows import group_rows
from evenflow.state.errors import explained
from evenflow.state.folding import fold
from evenflow.state.segments import (
    VERSION,
    Segment,
    StateReader,
    key_columns,
    write_segment,
)
from evenflow.state.whole_keys import rows_of_fingerprints


class Store(NamedTuple):
    """The committed state that a batch begins with, and where its own files go."""

    directory: str
    segments: tuple[Segment, ...]
    owners: Mapping[int, Owners]  #: epoch → who owned which key
    epoch: int
    batch: int
    staging: str  #: where output files are written
    watermarks: Watermarks = Watermarks()  #: how far event time has come, for state that expires
    arriving: tuple[int, ...] = ()  #: keys whose owner changes now, with or without rows
    superseded: int | None = None  #: the epoch of which `epoch` takes the place: all moves are made
    count_keys: bool = False  #: whether workers tell what each key has cost

    def now(self) -> dict[int, Owners]:
        """Epoch → owners once this batch is done."""
        owners = dict(self.owners)
        if self.superseded is not None:
            owners[self.superseded] = owners[self.epoch]
        return owners

    def epochs(self, segments: Iterable[Segment]) -> tuple[int, ...]:
        """The epochs of a segment that this batch makes of some others."""
        old = {epoch for segment in segments for epoch in segment.epochs} - {self.superseded}
        return tuple(sorted({self.epoch, *old}))


@dataclass(frozen=True)
class SplitWork:
    """A `mapInArrow` function of a worker whose keys may have other workers, too: it makes parts of
    states from this batch alone and hands them to the keys' owners.

    Its report goes into a file. Among the parts, its seconds would make them differ whenever Spark
    runs the task again, and Spark would take that for a mistake and run more of the batch again, or
    give it up.
    """

    job: Job
    owners: Owners
    store: Store | None = None

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        tally = Tally()
        parts = [_part_of(self.job, tally, chunk) for chunk in chunks(batches)]
        keys = 0
        if parts:
            table = merged(self.job, pa.concat_tables(parts))
            keys = table.num_rows
            fingerprints = table.column(FINGERPRINT).to_numpy().view(np.uint64)
            homes = pa.array(self.owners(fingerprints).astype(np.int32))
            table = table.add_column(0, WORKER, homes)
            yield from table.cast(self.job.parts_schema()).combine_chunks().to_batches()
        if self.store is not None:
            worker = partition()
            file_report(self.store, worker, tally.report(stage="work", worker=worker, keys=keys))


@dataclass(frozen=True)
class OwnerWork:
    """A `mapInArrow` function of an owner of keys: new states from old ones and what came in.

    Parameters:
        job: the computation.
        split: True where parts of states come in, False where rows do.
        store: the state; None to begin with none and to return the output itself, once all is read.
    """

    job: Job
    split: bool
    store: Store | None = None

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        owner, tally = partition(), Tally()
        counted = key_tally(self.store)
        look_up = stored_states(self.job, self.store, owner, tally)
        if self.split:
            states = _from_parts(self.job, tally, look_up, batches)
        else:
            states = _from_rows(self.job, tally, look_up, batches, counted)
        if self.store is None:
            if states is not None:
                output = emitted(self.job, states)
                yield from output.combine_chunks().to_batches(max_chunksize=1 << 16)
            return
        stored_at = time.perf_counter()
        arrived = arrived_states(self.store, owner, tally, states)
        written = _write(self.job, self.store, owner, states, arrived)
        written |= counted_keys(counted, self.store, owner, states)
        report = tally.report(
            stage="state",
            worker=owner,
            keys=0 if states is None else states.num_rows,
            split=self.split,
            write_seconds=time.perf_counter() - stored_at,
            **written,
        )
        yield pa.record_batch([pa.array([report], pa.string())], names=[REPORT])


LookUp = Callable[[Keys], tuple[pa.Table, np.ndarray]] | None


def key_tally(store: Store | None) -> KeyTally | None:
    """To count what each key costs, where somebody wants to know."""
    return KeyTally() if store is not None and store.count_keys else None


def counted_keys(
    counted: KeyTally | None, store: Store, owner: int, states: pa.Table | None
) -> dict[str, Any]:
    """What the report says of the keys' costs: the file in which they are."""
    if counted is None:
        return {}
    return {"counted": counted.write(Path(store.staging), store.batch, owner, states)}


def stored_states(job: Job, store: Store | None, owner: int, tally: Tally) -> LookUp:
    """A function that looks up the committed states of keys, and counts those that come from other
    owners; None where there is none."""
    if store is None or not store.segments:
        return None
    reader = StateReader(Path(store.directory), list(store.segments), dict(store.owners))
    names = job.state_schema().names

    def look_up(keys: Keys) -> tuple[pa.Table, np.ndarray]:
        found, writer = reader.found(keys.fingerprints, keys.columns)
        states = found.select([stored(name) for name in names]).rename_columns(names)
        others = (writer >= 0) & (writer != owner)
        if others.any():
            tally.moved(states.filter(pa.array(others)))
        return states, writer >= 0

    return look_up


def arrived_states(store: Store, owner: int, tally: Tally, new: pa.Table | None) -> pa.Table | None:
    """The stored rows of keys that move here with this batch, without those that it has made anew.

    They are written down here at once: from now on nobody needs to know where they were before.
    """
    moving = np.array(store.arriving, np.uint64)
    mine = moving[store.owners[store.epoch](moving) == owner] if len(moving) else moving
    if not len(mine) or not store.segments:
        return None
    rows = rows_of_fingerprints(store.directory, store.segments, store.owners, mine)
    if rows is None:
        return None
    if new is not None and new.num_rows:
        keys = key_columns(new.column_names)
        both = pa.concat_tables([new.select(keys), rows.select(keys).cast(new.select(keys).schema)])
        _, first = group_rows(both.columns)
        rows = rows.take(pa.array(np.sort(first[first >= new.num_rows]) - new.num_rows))
    if not rows.num_rows:
        return None
    tally.moved(rows)
    return versioned(rows.drop_columns([VERSION]), store.batch)


def with_arrived(new: pa.Table | None, arrived: pa.Table | None) -> pa.Table | None:
    """New rows of state and those that have come from other owners, together."""
    if new is None or arrived is None:
        return arrived if new is None else new
    return pa.concat_tables([new, arrived.select(new.column_names).cast(new.schema)])


def versioned(states: pa.Table, batch: int) -> pa.Table:
    """Rows of state, as this batch has written them."""
    version = pa.array(np.full(states.num_rows, batch, np.int64))
    return states.add_column(1, VERSION, version)


def emitted(job: Job, table: pa.Table) -> pa.Table:
    """The output rows of keys with these stored rows."""
    keys, states = from_stored(job, table)
    named = keys.columns.rename_columns(list(job.key))
    output = job.operator.emit(named, states)
    schema = job.output_schema()
    columns = [*named.columns, *(output.column(name) for name in schema.names[len(job.key) :])]
    return pa.table(columns, names=schema.names).cast(schema)


def _part_of(job: Job, tally: Tally, chunk: pa.Table) -> pa.Table:
    keys, rows = keyed_rows(job, chunk)
    tally.add(keys, rows.group)
    with tally.updating():
        states = job.operator.update(rows, no_state(nullable(job.state_schema()), len(keys)))
    return as_stored(keys, states)


def _from_parts(
    job: Job, tally: Tally, look_up: LookUp, batches: Iterator[pa.RecordBatch]
) -> pa.Table | None:
    """The new states of all keys of which parts came in."""
    parts = [part.select(stored_names(job)) for part in chunks(batches)]
    if not parts:
        return None
    arrived = sum(part.num_rows for part in parts)
    table = merged(job, pa.concat_tables(parts))
    tally.rows = arrived
    if look_up is not None:
        keys, _ = from_stored(job, table)
        states, known = look_up(keys)
        if known.any():
            old = as_stored(keys, states).filter(pa.array(known))
            table = merged(job, pa.concat_tables([old.cast(table.schema), table]))
    return table


def _from_rows(
    job: Job,
    tally: Tally,
    look_up: LookUp,
    batches: Iterator[pa.RecordBatch],
    counted: KeyTally | None = None,
) -> pa.Table | None:
    """The new states of all keys of which rows came in: one worker has all rows of a key."""
    table: pa.Table | None = None
    for chunk in chunks(batches):
        keys, rows = keyed_rows(job, chunk)
        tally.add(keys, rows.group)
        states = no_state(nullable(job.state_schema()), len(keys))
        if look_up is not None:
            states = look_up(keys)[0].cast(states.schema)
        if table is not None:
            states = overlaid(job, keys, states, table)
        with tally.updating():
            if counted is None:
                states = job.operator.update(rows, states)
            else:
                states, costs = job.operator.measured(rows, states)
        if counted is not None:
            counted.add(keys.fingerprints, rows.group, costs)
        table = latest_of(job, table, as_stored(keys, states))
    return table


def overlaid(job: Job, keys: Keys, states: pa.Table, table: pa.Table) -> pa.Table:
    """`states`, but those of this very batch where an earlier chunk has made some."""
    known, newer = from_stored(job, table)
    both = pa.concat_tables([known.columns.cast(keys.columns.schema), keys.columns])
    group, first = group_rows(both.columns)
    at = first[group[len(known) :]]
    place = np.where(at < len(known), at, len(known) + np.arange(len(keys)))
    return pa.concat_tables([newer.cast(states.schema), states]).take(pa.array(place))


def latest_of(job: Job, before: pa.Table | None, after: pa.Table) -> pa.Table:
    """One row a key: that of `after` where there is one."""
    if before is None:
        return after
    both = pa.concat_tables([after, before.cast(after.schema)])
    _, first = group_rows([both.column(name) for name in job.key_schema().names])
    return both.take(pa.array(first))


def _write(
    job: Job, store: Store, owner: int, states: pa.Table | None, arrived: pa.Table | None
) -> dict[str, Any]:
    """Write new states and output rows; what was written, for the report."""
    new = versioned(states, store.batch) if states is not None and states.num_rows else None
    rows = with_arrived(new, arrived)
    if rows is None:
        return {"segment": None, "consumed": [], "output": None}
    own = [segment for segment in store.segments if segment.owner == owner]
    table, consumed = fold(Path(store.directory), own, rows, placements=store.now())
    segment = write_segment(Path(store.directory), table, owner, store.epochs(consumed))
    return {
        "segment": segment.to_json(),
        "consumed": [old.file for old in consumed],
        "output": None if new is None else write_output(store, owner, [emitted(job, states)]),
    }


def write_output(store: Store, owner: int, tables: Iterable[pa.Table]) -> dict[str, Any] | None:
    """Write the output rows of an owner, table by table; the file, None if there are no rows."""
    rows, left = 0, (table for table in tables if table.num_rows)
    first = next(left, None)
    if first is None:
        return None
    name = f"{store.batch:010d}-{owner:05d}-{uuid4().hex}.parquet"
    file = Path(store.staging) / name
    with explained("write", file), open(file, "xb") as content:
        with pq.ParquetWriter(content, first.schema) as writer:
            for table in chain([first], left):
                writer.write_table(table)
                rows += table.num_rows
        content.flush()
        # The manifest outlives a crash of the machine; so must what it says was delivered.
        os.fsync(content.fileno())
    return {"file": name, "rows": rows}


def filed_reports(store: Store, workers: int) -> list[Path]:
    """The files in which the workers of a batch report, where keys are split."""
    return [
        Path(store.staging) / f"{store.batch:010d}-work-{worker:05d}.json"
        for worker in range(workers)
    ]


def file_report(store: Store, worker: int, report: str) -> None:
    file = filed_reports(store, worker + 1)[worker]
    unfinished = file.with_name(f"{file.name}.{uuid4().hex}")
    with explained("write", file):
        unfinished.write_text(report, encoding="utf-8")
        unfinished.rename(file)


def stored_names(job: Job) -> list[str]:
    names = job.state_schema().names
    return [FINGERPRINT, *job.key_schema().names, *map(stored, names)]


def partition() -> int:
    from pyspark import TaskContext

    task = TaskContext.get()
    return 0 if task is None else int(task.partitionId())
