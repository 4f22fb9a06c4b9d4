"""One task's calls of a stateful processor: the rows of every key, then the timers that are due."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any, NamedTuple, Never

import numpy as np
import pyarrow as pa

from evenflow.engine.key_names import key_names
from evenflow.engine.layout import Keys
from evenflow.engine.processors import NONE, PROCESSING_TIME, Processor, Times, WrongOutput
from evenflow.engine.task import Task
from evenflow.operators.groups import I64
from evenflow.operators.state_variables import TIMERS, KeyState, read_states, write_states

_KEYS = 4096  # whose states are Python objects at a time


class RowsByKey(NamedTuple):
    """The rows of a task by key, sorted."""

    rows: pa.Table
    order: I64  #: rows in the order of their keys
    bounds: I64  #: where the rows of each key begin in it


class ProcessorRun:
    """One task's calls of a processor.

    Parameters:
        processor: the user's code.
        time_mode: what its timers go by.
        task: the task.
        times: what the processor sees.
        fires: timers up to this moment fire.
        keys: all keys of the task.
    """

    def __init__(
        self,
        processor: Processor,
        time_mode: str,
        task: Task,
        times: Times,
        fires: int,
        keys: Keys,
    ) -> None:
        self.processor, self.time_mode, self.task = processor, time_mode, task
        self.fires, self.keys = fires, keys
        self.variables = tuple(processor.variables())
        self.calls = processor.begin(times)
        self.tables: list[pa.Table] = []
        self.costs = np.zeros(len(keys))
        self.fired = 0
        self._schema = processor.output_schema()

    def only(self, kept: I64) -> Keys:
        """Go on with some of the keys."""
        columns = self.keys.columns.take(pa.array(kept))
        self.keys = Keys(self.keys.fingerprints[kept], columns)
        return self.keys

    def rows(self, came: tuple[Keys, list[RowsByKey]], states: pa.Table) -> pa.Table:
        """Hand over the rows of all keys; their states after it."""
        made = [states.slice(0, 0)]
        groups = came[1]
        for start in range(0, states.num_rows, _KEYS):
            stop = min(start + _KEYS, states.num_rows)
            some = self._read(states.slice(start, stop - start))
            keys = self._keys(np.arange(start, stop))
            if len(groups) > 1:
                self._hand_over("initial", groups[0], start, stop, keys, some)
            self._hand_over("input", groups[-1], start, stop, keys, some)
            self.drain()
            made.append(self._write(some))
        return pa.concat_tables(made)

    def _hand_over(
        self,
        what: str,
        group: RowsByKey,
        start: int,
        stop: int,
        keys: list[Any],
        states: list[KeyState],
    ) -> None:
        bounds = group.bounds[start : stop + 1]
        if bounds[0] == bounds[-1]:
            return
        order = group.order[bounds[0] : bounds[-1]]
        rows = group.rows.take(pa.array(order)).combine_chunks()
        ends = (bounds - bounds[0]).tolist()
        given = self.calls.rows(rows, ends, what == "initial")
        function = self.calls.initial if what == "initial" else self.calls.input
        for i, (key, state) in enumerate(zip(keys, states, strict=True)):
            if ends[i + 1] > ends[i]:
                began = time.perf_counter()
                self.call(what, start + i, function, key, state, given(i))
                self.costs[start + i] += time.perf_counter() - began

    def timers(self, states: pa.Table, with_rows: int) -> pa.Table:
        """Fire the timers that are due; the states after it.

        All that are due when the first one fires, and no others: as in Spark, a timer that is
        registered meanwhile waits for the next batch.

        Parameters:
            with_rows: how many of the keys, the first ones, had rows.
        """
        timers = states.column(TIMERS).combine_chunks()
        owner = np.repeat(np.arange(len(timers)), timers.value_lengths().fill_null(0).to_numpy())
        moments = timers.flatten().to_numpy()
        due = np.flatnonzero(moments <= self.fires) if self.time_mode != NONE else owner[:0]
        due = due[np.lexsort((owner[due], moments[due]))]
        active = np.union1d(owner[due], np.arange(with_rows, len(timers)))
        if not len(active):
            return states
        some = self._read(states.take(pa.array(active)))
        keys = self._keys(active)
        place = np.searchsorted(active, owner[due]).tolist()
        for i, moment in zip(place, moments[due].tolist(), strict=True):
            self.call("expired", int(active[i]), self.calls.expired, keys[i], some[i], moment)
            some[i].timers.discard(moment)
            self.fired += 1
        where = np.arange(len(timers))
        where[active] = len(timers) + np.arange(len(active))
        return pa.concat_tables([states, self._write(some)]).take(pa.array(where))

    def drain(self) -> None:
        """Take over what was put out."""
        try:
            for table in self.calls.output():
                if table.num_rows:
                    self.tables.append(table.cast(self._schema))
        except WrongOutput as wrong:
            name = json.dumps(list(wrong.key), default=str, ensure_ascii=False)
            raise self.task.guard.failed(wrong.function, name, wrong.error) from wrong.error

    def call(self, what: str, key: int | None, function: Callable[..., None], *given: Any) -> None:
        """Call the processor; its error names the function and the key."""
        try:
            function(*given)
        except MemoryError:
            raise
        except Exception as error:
            self._failed(what, key, error)

    def _failed(self, what: str, key: int | None, error: Exception) -> Never:
        name = None if key is None else key_names(self.keys.columns.slice(key, 1))[0]
        raise self.task.guard.failed(self.processor.called(what), name, error) from error

    def _keys(self, numbers: I64) -> list[Any]:
        named = self.keys.columns.take(pa.array(numbers)).rename_columns(list(self.task.job.key))
        return self.calls.keys(named.combine_chunks())

    def _read(self, states: pa.Table) -> list[KeyState]:
        read = read_states(self.variables, states)
        if self.time_mode == PROCESSING_TIME:
            for state in read:
                state.drop_expired(self.fires)
        return read

    def _write(self, states: list[KeyState]) -> pa.Table:
        return write_states(self.variables, states, self.fires)
