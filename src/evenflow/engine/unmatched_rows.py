"""Rows that an outer join keeps without a partner: they come out once no partner can come any more."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from evenflow.engine.kept_rows import Kept, stored_partners, taken_of
from evenflow.engine.layout import FINGERPRINT, Keys
from evenflow.engine.task import Task
from evenflow.operators.grouping_rows import group_rows
from evenflow.operators.interval_join import IntervalJoin, joinable
from evenflow.state.compaction import newest
from evenflow.state.expiry import rows_expiring
from evenflow.state.segments import VERSION, Segment, fingerprints_in


def unmatched_rows(task: Task, join: IntervalJoin, kept: Kept | None) -> Iterator[pa.Table]:
    """The output for rows of this task that have found no partner and now cannot find one.

    Guarantee: in the first batch whose watermark has passed the last moment at which a partner may
    come, this batch's rows included; in a batch DataFrame, for all such rows.

    Parameters:
        kept: the rows that came in; None if there are none.
    """
    if task.batch is None:
        if kept is not None:
            yield from _without_partner(join, kept, kept, np.ones(len(kept.group), bool))
        return
    closed = task.watermarks.closed
    if closed is None:
        return
    asked = _keys_asked_for(task, join, kept, closed)
    if asked is None:
        return
    new = None if kept is None else _of_keys(kept, asked)
    rows = [] if new is None else [new.rows]
    group = [] if new is None else [new.group]
    whole = Kept.of_keys(asked, task.batch.split)
    for number, old in stored_partners(task, join, whole):
        group.append(number)
        rows.append(old if not rows else old.cast(rows[0].schema))
    if not rows:
        return
    table, numbers = pa.concat_tables(rows).combine_chunks(), np.concatenate(group)
    moments, _, is_right = join.moments(table)
    there = joinable(asked.columns, asked.columns.column_names)[numbers]
    all_rows = Kept(table, numbers, moments, asked, is_right, whole.parts, there)
    late = task.watermarks.late
    ends = moments <= closed - join.within
    if late is not None:
        ends &= moments > late - join.within
    yield from _without_partner(join, whole, all_rows, ends)


def _without_partner(
    join: IntervalJoin, keys: Kept, rows: Kept, ends: np.ndarray
) -> Iterator[pa.Table]:
    asking = ends & np.where(rows.is_right, join.keeps[1], join.keeps[0])
    pairable = rows.pairable
    matched = np.zeros(len(rows.group), bool)
    matched[pairable] = join.matched(
        keys.keys.columns,
        rows.rows.filter(pa.array(pairable)),
        rows.group[pairable],
        asking[pairable],
    )
    (alone,) = np.nonzero(asking & ~matched)
    if len(alone):
        yield join.unpaired(keys.keys.columns, rows.rows, rows.group, alone, rows.is_right)


def _keys_asked_for(task: Task, join: IntervalJoin, kept: Kept | None, closed: int) -> Keys | None:
    """The keys that have rows whose last moment has come, stored or new; None if there are none."""
    found = []
    names = [FINGERPRINT, *task.job.stored_names()[1:][: len(task.job.key)]]
    stored = _ending(task, join, closed)
    if stored is not None:
        found.append(stored.select(names))
    if kept is not None:
        keys = np.unique(kept.group[kept.moments <= closed - join.within])
        columns = kept.keys.columns.take(pa.array(keys)).columns
        prints = pa.array(kept.keys.fingerprints[keys].view(np.int64))
        new = pa.table([prints, *columns], names=names)
        found.append(new.cast(found[0].schema) if found else new)
    if not found:
        return None
    table = pa.concat_tables(found).combine_chunks()
    if not table.num_rows:
        return None
    _, first = group_rows(table.columns)
    table = table.take(pa.array(first))
    columns = table.drop_columns([FINGERPRINT]).rename_columns(list(task.job.key))
    return Keys(fingerprints_in(table), columns)


def _ending(task: Task, join: IntervalJoin, closed: int) -> pa.Table | None:
    """The stored rows that no partner can come for after this batch, and could before."""
    batch, expires = task.batch, task.job.expires
    assert batch is not None
    assert expires is not None
    late = task.watermarks.late
    # A row is stored until its partners cannot be asked for either: for another `within`.
    between = (None if late is None else late + join.within, closed + join.within)

    def settled(segment: Segment) -> bool:
        return set(segment.epochs) == {batch.epoch}

    place = batch.owners[batch.epoch]
    found = rows_expiring(
        batch.storage, batch.segments, expires, between, settled, place, task.partition
    )
    if not found:
        return None
    names = [FINGERPRINT, VERSION, *task.job.stored_names()[1:]]
    tables = [table.select(names).cast(found[0].select(names).schema) for table in found]
    table = newest(pa.concat_tables(tables))
    is_right = join.moments(taken_of(task, table))[2]
    return table.filter(pa.array(np.where(is_right, join.keeps[1], join.keeps[0])))


def _of_keys(kept: Kept, asked: Keys) -> Kept:
    """The new rows of some keys, numbered as these."""
    columns = [pa.array(asked.fingerprints.view(np.int64)), *asked.columns.columns]
    own = [pa.array(kept.keys.fingerprints.view(np.int64)), *kept.keys.columns.columns]
    both = [
        pa.chunked_array([a, *b.cast(a.type).chunks] if isinstance(b, pa.ChunkedArray) else [a, b])
        for a, b in zip((_whole(one) for one in columns), own, strict=True)
    ]
    group, first = group_rows(both)
    number = first[group[len(asked) :]]  # of a key that is not asked for: beyond them
    mine = number[kept.group]
    wanted = mine < len(asked)
    return Kept(
        kept.rows.filter(pa.array(wanted)),
        mine[wanted],
        kept.moments[wanted],
        asked,
        kept.is_right[wanted],
        kept.parts,
        kept.pairable[wanted],
    )


def _whole(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
