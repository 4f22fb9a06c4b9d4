"""Plain keys: one state per key, updated with whole tables of rows.

Windows and restored order build on it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from evenflow.engine.job import Job
from evenflow.engine.layout import (
    Keys,
    as_stored,
    count_keys,
    from_stored,
    latest_of,
    nullable,
    overlaid,
)
from evenflow.engine.pieces import piece_of, pieces, roomy
from evenflow.engine.task import Task, chunks, keys_of
from evenflow.engine.work import Result, Work
from evenflow.operators import Operator, Rows, no_state
from evenflow.operators.grouping_rows import group_rows
from evenflow.operators.protocol import F64

Grouped = tuple[Keys, Rows] | None  #: rows by stored key; None if no row is left


@dataclass(frozen=True)
class KeyedStates(Work):
    """An operator on the rows of each key.

    Parameters:
        operator: what happens to the rows of a key.
    """

    operator: Operator

    @property
    def mergeable(self) -> bool:  # type: ignore[override]
        return self.operator.mergeable

    def describe(self) -> str:
        return type(self.operator).__name__

    def signature(self) -> dict[str, Any]:
        return {"operator": self.operator.signature()}

    def columns(self) -> Sequence[str] | None:
        return self.operator.columns()

    def state_schema(self, rows: pa.Schema) -> pa.Schema:
        return self.operator.state_schema(rows)

    def output_schema(self, rows: pa.Schema) -> pa.Schema:
        return self.operator.output_schema(rows)

    # --- what other kinds of keyed states do otherwise -------------------------------------------

    @property
    def by_parts(self) -> bool:
        """Whether rows become parts of states first, also where keys are not split."""
        return False

    def grouped(self, task: Task, chunk: pa.Table) -> Grouped:
        """The rows of a chunk by stored key, as `update` takes them."""
        rows, group, keys = keys_of(task.job, chunk)
        task.tally.add(keys, group)
        named = keys.columns.rename_columns(task.job.key_schema().names)
        return Keys(keys.fingerprints, named), Rows(rows, group, keys.columns)

    def grouped_for_parts(self, task: Task, chunk: pa.Table) -> Grouped:
        """The rows of a chunk by the key of a part of a state."""
        return self.grouped(task, chunk)

    def spread(self, task: Task, parts: pa.Table) -> pa.Table:
        """Parts of states by the keys that are stored."""
        return parts

    def update(self, rows: Rows, states: pa.Table) -> tuple[pa.Table, F64]:
        """The states after `rows`, and what each key has cost."""
        return self.operator.measured(rows, states)

    def own_columns(self, job: Job, keys: Keys) -> list[pa.Array]:
        """Output columns between the key's and the operator's."""
        return []

    def emitted(self, job: Job, table: pa.Table) -> pa.Table:
        """The output rows of these rows of state."""
        keys, states = from_stored(job, table)
        schema = job.output_schema()
        named = keys.columns.select(range(len(job.key))).rename_columns(list(job.key))
        named = named.cast(pa.schema([schema.field(name) for name in job.key]))
        output = self._emit(named, states.cast(nullable(job.state_schema())))
        names = self.operator.output_schema(job.rows).names
        columns = [*self.own_columns(job, keys), *(output.column(name) for name in names)]
        return pa.table([*named.columns, *columns], names=schema.names).cast(schema)

    def _emit(self, keys: pa.Table, states: pa.Table) -> pa.Table:
        return self.operator.emit(keys, states)

    def output(self, task: Task, states: pa.Table | None) -> Iterator[pa.Table]:
        """What is put out after the batch: one row for every key that it touched."""
        if states is not None and states.num_rows:
            for start, stop in pieces(states):
                yield self.emitted(task.job, piece_of(states, start, stop))

    # --- the way of the rows ---------------------------------------------------------------------

    def run(self, task: Task, batches: Iterator[pa.RecordBatch]) -> Result:
        states = self._new_states(task, batches)
        return Result(states, self.output(task, states), count_keys(task.job, states))

    def _new_states(self, task: Task, batches: Iterator[pa.RecordBatch]) -> pa.Table | None:
        if not task.split and not self.by_parts:
            return self._from_rows(task, batches)
        parts = self._received(task, batches) if task.split else self.parts(task, batches)
        if parts is None:
            return None
        with task.tally.updating():
            table = self.spread(task, parts)
        keys, _ = from_stored(task.job, table)
        found = task.look_up(keys)
        if found is None or not found[1].any():
            return table
        old = as_stored(keys, found[0]).filter(pa.array(found[1]))
        with task.tally.updating():
            return self._merged(task.job, pa.concat_tables([old.cast(table.schema), table]))

    def parts(self, task: Task, batches: Iterator[pa.RecordBatch]) -> pa.Table | None:
        parts, schema = [], nullable(task.job.state_schema())
        for chunk in chunks(batches):
            grouped = self.grouped_for_parts(task, chunk)
            if grouped is None:
                continue
            keys, rows = grouped
            with task.tally.updating():
                states = self.operator.update(rows, no_state(schema, len(keys)))
            if task.costs is not None:
                task.costs.add(keys.fingerprints, rows.group)
            parts.append(as_stored(keys, states))
        return self._merged(task.job, pa.concat_tables(parts)) if parts else None

    def _received(self, task: Task, batches: Iterator[pa.RecordBatch]) -> pa.Table | None:
        """The parts of states that came in, merged."""
        parts = [part.select(task.job.stored_names()) for part in chunks(batches)]
        parts = [part.cast(roomy(part.schema)) for part in parts]
        task.tally.rows = sum(part.num_rows for part in parts)
        return self._merged(task.job, pa.concat_tables(parts)) if parts else None

    def _from_rows(self, task: Task, batches: Iterator[pa.RecordBatch]) -> pa.Table | None:
        """The new states of all keys that had rows: one task has all rows of a key."""
        job, table = task.job, None
        for chunk in chunks(batches):
            grouped = self.grouped(task, chunk)
            if grouped is None:
                continue
            keys, rows = grouped
            states = no_state(roomy(job.state_schema()), len(keys))
            found = task.look_up(keys)
            if found is not None:
                states = found[0].cast(states.schema)
            if table is not None:
                states = overlaid(job, keys, states, table)
            with task.tally.updating():
                states, costs = self._updated(job, rows, states)
            if task.costs is not None:
                task.costs.add(keys.fingerprints, rows.group, costs)
            table = latest_of(job, table, as_stored(keys, states))
        return table

    def _updated(self, job: Job, rows: Rows, states: pa.Table) -> tuple[pa.Table, F64]:
        """`update`, in pieces where the states of these keys are large."""
        schema = nullable(job.state_schema())
        after: list[pa.Table] = []
        costs: list[F64] = []
        for start, stop in pieces(states):
            some = rows
            if stop - start < len(states):
                mine = np.flatnonzero((rows.group >= start) & (rows.group < stop))
                table = rows.table.take(pa.array(mine))
                some = Rows(table, rows.group[mine] - start, rows.keys.slice(start, stop - start))
            new, cost = self.update(some, piece_of(states, start, stop).cast(schema))
            after.append(new.cast(roomy(new.schema)))
            costs.append(cost)
        return pa.concat_tables(after), np.concatenate(costs)

    def _merged(self, job: Job, parts: pa.Table) -> pa.Table:
        """One row per stored key, from tables in which a key may have several parts."""
        keys, states = from_stored(job, parts)
        group, first = group_rows(keys.columns.columns)
        if len(first) == len(group):
            return parts
        distinct = Keys(keys.fingerprints[first], keys.columns.take(pa.array(first)))
        if len(list(pieces(states))) == 1:
            states = states.cast(nullable(job.state_schema()))
            return as_stored(distinct, self.operator.merge_groups(states, group, len(first)))
        # Key by key, the parts of a key together: a piece may cut a key, whose own parts then make
        # it longer.
        order = np.argsort(group, kind="stable")
        states, group = states.take(pa.array(order)), group[order]
        merged, begun = [], 0
        for _, stop in pieces(states):
            end = int(np.searchsorted(group, group[stop - 1], "right"))
            if end <= begun:
                continue
            some = piece_of(states, begun, end).cast(nullable(job.state_schema()))
            numbers = group[begun:end] - group[begun]
            new = self.operator.merge_groups(some, numbers, int(numbers[-1]) + 1)
            merged.append(new.cast(roomy(new.schema)))
            begun = end
        return as_stored(distinct, pa.concat_tables(merged))
