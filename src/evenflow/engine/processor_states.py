"""Stateful processors: a user's code that is called key by key, with state variables and timers.

All rows of a key are handed over in one call. After the rows of all keys, timers that are due fire, of
keys with and without rows. What is due is found by an index of moments (`state.due_keys`), so a batch
costs what it touches, however many timers wait.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from evenflow.engine.batch import Batch
from evenflow.engine.due_keys import find_due_keys, new_looks
from evenflow.engine.late_rows import in_time, only_rows
from evenflow.engine.layout import Keys, as_stored
from evenflow.engine.pieces import roomy
from evenflow.engine.processor_run import ProcessorRun, RowsByKey
from evenflow.engine.processors import (
    EVENT_TIME,
    NONE,
    PROCESSING_TIME,
    UNKNOWN,
    Processor,
    Times,
    due_moments,
    milliseconds,
    require_moment,
)
from evenflow.engine.task import Task, keys_of
from evenflow.engine.work import Result, Work
from evenflow.model import InputError
from evenflow.operators import no_state
from evenflow.operators.grouping_rows import group_rows
from evenflow.operators.groups import I64
from evenflow.operators.state_variables import LIST, LOOK, MAP, VALUE, empty_rows, state_columns
from evenflow.state.evolution import obstacle, schema_of, schema_text

_DROPPED = "dropped"  # of an identity: columns of variables that were deleted, and since when


@dataclass(frozen=True)
class ProcessorStates(Work):
    """A stateful processor on the rows of each key.

    Guarantee: `input` is called once per key and batch, with all rows of the key; timers that are due
    fire once, in the batch in which their time has come. A batch that is run again sees the same
    times, and gives the same states and output if the processor depends on nothing else.

    Parameters:
        processor: the user's code.
        time_mode: "none", "processingtime" or "eventtime": what timers go by.
        event_time: the column of the event time; None if there is no watermark.
        late: how late rows may come, in microseconds of event time.
        initial: the column, a struct, that only rows of the initial state have; None without one.
        began: when a batch DataFrame was made, in milliseconds.
    """

    processor: Processor
    time_mode: str = NONE
    event_time: str | None = None
    late: int = 0
    initial: str | None = None
    began: int = UNKNOWN

    mergeable = False
    puts_out_keys = False
    has_due_keys = True
    cannot_set_aside = "its state may have changed before it fails"

    @property
    def timed(self) -> bool:
        return True

    @property
    def delay(self) -> int:  # type: ignore[override]
        return self.late

    @property
    def added(self) -> tuple[str, ...]:  # type: ignore[override]
        return () if self.initial is None else (self.initial,)

    @property
    def closes_without_rows(self) -> bool:  # type: ignore[override]
        return self.time_mode == EVENT_TIME

    @property
    def in_processing_time(self) -> bool:  # type: ignore[override]
        return self.time_mode == PROCESSING_TIME

    @property
    def tracks_event_time(self) -> bool:
        return self.event_time is not None

    def describe(self) -> str:
        return self.processor.name

    def signature(self) -> dict[str, Any]:
        schema = schema_text(state_columns(self.processor.variables()))
        return {"processor": self.processor.signature(), "time": self.time_mode, "schema": schema}

    def carries_over(self, stored: Mapping[str, Any]) -> bool:
        now = state_columns(self.processor.variables())
        text = stored.get("schema")
        if not isinstance(text, str) or any(
            stored.get(name) != value
            for name, value in self.signature().items()
            if name != "schema"
        ):
            return False
        gone = self.processor.deleted
        columns = [f"{kind}_{name}" for kind in (VALUE, LIST, MAP) for name in gone]
        if wrong := obstacle(schema_of(text), now, columns):
            raise InputError(
                f"the state of {self.describe()} in this checkpoint does not fit the one of today: "
                f"{wrong}. Fields and variables may be added and numbers become wider; to drop a "
                "variable, call handle.deleteIfExists(name) in init; for all else start with a new "
                "checkpoint"
            )
        return True

    def resumed(
        self, stored: Mapping[str, Any], rows: pa.Schema, batch: int
    ) -> tuple[Work, dict[str, Any], tuple[str, ...]] | None:
        if not self.carries_over(stored):
            return None
        now = state_columns(self.processor.variables())
        dropped = {}
        if batch:  # else nothing is kept yet
            dropped = {
                name: one
                for name, one in stored.get(_DROPPED, {}).items()
                if not self._comes_back(name, one, now, batch)
            }
            for field in schema_of(str(stored["schema"])):
                if field.name not in now.names:
                    schema = schema_text(pa.schema([field]))
                    dropped[field.name] = {"until": batch, "schema": schema}
        identity = self.identity(rows)
        return self, {**identity, _DROPPED: dropped} if dropped else identity, ()

    def _comes_back(
        self, column: str, dropped: Mapping[str, Any], now: pa.Schema, batch: int
    ) -> bool:
        """Whether a column that was dropped is there again; refused, once a batch went on without it:
        keys that were not touched since are stored with what they had."""
        if column not in now.names:
            return False
        name = column.partition("_")[2]
        if dropped["until"] != batch:
            raise InputError(
                f"the state {name!r} of {self.describe()} was deleted with batch {dropped['until']}, "
                "and what was kept in it may still be stored; give the new one another name"
            )
        if wrong := obstacle(schema_of(dropped["schema"]), now):
            raise InputError(
                f"the state of {self.describe()} in this checkpoint does not fit the one of today: "
                f"{wrong}; give the new one another name"
            )
        return True

    def columns(self) -> Sequence[str] | None:
        return None

    def state_schema(self, rows: pa.Schema) -> pa.Schema:
        return state_columns(self.processor.variables())

    def output_schema(self, rows: pa.Schema) -> pa.Schema:
        return self.processor.output_schema()

    # --- time ------------------------------------------------------------------------------------

    def due_moments(self, batch: Batch) -> tuple[int, int]:
        return due_moments(self.time_mode, batch)

    def times(self, batch: Batch | None) -> Times:
        """What time the processor sees."""
        if self.time_mode == NONE:
            return Times()
        if batch is None:
            return Times(self.began)
        require_moment(self.describe(), self.time_mode, batch)
        watermark = UNKNOWN if self.event_time is None else milliseconds(batch.watermarks.closed)
        return Times(UNKNOWN if batch.moment is None else batch.moment, watermark)

    # --- the way of the rows ---------------------------------------------------------------------

    def run(self, task: Task, batches: Iterator[pa.RecordBatch]) -> Result:
        times = self.times(task.batch)
        fires = times.watermark if self.time_mode == EVENT_TIME else times.processing
        came = self._arrived(task, [batch for batch in batches if batch.num_rows])
        due = None if task.batch is None else find_due_keys(task.job, task.batch, task.partition)
        keys, number = _all_keys(task, came, due)
        if not len(keys):
            return Result()
        before, found = self._committed(task, keys)
        run = ProcessorRun(self.processor, self.time_mode, task, times, fires, keys)
        with task.tally.updating():
            after = before.slice(0, 0)
            if came is not None:
                after = run.rows(came, before.slice(0, number))
            woken = before.slice(number)
            looks = woken.column(LOOK).combine_chunks()
            awake = np.asarray(looks.fill_null(fires + 1).to_numpy() <= fires)
            kept = np.flatnonzero(np.concatenate([np.ones(number, np.bool_), awake]))
            after = pa.concat_tables([after, woken.filter(pa.array(awake))]).combine_chunks()
            keys, before, found = run.only(kept), before.take(pa.array(kept)), found[kept]
            after = run.timers(after, number)
            run.call("close", None, run.calls.close)
            run.drain()
        counts = {"timers": run.fired}
        if task.costs is not None and came is not None:
            rows = sum(np.diff(group.bounds) for group in came[1])
            group = np.repeat(np.arange(number), rows)
            task.costs.add(keys.fingerprints[:number], group, run.costs[:number])
        arriving = () if task.batch is None else task.batch.arriving
        return self._result(keys, before, found, after, arriving, run.tables, counts)

    def _result(
        self,
        keys: Keys,
        before: pa.Table,
        found: np.ndarray,
        after: pa.Table,
        arriving: Sequence[int],
        output: list[pa.Table],
        counts: dict[str, int],
    ) -> Result:
        """What is to be written: states of keys that have or had one, and keys by moment."""
        old, new = (table.column(LOOK).combine_chunks() for table in (before, after))
        written = np.flatnonzero(found | ~empty_rows(after))
        chosen = pa.array(written)
        left = Keys(keys.fingerprints[written], keys.columns.take(chosen))
        states = as_stored(left, after.take(chosen)) if len(written) else None
        due = new_looks(keys, old, new, arriving)
        return Result(states, output, len(keys), due, counts)

    def _committed(self, task: Task, keys: Keys) -> tuple[pa.Table, np.ndarray]:
        """The stored states of these keys, and which there are."""
        schema = state_columns(self.processor.variables())
        found = task.look_up(keys)
        if found is None:
            return no_state(schema, len(keys)), np.zeros(len(keys), np.bool_)
        return found[0].cast(schema).combine_chunks(), found[1]

    def _arrived(
        self, task: Task, batches: list[pa.RecordBatch]
    ) -> tuple[Keys, list[RowsByKey]] | None:
        """The rows that came in by key, without those that are late: initial states and rows."""
        if not batches:
            return None
        rows, group, keys = keys_of(task.job, pa.Table.from_batches(batches), roomy(task.job.rows))
        is_row = np.ones(len(group), np.bool_)
        if self.initial is not None:
            is_row = rows.column(self.initial).is_null().to_numpy()
        kept = np.ones(len(group), np.bool_)
        if self.event_time is not None:
            counts = self.time_mode == EVENT_TIME and task.batch is not None
            kept = in_time(task, rows.column(self.event_time), is_row, counts)
        task.tally.add(keys, group)
        if not kept.any():
            return None
        if not kept.all():
            rows, group, keys = only_rows(rows, group, keys, kept)
            is_row = is_row[kept]
        own = [name for name in rows.column_names if name != self.initial]
        groups = [_grouped(rows.select(own), group, is_row, len(keys))]
        if self.initial is not None:
            groups.insert(
                0, _grouped(rows.select([*task.job.key, self.initial]), group, ~is_row, len(keys))
            )
        named = keys.columns.rename_columns(task.job.key_schema().names)
        return Keys(keys.fingerprints, named), groups


def _grouped(rows: pa.Table, group: I64, chosen: np.ndarray, keys: int) -> RowsByKey:
    order = np.flatnonzero(chosen)
    order = order[np.argsort(group[order], kind="stable")]
    return RowsByKey(rows, order, np.searchsorted(group[order], np.arange(keys + 1)))


def _all_keys(
    task: Task, came: tuple[Keys, list[RowsByKey]] | None, due: Keys | None
) -> tuple[Keys, int]:
    """The keys that had rows, and after them those that are due without; and how many had rows."""
    schema = task.job.key_schema()
    parts = [keys for keys in (None if came is None else came[0], due) if keys is not None]
    prints = np.concatenate([np.zeros(0, np.uint64), *(keys.fingerprints for keys in parts)])
    columns = [keys.columns.select(schema.names).cast(schema) for keys in parts]
    table = pa.concat_tables([schema.empty_table(), *columns]).combine_chunks()
    number = 0 if came is None else len(came[0])
    if due is None or not number:
        return Keys(prints, table), number
    _, first = group_rows(table.columns)
    return Keys(prints[first], table.take(pa.array(first))), number
