"""One task at work on one batch: what it looks up, counts and writes."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any
from uuid import uuid4

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from evenflow.engine.batch import Batch
from evenflow.engine.due_keys import without_forgotten, write_due_keys
from evenflow.engine.event_time import EventTimes, Watermarks
from evenflow.engine.guarding import Guard
from evenflow.engine.job import Job
from evenflow.engine.key_costs import KeyCosts
from evenflow.engine.layout import FINGERPRINT, Keys, of_other_keys, stored
from evenflow.engine.pieces import roomy
from evenflow.engine.tally import Tally
from evenflow.operators.grouping_rows import group_rows, keys_at
from evenflow.state.compaction import compact, needed_epochs
from evenflow.state.errors import explained
from evenflow.state.expiry import Expiry, unexpired
from evenflow.state.segments import (
    VERSION,
    Segment,
    fingerprints_in,
    key_columns,
    numbers_of,
    open_segment,
    write_segment,
)
from evenflow.state.state_reader import StateReader
from evenflow.state.whole_keys import rows_of_fingerprints

CHUNK = 1 << 20  #: rows that a task holds at a time
CHUNK_BYTES = 256 << 20  #: and their bytes: an array of strings ends at 2 GiB


class Task:
    """The state of one task while it works.

    Parameters:
        job: the computation.
        batch: the batch of a streaming query; None for a batch DataFrame, which has no state.
        partition: the task's number.
        split: whether parts of states come in, instead of rows.
    """

    def __init__(self, job: Job, batch: Batch | None, partition: int, split: bool = False) -> None:
        self.job = job
        self.batch = batch
        self.partition = partition
        self.split = split
        self.tally = Tally()
        self.times = EventTimes(job.work.sources)
        counts = batch is not None and batch.count_keys
        self.costs = KeyCosts(job.work.timed) if counts else None
        number, box = (None, None) if batch is None else (batch.number, batch.letters)
        self.guard = Guard(job, number, partition, box)

    @property
    def watermarks(self) -> Watermarks:
        return Watermarks() if self.batch is None else self.batch.watermarks

    # --- committed state -------------------------------------------------------------------------

    def look_up(self, keys: Keys) -> tuple[pa.Table, np.ndarray] | None:
        """The committed states of keys, and which of them there are; None where nothing is stored.

        Segments whose rows expire at other times are not opened. States that come from other owners
        are counted as moved.
        """
        batch = self.batch
        if batch is None or not batch.segments or not len(keys):
            return None
        segments = batch.segments
        expires = self.job.expires
        if expires is not None and expires in keys.columns.column_names:
            ends = numbers_of(keys.columns.combine_chunks(), expires)
            segments = _expiring_within(segments, int(ends.min()), int(ends.max()))
            if not segments:
                return None
        schema = roomy(self.job.state_schema())
        names = schema.names
        owners = dict(batch.owners)
        reader = StateReader(batch.storage, list(segments), owners, self.kept_schema())
        found, writer = reader.found(keys.fingerprints, keys.columns)
        states = found.select([stored(name) for name in names]).rename_columns(names)
        others = (writer >= 0) & (writer != self.partition)
        if others.any():
            self.tally.moved(states.filter(pa.array(others)))
        return states, writer >= 0

    def kept_schema(self) -> pa.Schema:
        """The state columns as they are kept."""
        schema = roomy(self.job.state_schema())
        return pa.schema([(stored(field.name), field.type) for field in schema])

    def _arriving(self, new: pa.Table | None) -> pa.Table | None:
        """The stored rows of keys that move here with this batch, without those that it has replaced.

        They are written here at once: from now on nobody needs to know where they were before.
        """
        batch = self.batch
        assert batch is not None
        moving = np.array(batch.arriving, np.uint64)
        if len(moving):
            moving = moving[batch.owners[batch.epoch](moving) == self.partition]
        staying = self._left_behind()
        moving = np.union1d(moving, staying)
        if not len(moving) or not batch.segments:
            return None
        kept = self.kept_schema()
        rows = rows_of_fingerprints(batch.storage, batch.segments, batch.owners, moving, kept)
        if rows is None:
            return None
        if new is not None:
            rows = of_other_keys(rows, new, key_columns(new.column_names))
        if not rows.num_rows:
            return None
        self.tally.moved(rows.filter(pa.array(~np.isin(fingerprints_in(rows), staying))))
        return self.versioned(rows.drop_columns([VERSION]))

    def _left_behind(self) -> np.ndarray:
        """The keys of this owner that only owners of the past would find in the retiring segment."""
        batch = self.batch
        assert batch is not None
        if batch.retiring is None:
            return np.zeros(0, np.uint64)
        file, epochs = batch.retiring
        (segment,) = (one for one in batch.segments if one.file == file)
        prints: np.ndarray = np.unique(open_segment(batch.storage, segment).fingerprints())
        prints = prints[batch.owners[batch.epoch](prints) == self.partition]
        for epoch in set(segment.epochs) - set(epochs):
            prints = prints[batch.owners[epoch](prints) != segment.owner]
        return prints

    def versioned(self, states: pa.Table) -> pa.Table:
        """Rows of state, as this batch writes them."""
        assert self.batch is not None
        version = pa.array(np.full(states.num_rows, self.batch.number, np.int64))
        return states.add_column(1, VERSION, version)

    # --- what the task leaves behind -------------------------------------------------------------

    def write_state(self, states: pa.Table | None, due: pa.Table | None = None) -> dict[str, Any]:
        """Write the new rows of state and those that arrive; the segment, and what it replaces.

        Parameters:
            due: the keys that are to be looked at, by moment.
        """
        batch, job = self.batch, self.job
        assert batch is not None
        began = time.perf_counter()
        new = None if states is None or not states.num_rows else self.versioned(states)
        arrived = self._arriving(new)
        rows = arrived if new is None else new
        if new is not None and arrived is not None:
            rows = pa.concat_tables([new, arrived.select(new.column_names).cast(new.schema)])
        expiry = None if job.expires is None else Expiry(job.expires, batch.watermarks.closed)
        if rows is not None and expiry is not None:
            rows = expiry.alive(rows.combine_chunks())
        written: dict[str, Any] = {"segment": None, "consumed": []}
        if rows is not None and rows.num_rows:
            own = [segment for segment in batch.segments if segment.owner == self.partition]
            # Expired segments vanish with this batch, unread.
            own = list(unexpired(own, None if expiry is None else expiry.watermark))
            table, consumed = compact(batch.storage, own, rows, expiry, batch.owners_after())
            if job.work.has_due_keys and len(consumed) == len(own):
                table = without_forgotten(batch, self.partition, table)
            epochs = needed_epochs(
                fingerprints_in(table),
                self.partition,
                batch.epochs_after(consumed),
                batch.epoch,
                batch.owners_after(),
            )
            written["consumed"] = [old.file for old in consumed]
            if table.num_rows:
                segment = write_segment(batch.storage, table, self.partition, epochs, job.expires)
                written["segment"] = segment.to_json()
        if job.work.has_due_keys:
            written |= write_due_keys(job, batch, self.partition, due, arrived)
        return {**written, "write_seconds": time.perf_counter() - began}

    def write_costs(self, states: pa.Table | None) -> dict[str, Any] | None:
        """Write what each key has cost, where that is wanted; the name of the file."""
        if self.costs is None:
            return None
        assert self.batch is not None
        return {"costs": self.costs.write(self.batch, self.partition, states)}

    def write_letters(self, stage: str = "") -> dict[str, Any]:
        """Write what was set aside; what the report says of it, nothing if there is nothing.

        Parameters:
            stage: tells the file from that of another stage's task with the same number.
        """
        letters = self.guard.letters
        if letters is None or self.batch is None:
            return {}
        written = letters.write(self.batch.staged(f"{stage}{self.partition:05d}"))
        return {} if written is None else {"letters": written}

    def write_output(self, tables: Iterable[pa.Table]) -> dict[str, Any] | None:
        """Write the output rows, table by table; the file, None if there are no rows."""
        assert self.batch is not None
        rows, left = 0, (table for table in tables if table.num_rows)
        first = next(left, None)
        if first is None:
            return None
        content = pa.BufferOutputStream()
        with pq.ParquetWriter(content, first.schema) as writer:
            for table in chain([first], left):
                writer.write_table(table)
                rows += table.num_rows
        name = self.batch.staged(f"{self.partition:05d}-{uuid4().hex}.parquet")
        with explained("write", self.batch.output.where(name)):
            self.batch.output.put(name, [memoryview(content.getvalue())])
        return {"file": name, "rows": rows}


def chunks(batches: Iterator[pa.RecordBatch], most: int = CHUNK) -> Iterator[pa.Table]:
    """The batches, put together to tables of about `most` rows or `CHUNK_BYTES`; none of them empty."""
    held: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        held.append(batch)
        rows += batch.num_rows
        size += batch.nbytes
        if rows and (rows >= most or size >= CHUNK_BYTES):
            yield pa.Table.from_batches(held)
            held, rows, size = [], 0, 0
    if rows:
        yield pa.Table.from_batches(held)


def keys_of(
    job: Job, table: pa.Table, schema: pa.Schema | None = None, parts: bool = False
) -> tuple[pa.Table, np.ndarray, Keys]:
    """The job's rows of a routed table, the number of each row's key, and the distinct keys.

    Parameters:
        schema: of the rows, where it has other types than the job's.
        parts: whether keys are split: the parts of one count as keys of their own.
    """
    rows = table.select(job.rows.names).cast(job.rows if schema is None else schema)
    told_apart = [rows.column(name) for name in job.key]
    group, first = group_rows([*told_apart, *([table.column(FINGERPRINT)] if parts else [])])
    # Rows whose states are neither handed on nor stored come without fingerprints.
    fingerprints = np.zeros(len(first), np.uint64)
    if FINGERPRINT in table.column_names:
        fingerprints = table.column(FINGERPRINT).to_numpy()[first].view(np.uint64)
    return rows, group, Keys(fingerprints, keys_at(rows.select(list(job.key)), first))


def _expiring_within(segments: tuple[Segment, ...], low: int, high: int) -> tuple[Segment, ...]:
    return tuple(
        segment
        for segment in segments
        if segment.expires is None or (segment.expires[0] <= high and segment.expires[1] >= low)
    )
