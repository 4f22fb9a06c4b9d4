"""Plain keys: one state per key, updated with whole tables of rows.

Windows and restored order build on it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from evenflow.engine.guarding import Call, Updated
from evenflow.engine.job import Job
from evenflow.engine.key_names import key_names
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
from evenflow.engine.sorted_groups import Groups, SortedGroups
from evenflow.engine.state_identity import identity_of, resumed_operator
from evenflow.engine.task import Task, chunks, keys_of
from evenflow.engine.work import Result, Work
from evenflow.operators import Operator, Rows, no_state
from evenflow.operators.grouping_rows import group_rows
from evenflow.operators.groups import I64
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

    @property
    def row_seconds(self) -> float | None:
        return self.operator.row_seconds

    @property
    def timed(self) -> bool:
        return self.operator.timed

    def describe(self) -> str:
        return type(self.operator).__name__

    def signature(self) -> dict[str, Any]:
        """Of what is around the operator, which may change its state."""
        return {}

    def identity(self, rows: pa.Schema) -> dict[str, Any]:
        return {**identity_of(self.operator, rows), **self.signature()}

    def resumed(
        self, stored: Mapping[str, Any], rows: pa.Schema, batch: int
    ) -> tuple[Work, dict[str, Any], tuple[str, ...]] | None:
        around = self.signature()
        if any(stored.get(name) != around.get(name) for name in ("window", "log", "time")):
            return None
        found = resumed_operator(self.operator, stored, rows, batch)
        if found is None:
            return None
        work = replace(self, operator=found.operator)
        return work, {**found.identity, **around}, found.changes

    def columns(self) -> Sequence[str] | None:
        return self.operator.columns()

    def fingerprinted(self) -> Sequence[str]:
        return self.operator.fingerprinted()

    def state_schema(self, rows: pa.Schema) -> pa.Schema:
        return self.operator.state_schema(rows)

    def output_schema(self, rows: pa.Schema) -> pa.Schema:
        return self.operator.output_schema(rows)

    # --- what other kinds of keyed states do otherwise -------------------------------------------

    @property
    def sorted_by_key(self) -> bool:  # type: ignore[override]
        """Whether the rows of a batch DataFrame should come to the task sorted by key."""
        return type(self) is KeyedStates and self.operator.whole_keys

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

    def look_up(self, task: Task, keys: Keys) -> tuple[pa.Table, np.ndarray] | None:
        """The committed states of keys, as `Task.look_up` has them."""
        return task.look_up(keys)

    def met(self, task: Task, table: pa.Table) -> pa.Table | None:
        """The committed states that these rows of state are merged with."""
        keys, _ = from_stored(task.job, table)
        found = self.look_up(task, keys)
        if found is None or not found[1].any():
            return None
        return as_stored(keys, found[0]).filter(pa.array(found[1]))

    def merging(self, job: Job, keys: Keys) -> tuple[I64, Keys]:
        """Which parts of states are merged: (number for each, stored keys of the merged ones)."""
        group, first = group_rows(keys.columns.columns)
        return group, Keys(keys.fingerprints[first], keys.columns.take(pa.array(first)))

    def updated(self, task: Task, rows: Rows, states: pa.Table) -> Updated:
        """The states after `rows`, and what each key has cost."""
        call = partial(self._in_pieces, task.job, self.operator.measured)
        return task.guard.update(self.operator.called("update"), call, rows, states)

    def own_columns(self, job: Job, keys: Keys) -> list[pa.Array]:
        """Output columns between the key's and the operator's."""
        return []

    def letter_columns(self, rows: pa.Schema) -> pa.Schema | None:
        state = self.operator.state_schema(rows)
        return pa.schema([("state", pa.struct([field.with_nullable(True) for field in state]))])

    def letter(self, job: Job, table: pa.Table, parts: bool) -> dict[str, pa.Table | pa.Array]:
        """The columns of letters for rows of state.

        Parameters:
            parts: whether their keys are those of parts of states.
        """
        return {"state": from_stored(job, table)[1]}

    def emitted(self, task: Task, table: pa.Table, method: str = "emit") -> pa.Table:
        """The output rows of these rows of state, as a method of the operator makes them."""
        job = task.job
        try:
            return self._emitted(job, table, method)
        except MemoryError:
            raise
        except Exception as error:
            made, _ = task.guard.groups(
                self.operator.called(method),
                lambda start, stop: self._emitted(job, table.slice(start, stop - start), method),
                table.num_rows,
                lambda i: self.letter(job, table.slice(i, 1), parts=False),
                lambda i: _name(job, table.slice(i, 1)),
                error,
            )
            return pa.concat_tables([job.output_schema().empty_table(), *made])

    def _emitted(self, job: Job, table: pa.Table, method: str) -> pa.Table:
        keys, states = from_stored(job, table)
        schema = job.output_schema()
        named = self.named(job, keys)
        output, kept = self._emit(named, states.cast(nullable(job.state_schema())), method)
        if kept is not None:
            some = pa.array(kept)
            named, keys = named.take(some), Keys(keys.fingerprints[kept], keys.columns.take(some))
        names = self.operator.output_schema(job.rows).names
        columns = [*self.own_columns(job, keys), *(output.column(name) for name in names)]
        return pa.table([*named.columns, *columns], names=schema.names).cast(schema)

    def named(self, job: Job, keys: Keys) -> pa.Table:
        """The user's key columns of stored keys, under their own names."""
        named = keys.columns.select(range(len(job.key))).rename_columns(list(job.key))
        return named.cast(pa.schema([job.rows.field(name).with_nullable(True) for name in job.key]))

    def _emit(self, keys: pa.Table, states: pa.Table, method: str) -> tuple[pa.Table, I64 | None]:
        if method == "expired":
            return self.operator.expired(keys, states)
        return self.operator.emitted(keys, states)

    def output(self, task: Task, states: pa.Table | None) -> Iterator[pa.Table]:
        """What is put out after the batch: one row for every key that it touched."""
        if states is not None and states.num_rows:
            for start, stop in pieces(states):
                yield self.emitted(task, piece_of(states, start, stop))

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
        old = self.met(task, table)
        if old is None:
            return table
        with task.tally.updating():
            both = pa.concat_tables([old.cast(table.schema), table])
            return self._merged(task, both, old.num_rows)

    def parts(self, task: Task, batches: Iterator[pa.RecordBatch]) -> pa.Table | None:
        parts, schema = [], nullable(task.job.state_schema())
        for chunk in chunks(batches):
            grouped = self.grouped_for_parts(task, chunk)
            if grouped is None:
                continue
            keys, rows = grouped
            with task.tally.updating():
                updated = task.guard.update(
                    self.operator.called("update"),
                    self._first_states,
                    rows,
                    no_state(schema, len(keys)),
                )
            if task.costs is not None:
                task.costs.add(keys.fingerprints, rows.group)
            parts.append(_touched(keys, updated))
        return self._merged(task, pa.concat_tables(parts), of_parts=True) if parts else None

    def _first_states(self, rows: Rows, states: pa.Table) -> tuple[pa.Table, F64]:
        """`update`, where no costs are wanted."""
        return self.operator.update(rows, states), np.zeros(rows.n_keys)

    def _received(self, task: Task, batches: Iterator[pa.RecordBatch]) -> pa.Table | None:
        """The parts of states that came in, merged."""
        parts = [part.select(task.job.stored_names()) for part in chunks(batches)]
        parts = [part.cast(roomy(part.schema)) for part in parts]
        task.tally.rows = sum(part.num_rows for part in parts)
        return self._merged(task, pa.concat_tables(parts), of_parts=True) if parts else None

    def _from_rows(self, task: Task, batches: Iterator[pa.RecordBatch]) -> pa.Table | None:
        """The new states of all keys that had rows: one task has all rows of a key."""
        job, table = task.job, None
        for chunk in self._chunks(task, batches):
            grouped = self.grouped(task, chunk)
            if grouped is None:
                continue
            keys, rows = grouped
            states = no_state(roomy(job.state_schema()), len(keys))
            found = self.look_up(task, keys)
            if found is not None:
                states = found[0].cast(states.schema)
            if table is not None:
                states = overlaid(job, keys, states, table)
            with task.tally.updating():
                updated = self.updated(task, rows, states)
            if task.costs is not None:
                task.costs.add(keys.fingerprints, rows.group, updated.costs)
            table = latest_of(job, table, _touched(keys, updated))
        return table

    def _chunks(self, task: Task, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.Table]:
        """The rows; those of a key at once where they come sorted by key."""
        if task.batch is not None or not self.sorted_by_key:
            yield from chunks(batches)
            return
        for groups in SortedGroups(batches, list(task.job.key)):
            assert isinstance(groups, Groups)
            yield groups.table

    def _in_pieces(
        self, job: Job, call: Call, rows: Rows, states: pa.Table
    ) -> tuple[pa.Table, F64]:
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
            new, cost = call(some, piece_of(states, start, stop).cast(schema))
            after.append(new.cast(roomy(new.schema)))
            costs.append(cost)
        return pa.concat_tables(after), np.concatenate(costs)

    def _merged(
        self, task: Task, parts: pa.Table, old: int = 0, of_parts: bool = False
    ) -> pa.Table:
        """One row per stored key, from a table in which a key may have several parts.

        Parameters:
            old: how many of them, the first ones, are committed states; they are not set aside.
            of_parts: whether the stored keys are still those of parts.
        """
        job = task.job
        keys, states = from_stored(job, parts)
        group, distinct = self.merging(job, keys)
        if len(distinct) == len(group):
            return parts
        try:
            return as_stored(distinct, self._merged_groups(job, states, group, len(distinct)))
        except MemoryError:
            raise
        except Exception as error:
            return self._mergeable(task, parts, distinct, group, old, of_parts, error)

    def _mergeable(
        self,
        task: Task,
        parts: pa.Table,
        keys: Keys,
        group: I64,
        old: int,
        of_parts: bool,
        error: Exception,
    ) -> pa.Table:
        """`_merged`, once it has failed, for the keys for which it does not."""
        order = np.argsort(group, kind="stable")
        table = parts.take(pa.array(order))
        _, states = from_stored(task.job, table)
        bounds = np.searchsorted(group[order], np.arange(len(keys) + 1))

        def some(start: int, stop: int) -> pa.Table:
            first, end = int(bounds[start]), int(bounds[stop])
            numbers = group[order[first:end]] - start
            chosen = piece_of(states, first, end)
            return self._merged_groups(task.job, chosen, numbers, stop - start)

        def letter(key: int) -> dict[str, pa.Table | pa.Array]:
            mine = np.arange(bounds[key], bounds[key + 1])
            new = table.take(pa.array(mine[order[mine] >= old]))
            return self.letter(task.job, new, of_parts)

        merged, kept = task.guard.groups(
            self.operator.called("merge"),
            some,
            len(keys),
            letter,
            lambda key: _name(task.job, table.slice(int(bounds[key]), 1)),
            error,
        )
        left = Keys(keys.fingerprints[kept], keys.columns.take(pa.array(kept)))
        schema = roomy(task.job.state_schema())
        return as_stored(left, pa.concat_tables([schema.empty_table(), *merged]))

    def _merged_groups(self, job: Job, states: pa.Table, group: I64, n: int) -> pa.Table:
        """`merge_groups`, in pieces where the states of these keys are large."""
        if len(list(pieces(states))) == 1:
            states = states.cast(nullable(job.state_schema()))
            merged = self.operator.merge_groups(states, group, n)
            return merged.cast(roomy(merged.schema))
        # Key by key, the parts of a key together: a piece may cut a key, whose own parts then make
        # it longer.
        order = np.argsort(group, kind="stable")
        states, group = states.take(pa.array(order)), group[order]
        parts, begun = [], 0
        for _, stop in pieces(states):
            end = int(np.searchsorted(group, group[stop - 1], "right"))
            if end <= begun:
                continue
            some = piece_of(states, begun, end).cast(nullable(job.state_schema()))
            numbers = group[begun:end] - group[begun]
            new = self.operator.merge_groups(some, numbers, int(numbers[-1]) + 1)
            parts.append(new.cast(roomy(new.schema)))
            begun = end
        return pa.concat_tables(parts)


def _touched(keys: Keys, updated: Updated) -> pa.Table:
    """Keys and states, without keys none of whose rows count: their states stay as they are."""
    table = as_stored(keys, updated.states)
    return table if updated.touched is None else table.take(pa.array(updated.touched))


def _name(job: Job, row: pa.Table) -> str:
    """The user's key of one row of state."""
    return key_names(row.select(job.key_schema().names[: len(job.key)]))[0]
