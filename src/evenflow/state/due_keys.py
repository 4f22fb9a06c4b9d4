"""Which keys are to be looked at when: an index of keys by moment, beside the state.

Timers and values with a TTL need a look at their key at some moment, whether or not rows of the key
arrive then. To find those keys among all that are stored, there are segments sorted by moment. A row
says no more than that a key should be looked at; what is due then, its state says. So a row that is out
of date costs a look-up and does no harm.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from evenflow.operators.grouping_rows import group_rows
from evenflow.state.container import I64, U64, Encoded
from evenflow.state.errors import damaged, explained
from evenflow.state.segments import (
    OwnerFunction,
    Segment,
    fingerprints_in,
    numbers_of,
    open_segment,
    put_segment,
)
from evenflow.storage import Storage, together

MOMENT = "__moment"  #: int64, when to look at the key
_SIGN = np.uint64(1 << 63)


def _ordered(moments: I64) -> U64:
    """Moments as unsigned numbers in the same order, as a container sorts by."""
    return np.asarray(moments.view(np.uint64) ^ _SIGN, np.uint64)


def _moments(ordered: U64) -> I64:
    return np.asarray((ordered ^ _SIGN).view(np.int64), np.int64)


def write_due(
    storage: Storage, table: pa.Table, owner: int, epochs: Iterable[int], batch: int
) -> Segment:
    """Write a segment of keys by moment.

    Parameters:
        storage: the checkpoint's.
        table: moments, fingerprints and key columns.
        owner: who owns the keys.
        epochs: those in which the keys were given to that owner.
        batch: the number of the batch.

    Example:
        >>> from evenflow.storage import MemoryStorage
        >>> keys = pa.table({"__moment": [9, 5], "__fingerprint": [1, 2], "k0": ["a", "b"]})
        >>> storage = MemoryStorage()
        >>> segment = write_due(storage, keys, owner=0, epochs=[0], batch=3)
        >>> segment.rows, segment.expires
        (2, (5, 9))
        >>> read_due(storage, segment, 5, 8).to_pylist()
        [{'__moment': 5, '__fingerprint': 2, 'k0': 'b'}]
    """
    moments = numbers_of(table.combine_chunks(), MOMENT)
    order = np.argsort(moments, kind="stable")
    rows = table.drop_columns([MOMENT]).take(pa.array(order)).combine_chunks()
    rows = rows.cast(pa.schema([pa.field(field.name, field.type) for field in rows.schema]))
    encoded = Encoded(_ordered(moments[order]), rows)
    span = int(moments[order[0]]), int(moments[order[-1]])
    return put_segment(storage, encoded, table.num_rows, owner, epochs, (batch, batch), span)


def read_due(
    storage: Storage, segment: Segment, first: int | None = None, last: int | None = None
) -> pa.Table:
    """The rows of a segment from one moment to another, both included; all of them by default.

    Guarantee: only the blocks are read in which these rows lie.
    """
    low = -(1 << 63) if first is None else first
    high = (1 << 63) - 1 if last is None else last
    container = open_segment(storage, segment)
    bounds = _ordered(np.array([low, high], np.int64)).tolist()
    ordered, rows = container.between(*bounds)
    return rows.add_column(0, MOMENT, pa.array(_moments(ordered)))


def due_between(
    storage: Storage,
    segments: Sequence[Segment],
    moments: tuple[int, int],
    settled: Callable[[Segment], bool],
    owner_of: OwnerFunction,
    owner: int,
) -> pa.Table | None:
    """The keys of an owner that are to be looked at from one moment to another, each once; None if
    there are none.

    Guarantee: the cost grows with the keys that become due, not with those that wait.

    Parameters:
        storage: the checkpoint's.
        segments: the index of a manifest.
        moments: both included.
        settled: whether all keys of a segment are still its own owner's.
        owner_of: who owns a key now.
        owner: whose keys are wanted.
    """
    first, last = moments

    def overlaps(segment: Segment) -> bool:
        if segment.expires is None or segment.expires[0] > last or segment.expires[1] < first:
            return False
        return segment.owner == owner or not settled(segment)

    found = together(
        storage,
        [partial(read_due, storage, one, first, last) for one in segments if overlaps(one)],
    )
    found = [table for table in found if table.num_rows]
    if not found:
        return None
    table = _same_types(found)
    mine = owner_of(fingerprints_in(table)) == owner
    return _each_once(table.filter(pa.array(mine)).drop_columns([MOMENT])) if mine.any() else None


def compact_due(
    storage: Storage, segments: Sequence[Segment], new: pa.Table, after: int
) -> tuple[pa.Table, list[Segment]]:
    """The rows of an owner's next segment, and the segments that it replaces.

    By the logarithmic method, as for states; rows before `after` are left out, because their moment
    is over. Rows of keys that have moved away stay: their owners read them here.

    Parameters:
        storage: the checkpoint's.
        segments: those of one owner.
        new: the rows of this batch.
        after: the moment before which all is done.
    """
    consumed, rows = [], new.num_rows
    for segment in sorted(segments, key=lambda segment: -segment.highest_batch):
        if segment.rows > 2 * rows:
            break
        consumed.append(segment)
        rows += segment.rows
    old = together(storage, [partial(read_due, storage, one, after) for one in consumed])
    if not consumed:
        return new, []
    return _each_once(_same_types([new, *old])), consumed


def not_over(segments: Iterable[Segment], now: int | None) -> tuple[Segment, ...]:
    """The segments with a moment that is not over. Nothing is read."""
    return tuple(
        one for one in segments if now is None or one.expires is None or one.expires[1] >= now
    )


def verify_due(storage: Storage, segment: Segment) -> None:
    """Check every byte of a segment of the index; raises `DamagedState` at the first fault."""
    where = storage.where(segment.name)
    with explained("read", where):
        size = storage.size(segment.name)
    if size != segment.bytes:
        raise damaged(where, f"it has {size} bytes instead of {segment.bytes}")
    ordered, rows = open_segment(storage, segment, whole=True).read()
    if len(ordered) != segment.rows or rows.num_rows != segment.rows:
        raise damaged(where, f"it has {rows.num_rows} rows instead of {segment.rows}")
    moments = _moments(ordered)
    if np.any(ordered[:-1] > ordered[1:]):
        raise damaged(where, "its rows are not in order")
    if segment.expires != (int(moments[0]), int(moments[-1])):
        raise damaged(where, "it has other moments than its manifest says")


def _same_types(tables: list[pa.Table]) -> pa.Table:
    """One table: `string` may have become `large_string` since."""
    schema = tables[0].schema
    return pa.concat_tables([t.select(schema.names).cast(schema) for t in tables]).combine_chunks()


def _each_once(table: pa.Table) -> pa.Table:
    if not table.num_rows:
        return table
    columns: list[pa.ChunkedArray | npt.NDArray[np.int64]] = list(table.columns)
    _, first = group_rows(columns)  # type: ignore[arg-type]
    return table if len(first) == table.num_rows else table.take(pa.array(first))
