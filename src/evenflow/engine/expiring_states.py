"""Plain keys whose states end by themselves: after a TTL, or when a timer of theirs is due.

What is due is found by the index of moments that stateful processors have (`state.due_keys`). In
processing time, what is over ends before the rows of the batch are worked on, which find no state. In
event time, rows that are not late still count, as everywhere; what is over after them ends.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from evenflow.engine.batch import Batch
from evenflow.engine.due_keys import find_due_keys, new_looks
from evenflow.engine.job import Job
from evenflow.engine.key_names import key_names
from evenflow.engine.keyed_states import Grouped, KeyedStates
from evenflow.engine.late_rows import in_time, only_rows
from evenflow.engine.layout import (
    Keys,
    as_stored,
    count_keys,
    from_stored,
    nullable,
    of_other_keys,
    stored,
)
from evenflow.engine.pieces import piece_of, pieces
from evenflow.engine.processors import (
    EVENT_TIME,
    PROCESSING_TIME,
    due_moments,
    require_moment,
)
from evenflow.engine.task import Task, keys_of
from evenflow.engine.work import Result
from evenflow.operators import Rows
from evenflow.operators.expiring import UNTIL, Expiring, own_state
from evenflow.operators.input_columns import one_array
from evenflow.operators.state_variables import LOOK, empty_rows
from evenflow.operators.windows import times_of

Booleans = npt.NDArray[np.bool_]
_NEVER = np.iinfo(np.int64).max


@dataclass(frozen=True)
class ExpiringStates(KeyedStates):
    """An operator on the rows of each key of a stream, whose states end.

    Guarantee: a state ends once, in the first batch whose time has reached its moment, with or without
    rows of its key. A batch that is run again sees the same time.

    Parameters:
        operator: with a `ttl` or timers.
        time_mode: "processingtime" or "eventtime".
        late: how late rows may come, in microseconds of event time.
        append: whether keys are put out when they end, and only then.
    """

    operator: Expiring
    time_mode: str = PROCESSING_TIME
    late: int = 0
    append: bool = False

    has_due_keys = True

    @property
    def delay(self) -> int:  # type: ignore[override]
        return self.late

    @property
    def in_processing_time(self) -> bool:  # type: ignore[override]
        return self.time_mode == PROCESSING_TIME

    @property
    def closes_without_rows(self) -> bool:  # type: ignore[override]
        return self.time_mode == EVENT_TIME

    @property
    def tracks_event_time(self) -> bool:
        return self.time_mode == EVENT_TIME

    def describe(self) -> str:
        return type(self.operator.operator).__name__

    def signature(self) -> dict[str, Any]:
        return {"time": self.time_mode}

    def due_moments(self, batch: Batch) -> tuple[int, int]:
        return due_moments(self.time_mode, batch)

    def _now(self, task: Task) -> int:
        """The time of a batch, in milliseconds."""
        assert task.batch is not None
        require_moment(self.describe(), self.time_mode, task.batch)
        return self.due_moments(task.batch)[1]

    # --- rows ------------------------------------------------------------------------------------

    def grouped(self, task: Task, chunk: pa.Table) -> Grouped:
        rows, group, keys = keys_of(task.job, chunk)
        task.tally.add(keys, group)
        if self.operator.event_time is not None:
            every = np.ones(rows.num_rows, np.bool_)
            kept = in_time(task, rows.column(self.operator.event_time), every, drops=True)
            if not kept.any():
                return None
            if not kept.all():
                rows, group, keys = only_rows(rows, group, keys, kept)
        named = keys.columns.rename_columns(task.job.key_schema().names)
        return Keys(keys.fingerprints, named), Rows(rows, group, keys.columns)

    def look_up(self, task: Task, keys: Keys) -> tuple[pa.Table, np.ndarray] | None:
        """The committed states; in processing time, without those that are over."""
        found = task.look_up(keys)
        if found is None or self.time_mode == EVENT_TIME:
            return found
        states, there = found
        over = _moments(states.column(UNTIL)) <= self._now(task)
        if not over.any():
            return found
        return states.take(pa.array(np.arange(len(over)), mask=over)), there & ~over

    # --- what ends -------------------------------------------------------------------------------

    def run(self, task: Task, batches: Iterator[pa.RecordBatch]) -> Result:
        assert task.batch is not None, "time passes in streams only"
        job, now = task.job, self._now(task)
        waiting = self._waiting(task, now)
        touched = self._new_states(task, batches)
        with task.tally.updating():
            alone = None
            if waiting is not None:
                alone = of_other_keys(waiting, touched, job.key_schema().names)
            new = self._entered(task, touched, now)
            over = np.zeros(0, np.bool_) if new is None else self._over(touched, new, now)
            first = waiting if self.time_mode == PROCESSING_TIME else alone
            ended = [one for one in (_over_by(first, now), _some(new, over)) if one is not None]
            kept, renewed = _forgotten(job, new, over), self._renewed(job, alone, now)
            tables = [table for table in (kept, renewed) if table is not None]
            states = pa.concat_tables(tables) if tables else None
        looked = _looks(job, [touched, alone], tables, task.batch.arriving)
        counts = {"timers": sum(table.num_rows for table in ended)}
        output = self._put_out(task, ended, new)
        return Result(states, output, count_keys(job, touched), looked, counts)

    def _waiting(self, task: Task, now: int) -> pa.Table | None:
        """The stored rows of keys that are due."""
        assert task.batch is not None
        due = find_due_keys(task.job, task.batch, task.partition)
        found = None if due is None else task.look_up(due)
        if due is None or found is None:
            return None
        # An entry of the index may be out of date.
        looked = found[1] & (_moments(found[0].column(LOOK)) <= now)
        return as_stored(due, found[0]).filter(pa.array(looked))

    def _over(self, touched: pa.Table, new: pa.Table, now: int) -> Booleans:
        """Which keys with rows end after these: they were due, and still are."""
        if self.time_mode == PROCESSING_TIME:
            return np.zeros(new.num_rows, np.bool_)
        known = [
            *(touched.column(stored(name)) for name in (LOOK, UNTIL)),
            new.column(stored(UNTIL)),
        ]
        found: Booleans = np.logical_and.reduce([_moments(column) <= now for column in known])
        return found

    def _entered(self, task: Task, rows: pa.Table | None, now: int) -> pa.Table | None:
        """New rows of state, with the moments when they end and when to look at them."""
        if rows is None:
            return None
        keys, states = from_stored(task.job, rows)
        known, none = _moments(states.column(UNTIL)), empty_rows(own_state(states))
        if self.operator.lives is None:
            until = self._timers(task, keys, states, none)
        elif self.time_mode == EVENT_TIME:
            until = np.where(known == _NEVER, now + self.operator.lives, known)
        else:
            until = np.full(len(keys), now + self.operator.lives)
        until = np.where(none, _NEVER, until)
        # Sooner than needed does no harm, and a new moment has to be written down.
        look, wanted = _moments(states.column(LOOK)), np.maximum(until, now)
        look = np.where((look > now) & (look <= wanted), look, wanted)
        look = np.where(until == _NEVER, _NEVER, look)
        return _with(_with(rows, UNTIL, until), LOOK, look)

    def _timers(self, task: Task, keys: Keys, states: pa.Table, none: Booleans) -> np.ndarray:
        """When the operator says that states end."""
        job, until = task.job, np.full(len(keys), _NEVER)
        some = np.flatnonzero(~none)
        named, own = self.named(job, keys).take(pa.array(some)), states.take(pa.array(some))

        def ask(start: int, stop: int) -> np.ndarray:
            state = piece_of(own, start, stop).cast(nullable(job.state_schema()))
            moments, known = times_of(self.operator.timers(named.slice(start, stop - start), state))
            return np.where(known, -(-moments // 1000), _NEVER)

        for start, stop in pieces(own):
            try:
                until[some[start:stop]] = ask(start, stop)
            except MemoryError:
                raise
            except Exception as error:
                raise self._failed(task, named, ask, start, stop, error) from error
        return until

    def _failed(
        self,
        task: Task,
        named: pa.Table,
        ask: Callable[[int, int], object],
        start: int,
        stop: int,
        error: Exception,
    ) -> Exception:
        """The error of `timers`, with the key that it fails for."""
        for i in range(start, stop):
            try:
                ask(i, i + 1)
            except Exception as why:
                name = key_names(named.slice(i, 1))[0]
                return task.guard.failed(self.operator.called("timers"), name, why, False)
        return task.guard.failed(self.operator.called("timers"), None, error, False)

    def _renewed(self, job: Job, rows: pa.Table | None, now: int) -> pa.Table | None:
        """Rows of keys that were looked at without rows of theirs: what is over is forgotten, what is
        not is looked at later."""
        if rows is None:
            return None
        until = _moments(rows.column(stored(UNTIL)))
        return _forgotten(job, _with(rows, LOOK, until), until <= now)

    def _put_out(
        self, task: Task, ended: list[pa.Table], new: pa.Table | None
    ) -> Iterator[pa.Table]:
        if self.append or self.operator.has_expired:
            method = "expired" if self.operator.has_expired else "emit"
            for table in ended:
                for start, stop in pieces(table):
                    yield self.emitted(task, piece_of(table, start, stop), method)
        if not self.append:
            yield from self.output(task, new)


def _moments(column: pa.ChunkedArray) -> np.ndarray:
    """Moments, with one after all others for null."""
    found: np.ndarray = one_array(column).fill_null(_NEVER).to_numpy()
    return found


def _with(rows: pa.Table, name: str, moments: np.ndarray) -> pa.Table:
    at = rows.column_names.index(stored(name))
    return rows.set_column(at, stored(name), pa.array(moments, mask=moments == _NEVER))


def _some(rows: pa.Table | None, chosen: Booleans) -> pa.Table | None:
    """Some of the rows; None if there are none."""
    return rows.filter(pa.array(chosen)) if rows is not None and chosen.any() else None


def _over_by(rows: pa.Table | None, now: int) -> pa.Table | None:
    """The rows whose moment has come; None if there are none."""
    return None if rows is None else _some(rows, _moments(rows.column(stored(UNTIL))) <= now)


def _forgotten(job: Job, rows: pa.Table | None, over: Booleans) -> pa.Table | None:
    """The rows, with nothing in the states of some of them."""
    if rows is None or not over.any():
        return rows
    keys, states = from_stored(job, rows)
    return as_stored(keys, states.take(pa.array(np.arange(len(over)), mask=over)))


def _looks(
    job: Job, before: list[pa.Table | None], after: list[pa.Table], arriving: Sequence[int]
) -> pa.Table | None:
    """The entries for the index of moments."""
    if not after:
        return None
    old = pa.concat_tables([one.select([stored(LOOK)]) for one in before if one is not None])
    new = pa.concat_tables(after)
    before_it, now = (one_array(table.column(stored(LOOK))) for table in (old, new))
    return new_looks(from_stored(job, new)[0], before_it, now, arriving)
