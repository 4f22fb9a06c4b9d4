"""What all windows of event time share: state that expires, output when a window is over."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from evenflow.engine.job import Job
from evenflow.engine.keyed_states import KeyedStates
from evenflow.engine.layout import Keys
from evenflow.engine.task import Task
from evenflow.engine.work import Result
from evenflow.model import InputError
from evenflow.operators.sessions import Session
from evenflow.operators.windows import APPEND, Window, window_column, window_type


@dataclass(frozen=True)
class EventTimeStates(KeyedStates):
    """An operator on the rows of each key and window, of whatever kind the windows are.

    Parameters:
        operator: what happens to the rows of a key in a window.
        window: which windows there are, and when they are put out.
    """

    window: Window | Session

    @property
    def expires(self) -> bool:  # type: ignore[override]
        return True

    @property
    def delay(self) -> int:  # type: ignore[override]
        return self.window.delay

    @property
    def closes_without_rows(self) -> bool:  # type: ignore[override]
        return self.window.mode == APPEND

    def signature(self) -> dict[str, Any]:
        return {**super().signature(), "window": self.window.signature()}

    def columns(self) -> Sequence[str] | None:
        wanted = super().columns()
        return None if wanted is None else list(dict.fromkeys([*wanted, *self.window.columns()]))

    def output_schema(self, rows: pa.Schema) -> pa.Schema:
        emitted = super().output_schema(rows)
        name = self.window.name
        if name in emitted.names:
            raise InputError(
                f"the output would have two columns {name!r}, and one of them is the window itself; "
                "rename the other one"
            )
        kind = window_type(self.window.time_type(rows))
        return pa.schema([pa.field(name, kind, nullable=False), *emitted])

    # --- what kinds of windows do otherwise ------------------------------------------------------

    @abstractmethod
    def bounds(self, job: Job, table: pa.Table, parts: bool) -> tuple[np.ndarray, np.ndarray]:
        """When the windows of rows of state begin and end.

        Parameters:
            table: the rows, or their keys alone.
            parts: whether they are parts of states.
        """

    @abstractmethod
    def closed(self, task: Task, states: pa.Table | None) -> pa.Table | None:
        """The final states of the task's windows that this batch closes; None if there are none.

        Parameters:
            states: the new states of the batch.
        """

    # --- output ----------------------------------------------------------------------------------

    def run(self, task: Task, batches: Iterator[pa.RecordBatch]) -> Result:
        result = super().run(task, batches)
        states = result.states
        result.counts["windows"] = 0 if states is None else states.num_rows
        if self.window.mode == APPEND and task.batch is not None:
            closed = self.closed(task, states)
            result.counts["closed_windows"] = 0 if closed is None else closed.num_rows
            result.output = self.output(task, closed)
        return result

    def letter_columns(self, rows: pa.Schema) -> pa.Schema | None:
        own = super().letter_columns(rows)
        assert own is not None
        return own.append(pa.field(self.window.name, window_type(self.window.time_type(rows))))

    def letter(self, job: Job, table: pa.Table, parts: bool) -> dict[str, pa.Table | pa.Array]:
        own = self._column(job, *self.bounds(job, table, parts))
        return {**super().letter(job, table, parts), self.window.name: own}

    def own_columns(self, job: Job, keys: Keys) -> list[pa.Array]:
        return [self._column(job, *self.bounds(job, keys.columns, parts=False))]

    def _column(self, job: Job, starts: np.ndarray, ends: np.ndarray) -> pa.Array:
        return window_column(ends, ends - starts, self.window.time_type(job.rows))
