"""Deduplication: the first row of every key is put out, and that it was is kept.

Where keys are split, each task hands on one row per key, and the key's owner takes one of those. What
is kept of a key is a single number: until when rows of it are duplicates.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from evenflow.engine.job import Job
from evenflow.engine.layout import Keys, as_stored, count_keys, stored
from evenflow.engine.pieces import in_pieces, roomy
from evenflow.engine.task import Task, chunks, keys_of
from evenflow.engine.work import Result, Work
from evenflow.operators.deduplication import Deduplication
from evenflow.operators.grouping_rows import group_rows
from evenflow.operators.groups import I64
from evenflow.operators.windows import times_of

_NEVER = np.iinfo(np.int64).max
_UNTIL = "__evenflow_until"  # beside the user's own columns, in parts of states


@dataclass(frozen=True)
class DistinctRows(Work):
    """One row of each key: the first.

    Guarantee: the rows that Spark's `dropDuplicates` and `dropDuplicatesWithinWatermark` take in, drop
    and, where the order in which rows arrive is the same, put out. State is gone with Spark's.

    Parameters:
        rule: what counts as a duplicate, and for how long.
    """

    rule: Deduplication

    mergeable = True

    @property
    def expires(self) -> bool:  # type: ignore[override]
        return self.rule.column is not None

    @property
    def closes_without_rows(self) -> bool:  # type: ignore[override]
        return self.expires

    @property
    def delay(self) -> int:  # type: ignore[override]
        return self.rule.delay

    @property
    def order(self) -> tuple[str, ...] | None:  # type: ignore[override]
        return self.rule.output

    def describe(self) -> str:
        return "deduplication"

    def signature(self) -> dict[str, Any]:
        return {"deduplication": self.rule.signature()}

    def columns(self) -> Sequence[str] | None:
        return self.rule.columns()

    def state_schema(self, rows: pa.Schema) -> pa.Schema:
        return pa.schema([(_UNTIL, pa.int64())])

    def part_schema(self, rows: pa.Schema) -> pa.Schema:
        return pa.schema([(_UNTIL, pa.int64()), *self._payload(rows)])

    def output_schema(self, rows: pa.Schema) -> pa.Schema:
        self.rule.check(rows)
        return self._payload(rows)

    def _payload(self, rows: pa.Schema) -> pa.Schema:
        """The columns of a row besides the key."""
        names = [name for name in self.rule.output if name not in self.rule.keys]
        return pa.schema([rows.field(name) for name in names])

    def letter_columns(self, rows: pa.Schema) -> pa.Schema | None:
        return pa.schema([])  # nothing of the user's is called, so none are set aside

    def run(self, task: Task, batches: Iterator[pa.RecordBatch]) -> Result:
        first = self._received(task, batches) if task.split else self.parts(task, batches)
        if first is None:
            return Result()
        new = self._new(task, first)
        states = None if task.batch is None else new.select(task.job.stored_names())
        keys = count_keys(task.job, first)
        return Result(states, self._output(task.job, new), keys)

    def parts(self, task: Task, batches: Iterator[pa.RecordBatch]) -> pa.Table | None:
        """The first row of each key, and until when others are its duplicates."""
        table = None
        for chunk in chunks(batches):
            rows, group, keys = keys_of(task.job, chunk)
            task.tally.add(keys, group)
            until, counted = self._until(task, rows)
            if task.costs is not None:
                task.costs.add(keys.fingerprints, group)
            with task.tally.updating():
                kept = np.flatnonzero(counted)
                if not len(kept):
                    continue
                own, first = np.unique(group[kept], return_index=True)
                chosen = rows.take(pa.array(kept[first]))
                made = {_UNTIL: pa.array(until[kept[first]])}
                payload = self._payload(task.job.rows).names
                made |= {name: chosen.column(name) for name in payload}
                columns = keys.columns.take(pa.array(own))
                columns = columns.rename_columns(task.job.key_schema().names)
                part = as_stored(Keys(keys.fingerprints[own], columns), pa.table(made))
                table = (
                    part if table is None else self._firsts(task, pa.concat_tables([table, part]))
                )
        return table

    def _received(self, task: Task, batches: Iterator[pa.RecordBatch]) -> pa.Table | None:
        names = task.job.parts_schema().names[1:]
        parts = [part.select(names) for part in chunks(batches)]
        parts = [part.cast(roomy(part.schema)) for part in parts]
        task.tally.rows = sum(part.num_rows for part in parts)
        return self._firsts(task, pa.concat_tables(parts)) if parts else None

    def _firsts(self, task: Task, parts: pa.Table) -> pa.Table:
        """The first of the rows of each key."""
        _, first = group_rows([parts.column(name) for name in task.job.key_schema().names])
        if len(first) == parts.num_rows:
            return parts
        return parts.take(pa.array(first))

    def _until(self, task: Task, rows: pa.Table) -> tuple[I64, np.ndarray]:
        """Until when rows of its key are duplicates of each row, and which rows are not late."""
        never = np.full(rows.num_rows, _NEVER)
        column = self.rule.column
        if column is None:
            return never, np.ones(rows.num_rows, np.bool_)
        moments, known = times_of(rows.column(column))
        times, late = task.times, task.watermarks.late
        times.unknown += int(len(known) - known.sum())
        times.add(moments[known])
        counted = np.ones(rows.num_rows, np.bool_)
        if late is not None:
            counted = ~known | (moments > late)
            times.late += int((~counted).sum())
        if self.rule.within:
            # A row without a time is of 1970 to Spark, and so is what it remembers of it.
            last = _NEVER - self.rule.delay
            return np.minimum(np.where(known, moments, 0), last) + self.rule.delay, counted
        if column in self.rule.keys:
            return np.where(known, moments, _NEVER), counted
        return never, counted

    def _new(self, task: Task, first: pa.Table) -> pa.Table:
        """The rows whose keys are not known yet."""
        keys = first.select(task.job.key_schema().names)
        prints = first.column(0).to_numpy().view(np.uint64)
        found = task.look_up(Keys(prints, keys))
        if found is None:
            return first
        states, known = found
        if task.watermarks.late is not None:
            # What expired before this batch may not have been cleaned up yet.
            until = states.column(_UNTIL).fill_null(0).to_numpy()
            known = known & (until > task.watermarks.late)
        return first.filter(pa.array(~known))

    def _output(self, job: Job, new: pa.Table) -> Iterator[pa.Table]:
        schema = job.output_schema()
        names = dict(zip(job.key, job.key_schema().names, strict=True))
        table = new.select([names.get(name, stored(name)) for name in schema.names])
        yield from in_pieces(table.rename_columns(schema.names), schema)
