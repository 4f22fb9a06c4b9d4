"""State that expires: rows that a column gives a last moment, and segments that hold none after it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from evenflow.state.segments import (
    FINGERPRINT,
    OwnerFunction,
    Segment,
    numbers_of,
    open_segment,
)
from evenflow.storage import Storage, together


class Expiry(NamedTuple):
    """Which rows have expired: those whose `column` is at most `watermark`.

    Example:
        >>> rows = pa.table({"k1": [5, 7]})
        >>> Expiry("k1", 5).alive(rows).to_pylist(), Expiry("k1", None).alive(rows).num_rows
        ([{'k1': 7}], 2)
    """

    column: str
    watermark: int | None  #: None: nothing has

    def alive(self, rows: pa.Table) -> pa.Table:
        """The rows that have not expired."""
        if self.watermark is None:
            return rows
        keep = numbers_of(rows, self.column) > self.watermark
        return rows if keep.all() else rows.filter(pa.array(keep))


def unexpired(segments: Iterable[Segment], watermark: int | None) -> tuple[Segment, ...]:
    """The segments that have a row left. Nothing is read."""
    return tuple(
        segment
        for segment in segments
        if watermark is None or segment.expires is None or segment.expires[1] > watermark
    )


def rows_expiring(
    storage: Storage,
    segments: Sequence[Segment],
    column: str,
    between: tuple[int | None, int],
    settled: Callable[[Segment], bool],
    owner_of: OwnerFunction,
    owner: int,
) -> list[pa.Table]:
    """The rows of an owner that expire after the first moment and until the second.

    Guarantee: only segments are read whose rows' expiry overlaps; of one that may hold other owners'
    rows, only the blocks with rows of this one. Rows of one key may come in several versions.

    Parameters:
        storage: the checkpoint's.
        segments: those of a manifest.
        column: the key column that says when a row expires.
        between: the moments; None for the beginning of time.
        settled: whether what counts in a segment is its own owner's.
        owner_of: who owns a key now.
        owner: whose rows are wanted.
    """
    after, until = between

    def overlaps(segment: Segment) -> bool:
        if segment.expires is None or segment.expires[0] > until:
            return False
        if after is not None and segment.expires[1] <= after:
            return False
        return segment.owner == owner or not settled(segment)

    def expiring_in(segment: Segment) -> pa.Table:
        container = open_segment(storage, segment)
        prints = container.fingerprints()
        (own,) = np.nonzero(owner_of(prints) == owner)
        prints, rows = prints[own], container.take(own)
        ends = numbers_of(rows, column)
        expiring = ends <= until
        if after is not None:
            expiring &= ends > after
        rows = rows.add_column(0, FINGERPRINT, pa.array(prints.view(np.int64)))
        return rows.filter(pa.array(expiring))

    return together(storage, [partial(expiring_in, s) for s in segments if overlaps(s)])
