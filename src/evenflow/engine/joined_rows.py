"""Interval joins: new rows meet each other and the rows that are kept, and are kept themselves.

State is a log: one stored row for every row that may still find a partner. A batch appends to it, reads
what there is of the keys that it touches, and changes nothing; rows vanish when the watermark has
passed the last moment at which a partner could come.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from evenflow.engine.layout import FINGERPRINT, Keys, stored
from evenflow.engine.pieces import in_pieces, roomy
from evenflow.engine.task import Task, keys_of
from evenflow.engine.work import Result, Work
from evenflow.operators.interval_join import IntervalJoin, joinable
from evenflow.state.expiry import Expiry
from evenflow.state.whole_keys import rows_of_keys

_ROWS_PER_BATCH = 32  # bits for the number of a row among those of its owner in one batch


class Kept(NamedTuple):
    """Rows that take part in the join."""

    rows: pa.Table  #: the state columns
    group: np.ndarray  #: row → number of its key
    moments: np.ndarray
    keys: Keys  #: the distinct keys, in the user's columns


@dataclass(frozen=True)
class JoinedRows(Work):
    """Pairs of rows of one key that are close in event time.

    The stored key has two more columns: the last moment at which a partner may come, and a number that
    tells equal rows apart.

    Parameters:
        join: which rows are a pair, and what becomes of it.
    """

    join: IntervalJoin

    mergeable = False
    expires = True

    @property
    def sources(self) -> int:  # type: ignore[override]
        return self.join.sources

    @property
    def delay(self) -> int:  # type: ignore[override]
        return self.join.delay

    def describe(self) -> str:
        return "an interval join"

    def signature(self) -> dict[str, Any]:
        return {"join": self.join.signature()}

    def columns(self) -> Sequence[str] | None:
        return self.join.columns()

    def key_types(self) -> list[pa.DataType]:
        return [pa.int64(), pa.int64()]

    def state_schema(self, rows: pa.Schema) -> pa.Schema:
        return self.join.state_schema(rows)

    def output_schema(self, rows: pa.Schema) -> pa.Schema:
        return self.join.output_schema(rows)

    def run(self, task: Task, batches: Iterator[pa.RecordBatch]) -> Result:
        kept = self._arrived(task, [batch for batch in batches if batch.num_rows])
        if kept is None:
            return Result(counts={"pairs": 0})
        states = None if task.batch is None else self._as_stored(task, kept)
        result = Result(states, keys=len(kept.keys), counts={"pairs": 0})
        result.output = self._pairs(task, kept, result.counts)
        return result

    def _arrived(self, task: Task, batches: list[pa.RecordBatch]) -> Kept | None:
        """The rows that came in, without those that can have no partner; None if there are none."""
        if not batches:
            return None
        rows, group, keys = keys_of(task.job, pa.Table.from_batches(batches), roomy(task.job.rows))
        task.tally.add(keys, group)
        moments, known, is_right = self.join.moments(rows)
        task.times.unknown += int(len(known) - known.sum())
        for source in range(self.sources):
            task.times.add(moments[known & (is_right == bool(source))], source)
        kept = known & joinable(rows, task.job.key)
        if task.watermarks.late is not None:
            late = moments <= task.watermarks.late
            task.times.late += int((kept & late).sum())
            kept &= ~late
        if not kept.any():
            return None
        rows = rows.select(task.job.state_schema().names).filter(pa.array(kept))
        return Kept(rows, group[kept], moments[kept], keys)

    def _pairs(self, task: Task, kept: Kept, counts: dict[str, int]) -> Iterator[pa.Table]:
        """The pairs of new rows with each other and with those of the state, block by block."""
        schema = task.job.output_schema()
        rows, group = [kept.rows], [kept.group]
        old = self._old(task, kept.keys)
        if old is not None:
            group.append(old[0])
            rows.append(old[1].cast(kept.rows.schema))
        together = np.concatenate(group)
        # A key costs the rows that are read for it, and the pairs that they make.
        costs = np.bincount(together, minlength=len(kept.keys)).astype(np.float64)
        fresh = np.arange(len(together)) < len(kept.group)
        found = self.join.pairs(
            kept.keys.columns, pa.concat_tables(rows).combine_chunks(), together, fresh, costs
        )
        while True:
            with task.tally.updating():
                pairs = next(found, None)
            if pairs is None:
                break
            counts["pairs"] += pairs.num_rows
            yield from in_pieces(pairs, schema)
        if task.costs is not None:
            task.costs.add(kept.keys.fingerprints, kept.group, costs)

    def _old(self, task: Task, keys: Keys) -> tuple[np.ndarray, pa.Table] | None:
        """The stored rows of these keys that may still find a partner, with their keys' numbers."""
        batch, expires = task.batch, task.job.expires
        if batch is None or not batch.segments:
            return None
        assert expires is not None
        found = rows_of_keys(
            batch.storage, batch.segments, batch.owners, keys.fingerprints, keys.columns
        )
        if found is None:
            return None
        number, rows = found
        numbered = rows.append_column("number", pa.array(number)).combine_chunks()
        alive = Expiry(expires, task.watermarks.late).alive(numbered)
        names = task.job.state_schema().names
        taken = alive.select([stored(name) for name in names]).rename_columns(names)
        return alive.column("number").to_numpy(), taken

    def _as_stored(self, task: Task, kept: Kept) -> pa.Table:
        """The rows as they are kept."""
        assert task.batch is not None
        n = len(kept.group)
        own = kept.keys.columns.take(pa.array(kept.group)).columns
        serial = (task.batch.number << _ROWS_PER_BATCH) + np.arange(n)
        within = self.join.within
        expires = np.minimum(kept.moments, np.iinfo(np.int64).max - within) + within
        columns = [*own, pa.array(expires), pa.array(serial)]
        return pa.table(
            {
                FINGERPRINT: pa.array(kept.keys.fingerprints[kept.group].view(np.int64)),
                **dict(zip(task.job.key_schema().names, columns, strict=True)),
                **{stored(name): kept.rows.column(name) for name in kept.rows.column_names},
            }
        ).combine_chunks()
