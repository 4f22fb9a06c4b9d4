"""Interval joins: new rows meet each other and the rows that are kept, and are kept themselves.

State is a log: one stored row for every row that may still find a partner. A batch appends to it, reads
what there is of the keys that it touches, and changes nothing; rows vanish when the watermark has
passed the last moment at which a partner could come.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from evenflow.engine.kept_rows import ROWS_PER_BATCH, Kept, stored_partners
from evenflow.engine.key_parts import parts_of
from evenflow.engine.layout import FINGERPRINT, Keys, stored
from evenflow.engine.pieces import in_pieces, roomy
from evenflow.engine.splitting import ALL, LISTED
from evenflow.engine.task import Task, keys_of
from evenflow.engine.unmatched_rows import unmatched_rows
from evenflow.engine.work import Result, Work
from evenflow.model.split_keys import SplitKeys
from evenflow.operators.interval_join import IntervalJoin, joinable


@dataclass(frozen=True)
class JoinedRows(Work):
    """Pairs of rows of one key that are close in event time.

    The stored key has two more columns: the last moment at which the row is wanted, and a number that
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

    @property
    def side(self) -> str | None:  # type: ignore[override]
        return self.join.side

    @property
    def closes_without_rows(self) -> bool:  # type: ignore[override]
        return any(self.join.keeps)

    @property
    def split_sides(self) -> tuple[bool, bool]:  # type: ignore[override]
        # A copied row cannot know by itself that it has no partner in any part.
        left, right = self.join.keeps
        return (self.side is not None and not right, self.side is not None and not left)

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
        result = Result(counts={"pairs": 0})
        if kept is not None:
            result.keys = len(kept.keys)
            result.states = None if task.batch is None else self._as_stored(task, kept)
        result.output = self._output(task, kept, result.counts)
        return result

    def _output(self, task: Task, kept: Kept | None, counts: dict[str, Any]) -> Iterator[pa.Table]:
        if kept is not None:
            yield from self._pairs(task, kept, counts)
        if any(self.join.keeps):
            counts["unmatched"] = 0
            for rows in self._called(task, unmatched_rows(task, self.join, kept)):
                counts["unmatched"] += rows.num_rows
                yield from in_pieces(rows, task.job.output_schema())

    def _arrived(self, task: Task, batches: list[pa.RecordBatch]) -> Kept | None:
        """The rows that came in, without those that can have no partner; None if there are none."""
        if not batches:
            return None
        split = SplitKeys() if task.batch is None else task.batch.split
        table = pa.Table.from_batches(batches)
        rows, group, keys = keys_of(task.job, table, roomy(task.job.rows), bool(split))
        parts = parts_of(split, keys.fingerprints)
        task.tally.add(Keys(parts.keys, keys.columns), group)
        moments, known, is_right = self.join.moments(rows)
        # Of a row that went to several parts, the first one counts it.
        counted = (parts.number[group] == 0) | (is_right == parts.right[group])
        task.times.unknown += int((counted & ~known).sum())
        for source in range(self.sources):
            task.times.add(moments[known & (is_right == bool(source))], source)
        pairable = known & joinable(rows, task.job.key)
        outer = np.where(is_right, self.join.keeps[1], self.join.keeps[0])
        # In a stream, a row without an event time is never known to have no partner.
        kept = pairable | (outer if task.batch is None else outer & known)
        if task.watermarks.late is not None:
            late = moments <= task.watermarks.late
            task.times.late += int((kept & late & counted).sum())
            kept &= ~late
        if not kept.any():
            return None
        rows = rows.select(task.job.state_schema().names).filter(pa.array(kept))
        return Kept(rows, group[kept], moments[kept], keys, is_right[kept], parts, pairable[kept])

    def _pairs(self, task: Task, kept: Kept, counts: dict[str, Any]) -> Iterator[pa.Table]:
        """The pairs of new rows with each other and with those of the state, block by block."""
        schema = task.job.output_schema()
        rows, group = [kept.rows], [kept.group]
        if not kept.pairable.all():
            rows = [kept.rows.filter(pa.array(kept.pairable))]
            group = [kept.group[kept.pairable]]
        new = len(group[0])
        for number, old in stored_partners(task, self.join, kept):
            group.append(number)
            rows.append(old.cast(kept.rows.schema))
        together = np.concatenate(group)
        # A key costs the rows that are read for it, and the pairs that they make.
        costs = np.bincount(together, minlength=len(kept.keys)).astype(np.float64)
        costs += np.bincount(kept.group[~kept.pairable], minlength=len(kept.keys))
        fresh = np.arange(len(together)) < new
        found = self.join.pairs(
            kept.keys.columns, pa.concat_tables(rows).combine_chunks(), together, fresh, costs
        )
        for pairs in self._called(task, found):
            counts["pairs"] += pairs.num_rows
            yield from in_pieces(pairs, schema)
        if task.costs is not None:
            task.costs.add(kept.keys.fingerprints, kept.group, costs)
        if self.side is not None:
            counts["join_costs"] = _hottest(kept, costs)

    def _called(self, task: Task, tables: Iterator[pa.Table]) -> Iterator[pa.Table]:
        """Tables that are made while they are taken, with the user's `where`."""
        while True:
            try:
                with task.tally.updating():
                    table = next(tables, None)
            except Exception as error:
                if self.join.where is None or isinstance(error, MemoryError):
                    raise
                name = getattr(self.join.where, "__qualname__", type(self.join.where).__qualname__)
                raise task.guard.failed(f"where ({name})", None, error) from error
            if table is None:
                return
            yield table

    def _as_stored(self, task: Task, kept: Kept) -> pa.Table:
        """The rows as they are kept."""
        assert task.batch is not None
        n = len(kept.group)
        own = kept.keys.columns.take(pa.array(kept.group)).columns
        serial = (task.batch.number << ROWS_PER_BATCH) + np.arange(n)
        reach = self.join.kept_for
        expires = np.minimum(kept.moments, np.iinfo(np.int64).max - reach) + reach
        columns = [*own, pa.array(expires), pa.array(serial)]
        return pa.table(
            {
                FINGERPRINT: pa.array(kept.keys.fingerprints[kept.group].view(np.int64)),
                **dict(zip(task.job.key_schema().names, columns, strict=True)),
                **{stored(name): kept.rows.column(name) for name in kept.rows.column_names},
            }
        ).combine_chunks()


def _hottest(kept: Kept, costs: np.ndarray) -> list[list[Any]]:
    """What the keys that cost most have cost, and all together: fingerprint, new rows of the left and
    of the right side, cost."""
    n = len(kept.keys)
    right = np.bincount(kept.group, kept.is_right, n).astype(np.int64)
    left = np.bincount(kept.group, ~kept.is_right, n).astype(np.int64)
    top = np.argsort(-costs, kind="stable")[:LISTED]
    keys = [
        [str(kept.parts.keys[i]), int(left[i]), int(right[i]), float(costs[i])]
        for i in top.tolist()
    ]
    return [[str(ALL), int(left.sum()), int(right.sum()), float(costs.sum())], *keys]
