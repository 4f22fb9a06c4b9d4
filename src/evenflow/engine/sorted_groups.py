"""Groups from rows that come sorted by key: many small ones at a time, or a long one in parts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from evenflow.operators.grouping_rows import group_rows
from evenflow.operators.groups import I64

CHUNK_ROWS = 1 << 18
CHUNK_BYTES = 64 << 20


@dataclass(frozen=True, eq=False)
class Groups:
    """Whole groups.

    Parameters:
        table: their rows, group by group, in the order in which they arrived.
        bounds: where each group begins and, at the next index, ends.
    """

    table: pa.Table
    bounds: I64

    def __len__(self) -> int:
        return len(self.bounds) - 1


@dataclass(frozen=True, eq=False)
class LongGroup:
    """A group that is larger than a chunk. It must be used up before the next one is asked for.

    Parameters:
        batches: its rows, none of the batches empty.
    """

    batches: Iterator[pa.RecordBatch]


class SortedGroups:
    """Cuts sorted rows into groups.

    Guarantee: the rows of a group are never apart, however many batches they came in: they are in one
    `Groups`, or in one `LongGroup`. At most a chunk and one group are in memory; where `long`, at most
    a chunk.

    Parameters:
        batches: rows that are sorted by key, or at least have equal keys together.
        keys: the key columns; none for one group of all rows.
        long: whether a group that is larger than a chunk may come in parts.
        rows: as many make a chunk.

    Example:
        >>> rows = pa.record_batch({"k": ["a", "a", "b"]})
        >>> [groups.bounds.tolist() for groups in SortedGroups(iter([rows]), ["k"])]
        [[0, 2, 3]]
    """

    def __init__(
        self,
        batches: Iterator[pa.RecordBatch],
        keys: list[str],
        long: bool = False,
        rows: int = CHUNK_ROWS,
    ) -> None:
        self._batches, self._keys, self._long, self._most = batches, keys, long, rows
        self._held: list[pa.RecordBatch] = []
        self._rows = self._bytes = 0
        self._starts: list[I64] = []  # of groups, counted from the first row that is held
        self.last: pa.RecordBatch | None = None  #: the last row that arrived

    def __iter__(self) -> Iterator[Groups | LongGroup]:
        for batch in self._batches:
            if not batch.num_rows:
                continue
            self._take(batch)
            while self._rows >= self._most or self._bytes >= CHUNK_BYTES:
                starts = np.concatenate(self._starts)
                if len(starts) > 1:
                    yield self._until(int(starts[-1]), starts)
                elif self._long:
                    yield LongGroup(self._rest())
                else:
                    break  # the group has to be whole
        if self._rows:
            yield self._until(self._rows, np.concatenate(self._starts))

    def _take(self, batch: pa.RecordBatch) -> None:
        self._starts.append(self._rows + self._starts_in(batch))
        self._held.append(batch)
        self._rows += batch.num_rows
        self._bytes += batch.nbytes

    def _starts_in(self, batch: pa.RecordBatch) -> I64:
        """The rows of a batch with which groups begin."""
        last, self.last = self.last, batch.slice(batch.num_rows - 1)
        if not self._keys:
            return np.zeros(int(last is None), np.int64)
        keys = pa.Table.from_batches([batch] if last is None else [last, batch])
        group, _ = group_rows([keys.column(name) for name in self._keys])
        starts = np.flatnonzero(np.diff(group)) + 1
        return np.concatenate([np.zeros(1, np.int64), starts]) if last is None else starts - 1

    def _until(self, end: int, starts: I64) -> Groups:
        """The groups before a row; what follows stays held."""
        table = pa.Table.from_batches(self._held)
        bounds = np.append(starts[starts < end], end)
        left = table.slice(end)
        self._held = left.to_batches()
        self._rows, self._bytes = left.num_rows, sum(one.nbytes for one in self._held)
        self._starts = [np.zeros(1, np.int64)] if self._rows else []
        return Groups(table.slice(0, end), bounds)

    def _rest(self) -> Iterator[pa.RecordBatch]:
        """The batches of the group that is held, to its end."""
        held, self._held = self._held, []
        self._rows = self._bytes = 0
        self._starts = []
        yield from held
        for batch in self._batches:
            if not batch.num_rows:
                continue
            starts = self._starts_in(batch)
            if not len(starts):
                yield batch
                continue
            first = int(starts[0])
            if first:
                yield batch.slice(0, first)
            self._starts = [starts - first]
            self._held = [batch.slice(first)]
            self._rows, self._bytes = self._held[0].num_rows, self._held[0].nbytes
            return


def rebatched(batches: Iterator[pa.RecordBatch], rows: int) -> Iterator[pa.RecordBatch]:
    """The same rows in batches of so many each, the last one of what is left.

    Example:
        >>> parts = [pa.record_batch({"a": [1, 2, 3]}), pa.record_batch({"a": [4]})]
        >>> [part.num_rows for part in rebatched(iter(parts), 2)]
        [2, 2]
    """
    held: list[pa.RecordBatch] = []
    n = 0
    for batch in batches:
        while batch.num_rows:
            part = batch.slice(0, rows - n)
            held.append(part)
            n += part.num_rows
            batch = batch.slice(part.num_rows)
            if n == rows:
                yield pa.concat_batches(held) if len(held) > 1 else held[0]
                held, n = [], 0
    if held:
        yield pa.concat_batches(held) if len(held) > 1 else held[0]
