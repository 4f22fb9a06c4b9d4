"""Keys that are looked at when their time has come: what tasks and batches write of them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from evenflow.engine.layout import FINGERPRINT, Keys, stored
from evenflow.operators.state_variables import LOOK
from evenflow.state.container import U64
from evenflow.state.due_keys import MOMENT, compact_due, due_between, not_over, write_due
from evenflow.state.segments import Segment, fingerprints_in, open_segment, state_columns
from evenflow.storage import together

if TYPE_CHECKING:
    from evenflow.engine.batch import Batch
    from evenflow.engine.job import Job
    from evenflow.engine.reports import Reports


def find_due_keys(job: Job, batch: Batch, partition: int) -> Keys | None:
    """The keys of a task that may be due in this batch; None if there are none."""
    found = due_between(
        batch.storage,
        batch.due,
        job.work.due_moments(batch),
        lambda segment: set(segment.epochs) == {batch.epoch},
        batch.owners[batch.epoch],
        partition,
    )
    return (
        None if found is None else Keys(fingerprints_in(found), found.drop_columns([FINGERPRINT]))
    )


def due_rows(keys: Keys, moments: pa.Array) -> pa.Table:
    """Keys by the moment when to look at them; those without a moment are left out."""
    table = pa.table(
        {
            MOMENT: moments,
            FINGERPRINT: pa.array(keys.fingerprints.view(np.int64)),
            **dict(zip(keys.columns.column_names, keys.columns.columns, strict=True)),
        }
    )
    return table.filter(table.column(MOMENT).is_valid())


def new_looks(keys: Keys, old: pa.Array, new: pa.Array, arriving: Sequence[int]) -> pa.Table:
    """The entries of keys that are to be looked at at another moment than before.

    Parameters:
        old, new: when to look at each key, before and now; null for never.
        arriving: the fingerprints of keys that move. Where they come from they are not looked for, so
            they are entered here once more.
    """
    changed = new.fill_null(0).to_numpy() != old.fill_null(-1 << 63).to_numpy()
    changed |= np.isin(keys.fingerprints, np.array(arriving, np.uint64))
    changed &= new.is_valid().to_numpy(zero_copy_only=False)
    return due_rows(keys, pa.array(new.fill_null(0).to_numpy(), mask=~changed))


def write_due_keys(
    job: Job, batch: Batch, partition: int, new: pa.Table | None, arrived: pa.Table | None
) -> dict[str, Any]:
    """Write the keys that are to be looked at; the segment, and what it replaces.

    Parameters:
        new: by moment, of this batch.
        arrived: rows of state that have moved here. Where they come from they are not looked for.
    """
    tables = [] if new is None or not new.num_rows else [new]
    if arrived is not None:
        keys = Keys(fingerprints_in(arrived), arrived.select(job.key_schema().names))
        tables.append(due_rows(keys, arrived.column(stored(LOOK))))
    rows = sum(table.num_rows for table in tables)
    if not rows:
        return {}
    schema = tables[0].schema
    table = pa.concat_tables([one.select(schema.names).cast(schema) for one in tables])
    own = [segment for segment in batch.due if segment.owner == partition]
    now = job.work.due_moments(batch)[1]
    table, consumed = compact_due(batch.storage, list(not_over(own, now)), table, now)
    epochs: tuple[int, ...] = (batch.epoch,)
    if (batch.owners[batch.epoch](fingerprints_in(table)) != partition).any():
        epochs = batch.epochs_after(consumed)
    segment = write_due(batch.storage, table, partition, epochs, batch.number)
    return {"due": segment.to_json(), "due_consumed": [old.file for old in consumed]}


def due_after(job: Job, batch: Batch, reports: Reports) -> tuple[Segment, ...]:
    """Which keys are to be looked at after a batch."""
    if not job.work.has_due_keys:
        return ()
    consumed = {file for report in reports.state for file in report.get("due_consumed", ())}
    left = batch.under_new_epoch(one for one in batch.due if one.file not in consumed)
    new = [Segment.from_json(report["due"]) for report in reports.state if "due" in report]
    return not_over([*left, *new], job.work.due_moments(batch)[1])


def without_forgotten(batch: Batch, partition: int, table: pa.Table) -> pa.Table:
    """The rows of an owner's only segment, without those of keys that have no state any more.

    Such a row has to stay as long as an older version may lie somewhere: where keys have moved, that
    may be at another owner, who would find it again once the key moves back.
    """
    if batch.arriving or any(set(one.epochs) != {batch.epoch} for one in batch.segments):
        return table
    empty = np.ones(table.num_rows, np.bool_)
    for name in state_columns(table.column_names):
        empty &= table.column(name).is_null().to_numpy()
    if empty.any() and batch.epoch:  # in the first epoch, no key has moved yet
        prints = fingerprints_in(table)
        others = [one for one in batch.segments if one.owner != partition]
        finds = [partial(_found_in, batch, one, prints[empty]) for one in others]
        for elsewhere in together(batch.storage, finds):
            empty &= ~np.isin(prints, elsewhere)
    return table.filter(pa.array(~empty)) if empty.any() else table


def _found_in(batch: Batch, segment: Segment, prints: U64) -> U64:
    return prints[open_segment(batch.storage, segment).find(prints).query]
