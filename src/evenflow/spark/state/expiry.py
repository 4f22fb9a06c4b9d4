"""State that expires: rows that a column gives a last moment, and segments that hold none after it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from evenflow.spark.state.container import I64, U64
from evenflow.spark.state.key_values import equal_keys
from evenflow.spark.state.segments import (
    FINGERPRINT,
    Place,
    Segment,
    key_columns,
    numbers_of,
    open_segment,
)


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
    directory: str | Path,
    segments: Sequence[Segment],
    column: str,
    between: tuple[int | None, int],
    mine: Callable[[Segment], Place | None],
    owner: int,
) -> list[pa.Table]:
    """The rows of an owner that expire after the first moment and until the second.

    Guarantee: only segments are read whose rows' expiry overlaps; of one that may hold other owners'
    rows, only the blocks with rows of this one. Rows of one key may come in several versions.

    Parameters:
        directory: where segments lie.
        segments: those of a manifest.
        column: the key column that says when a row expires.
        between: the moments; None for the beginning of time.
        mine: a segment → who owns its keys now, None if its own owner does.
        owner: whose rows are wanted.
    """
    after, until = between
    found = []
    for segment in segments:
        if segment.expires is None or segment.expires[0] > until:
            continue
        if after is not None and segment.expires[1] <= after:
            continue
        place = mine(segment)
        if place is None and segment.owner != owner:
            continue
        with open_segment(directory, segment) as container:
            if place is None:
                prints, rows = container.read()
            else:
                prints = container.fingerprints()
                (own,) = np.nonzero(place(prints) == owner)
                prints, rows = prints[own], container.take(own)
        ends = numbers_of(rows, column)
        expiring = ends <= until
        if after is not None:
            expiring &= ends > after
        rows = rows.add_column(0, FINGERPRINT, pa.array(prints.view(np.int64)))
        found.append(rows.filter(pa.array(expiring)))
    return found


def rows_of_keys(
    directory: str | Path,
    segments: Sequence[Segment],
    placements: Mapping[int, Place],
    fingerprints: U64,
    keys: pa.Table,
) -> list[tuple[I64, pa.Table]]:
    """All that is stored of some keys, where a key has many rows: (numbers of the keys, rows).

    Guarantee: the cost grows with the rows of the keys that are asked for, not with the rows stored.

    Parameters:
        directory: where segments lie.
        segments: those of one manifest.
        placements: epoch → function from fingerprints to owners.
        fingerprints: of the keys.
        keys: the key columns, fewer than the stored rows have: the first of theirs.
    """
    found = []
    owners = {
        epoch: placements[epoch](fingerprints)
        for epoch in {epoch for segment in segments for epoch in segment.epochs}
    }
    for segment in segments:
        asked = np.logical_or.reduce([owners[epoch] == segment.owner for epoch in segment.epochs])
        (wanted,) = np.nonzero(asked)
        if not len(wanted):
            continue
        with open_segment(directory, segment) as container:
            hits = container.find(fingerprints[wanted])
            if not len(hits.row):
                continue
            number, rows = wanted[hits.query], container.take(hits.row)
        stored = key_columns(rows.column_names)[: keys.num_columns]
        same = equal_keys(rows.select(stored), keys.take(pa.array(number)))
        found.append((number[same], rows.filter(pa.array(same))))
    return found
