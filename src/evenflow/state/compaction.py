"""Compaction: segments of one owner put together, so that there are few of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial

import numpy as np
import pyarrow as pa

from evenflow.state.container import U64
from evenflow.state.evolution import evolved
from evenflow.state.expiry import Expiry
from evenflow.state.key_values import newest_of_each
from evenflow.state.segments import (
    VERSION,
    OwnerFunction,
    Segment,
    checked,
    fingerprints_in,
    key_columns,
    numbers_of,
    read_segment,
)
from evenflow.storage import Storage, together


def compact(
    storage: Storage,
    segments: Sequence[Segment],
    new_table: pa.Table,
    expiry: Expiry | None = None,
    owners: Mapping[int, OwnerFunction] | None = None,
) -> tuple[pa.Table, list[Segment]]:
    """The rows of the next segment of an owner, and the segments that it replaces.

    From the newest to the oldest, a segment is taken in while it has at most twice the rows gathered so
    far (the logarithmic method).

    Guarantee: every segment that stays has more than twice the rows of the next newer one, so n rows
    lie in at most log₂ n + 1 segments, and a row is written again O(log n) times. Of each key the
    newest version stays; nothing else is lost, but for what has expired or moved away.

    Parameters:
        storage: the checkpoint's.
        segments: those of one owner.
        new_table: the rows of this batch, as for `write_segment`.
        expiry: which rows of the segments to leave out.
        owners: epoch → function from fingerprints to owners, to leave out the rows that
            other owners have taken over.
    """
    consumed, rows = [], new_table.num_rows
    for segment in sorted(segments, key=lambda segment: -segment.highest_batch):
        if segment.rows > 2 * rows:
            break
        consumed.append(segment)
        rows += segment.rows

    def kept(segment: Segment) -> pa.Table:
        old = _kept(read_segment(storage, segment), segment, owners)
        return old if expiry is None else expiry.alive(old)

    tables = [checked(new_table)]
    tables += together(storage, [partial(kept, segment) for segment in consumed])
    tables = [evolved(table, tables[0].schema) for table in tables]
    return (newest(pa.concat_tables(tables)) if consumed else tables[0]), consumed


def _kept(
    table: pa.Table, segment: Segment, owners: Mapping[int, OwnerFunction] | None
) -> pa.Table:
    if owners is None:
        return table
    prints = fingerprints_in(table)
    owned = [owners[epoch](prints) == segment.owner for epoch in segment.epochs]
    kept = np.logical_or.reduce(owned)
    return table if kept.all() else table.filter(pa.array(kept))


def needed_epochs(
    prints: U64, owner: int, epochs: Iterable[int], now: int, owners: Mapping[int, OwnerFunction]
) -> tuple[int, ...]:
    """The epochs without which one of these rows could not be found in a segment of this owner.

    The one that holds now; and of the others, from the newest on, those in which the owner was given a
    row that none of the newer ones gives it. Otherwise a segment would name every epoch that there ever
    was, and with it the manifest.

    Parameters:
        prints: the fingerprints of its rows.
        owner: whose segment it is.
        epochs: of which it may be.
        now: the epoch that holds.
        owners: epoch → function from fingerprints to owners.

    Example:
        >>> import numpy as np
        >>> owners = {e: lambda prints, e=e: prints.astype(int) % 4 - e for e in range(3)}
        >>> needed_epochs(np.array([1, 2], np.uint64), 0, (0, 1, 2), 2, owners)
        (1, 2)
    """
    needed, left = [now], prints[owners[now](prints) != owner]
    for epoch in sorted(set(epochs) - {now}, reverse=True):
        if not len(left):
            break
        given = owners[epoch](left) == owner
        if given.any():
            needed.append(epoch)
            left = left[~given]
    return tuple(sorted(needed))


def newest(table: pa.Table) -> pa.Table:
    """Of each key the rows of the highest version, sorted by fingerprint: one row, where a key has no
    more than one per version.

    Example:
        >>> rows = {"__fingerprint": [7, 7], "__version": [4, 5], "k0": ["a", "a"], "hits": [1, 2]}
        >>> newest(pa.table(rows)).to_pylist()
        [{'__fingerprint': 7, '__version': 5, 'k0': 'a', 'hits': 2}]
    """
    table = table.combine_chunks()
    fingerprints, versions = fingerprints_in(table), numbers_of(table, VERSION)
    order = np.argsort(fingerprints, kind="stable")  # merges sorted runs in one pass each
    ordered = fingerprints[order]
    repeats = ordered[1:] == ordered[:-1]
    (shared,) = np.nonzero(np.append(repeats, False) | np.append(False, repeats))
    if not len(shared):
        return table.take(pa.array(order))
    among = order[shared]
    among = among[np.lexsort((-versions[among], fingerprints[among]))]
    order[shared] = among
    keys = table.select(key_columns(table.column_names)).take(pa.array(among))
    stays = np.ones(len(order), bool)
    stays[shared] = newest_of_each(fingerprints[among], versions[among], keys)
    return table.take(pa.array(order[stays]))
