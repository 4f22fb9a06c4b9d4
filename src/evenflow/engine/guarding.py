"""Calls of an operator that may fail: the keys and rows that they fail for are found and named.

As long as nothing fails, an operator is called with whole tables, and this costs nothing. When a call
fails, it is made again for fewer keys at a time, until those are known that fail alone. The query then
stops, and the message names one of them; or, where the query has a place for dead letters, their rows
are set aside and all others count.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from evenflow.engine.dead_letters import LetterBox, Letters
from evenflow.engine.failures import FunctionFailed, function_failed
from evenflow.engine.halving import by_halves
from evenflow.engine.key_names import key_names
from evenflow.model import InputError
from evenflow.operators import Rows
from evenflow.operators.protocol import F64

if TYPE_CHECKING:
    from evenflow.engine.job import Job

I64 = npt.NDArray[np.int64]
Call = Callable[[Rows, pa.Table], tuple[pa.Table, F64]]

_COPIES = 64 << 20  # bytes of one key's state, copied for each of its rows


class Updated(NamedTuple):
    """The states of keys after an update.

    Parameters:
        states: one row per key; as it was before for keys none of whose rows count.
        costs: one number per key.
        touched: the numbers of the keys that have rows that count; None for all.
    """

    states: pa.Table
    costs: F64
    touched: I64 | None = None


class Guard:
    """Calls an operator, and finds out for whom it fails.

    Guarantee: every row either counts or is set aside. Which rows are, depends on the rows and states
    of the task alone, if the operator fails for the same rows whenever it is called.

    Parameters:
        job: the computation.
        batch: its number; None for a batch DataFrame.
        partition: of the task.
        box: for dead letters; None to stop at the first failure.
    """

    def __init__(
        self, job: Job, batch: int | None, partition: int, box: LetterBox | None = None
    ) -> None:
        self._job, self._batch, self._partition = job, batch, partition
        self.letters = None if box is None else Letters(job, box, partition)

    def failed(
        self, function: str, key: str | None, error: Exception, may_set_aside: bool = True
    ) -> FunctionFailed:
        """The error that stops the query."""
        can_set_aside = may_set_aside and self._job.work.letter_columns(self._job.rows) is not None
        return function_failed(function, key, self._batch, self._partition, error, can_set_aside)

    # --- update ----------------------------------------------------------------------------------

    def update(self, function: str, call: Call, rows: Rows, states: pa.Table) -> Updated:
        """The states after `rows`, without those that are set aside.

        Rows that fail alone are set aside: with the state of their key, and without its other rows. If
        the others of the key fail nevertheless, so are they.

        Parameters:
            function: what a message calls it.
            call: the operator's `update`, with costs.
            rows: of several keys.
            states: one per key.
        """

        def checked(some: Rows, before: pa.Table) -> tuple[pa.Table, F64]:
            after, costs = call(some, before)
            if after.num_rows != some.n_keys:
                raise InputError(
                    f"it returned {after.num_rows} rows for {some.n_keys} keys; expected one per key"
                )
            return after, costs

        try:
            return Updated(*checked(rows, states))
        except MemoryError:
            raise
        except Exception as error:
            return self._isolated(function, checked, rows, states, error)

    def _isolated(
        self, function: str, call: Call, rows: Rows, states: pa.Table, error: Exception
    ) -> Updated:
        """`update`, once it has failed for all rows together."""
        aside: dict[int, Exception] = {}
        known: Exception | None = error
        while True:
            counted = np.ones(len(rows), np.bool_)
            counted[list(aside)] = False
            copies = aside if rows.origin is None else _copies(rows.origin, aside)
            counted[list(copies)] = False
            found = _Round(self, function, call, rows, states, np.flatnonzero(counted))
            done = found.run(known)
            new = {row: why for row, why in found.aside.items() if row not in aside}
            aside.update(new)
            if rows.origin is None or not _copies(rows.origin, new).keys() - new.keys():
                break
            known = None  # copies of rows that are set aside were at work in other windows
        self._set_aside(function, rows, aside)
        return found.result(done)

    def _set_aside(self, function: str, rows: Rows, aside: dict[int, Exception]) -> None:
        """Write a letter for each of these rows, one for all copies of a row."""
        if not aside:
            return
        assert self.letters is not None
        chosen = np.array(sorted(aside), np.int64)
        if rows.origin is not None:
            chosen = chosen[np.unique(rows.origin[chosen], return_index=True)[1]]
        names = key_names(rows.keys.take(pa.array(rows.group[chosen])))
        record = rows.table.take(pa.array(chosen))
        self.letters.add(function, names, [aside[row] for row in chosen.tolist()], record=record)

    # --- merge and emit --------------------------------------------------------------------------

    def groups(
        self,
        function: str,
        call: Callable[[int, int], pa.Table],
        n: int,
        letters: Callable[[int], dict[str, pa.Table | pa.Array]],
        name: Callable[[int], str],
        error: Exception,
    ) -> tuple[list[pa.Table], I64]:
        """What `call` gives for those of n keys for which it does not fail, and which these are.

        Parameters:
            function: what a message calls it.
            call: for the keys from a first one up to another.
            letters: the columns of what is set aside for a key.
            name: of a key.
            error: of the call for all of them.
        """

        def failed(i: int, why: Exception) -> None:
            if self.letters is None:
                raise self.failed(function, name(i), why) from why
            columns = letters(i)
            copies = len(next(iter(columns.values())))
            self.letters.add(function, [name(i)] * copies, [why] * copies, **columns)

        done = by_halves(n, call, failed, error)
        numbers = [np.arange(start, stop) for start, stop, _ in done]
        return [made for _, _, made in done], np.concatenate([np.zeros(0, np.int64), *numbers])


class _Round:
    """One try to update the keys that have rows left, with those rows.

    Parameters:
        guard: says what to do with failures.
        function: what a message calls it.
        call: the operator's `update`.
        rows, states: of all keys.
        left: the rows that are left.
    """

    def __init__(
        self, guard: Guard, function: str, call: Call, rows: Rows, states: pa.Table, left: I64
    ) -> None:
        self.guard, self.function, self.call = guard, function, call
        self.states = states
        self.order = left[np.argsort(rows.group[left], kind="stable")]
        self.active, self.group = np.unique(rows.group[self.order], return_inverse=True)
        self.bounds = np.searchsorted(self.group, np.arange(len(self.active) + 1))
        self.table = rows.table.take(pa.array(self.order))
        self.keys = rows.keys.take(pa.array(self.active))
        self.before = states.take(pa.array(self.active))
        self.aside: dict[int, Exception] = {}  #: row, numbered as the caller does → why
        self.again: list[tuple[int, int, tuple[pa.Table, F64]]] = []

    def run(self, error: Exception | None) -> list[tuple[int, int, tuple[pa.Table, F64]]]:
        done = by_halves(len(self.active), self._some, self._failed, error)
        return [*done, *self.again]

    def result(self, done: list[tuple[int, int, tuple[pa.Table, F64]]]) -> Updated:
        """The states of all keys."""
        costs, place = np.zeros(len(self.states)), np.arange(len(self.states))
        touched, made, at = [np.zeros(0, np.int64)], [], len(self.states)
        for start, stop, (after, cost) in done:
            numbers = self.active[start:stop]
            place[numbers] = at + np.arange(len(numbers))
            costs[numbers] = cost
            touched.append(numbers)
            made.append(after)
            at += len(numbers)
        if not made:
            return Updated(self.states, costs, np.concatenate(touched))
        schema = pa.schema([field.with_nullable(True) for field in made[0].schema])
        old = self.states.select(schema.names).cast(schema)
        both = pa.concat_tables([old, *(table.cast(schema) for table in made)])
        return Updated(both.take(pa.array(place)), costs, np.sort(np.concatenate(touched)))

    def _some(self, start: int, stop: int) -> tuple[pa.Table, F64]:
        first, end = int(self.bounds[start]), int(self.bounds[stop])
        rows = Rows(
            self.table.slice(first, end - first),
            self.group[first:end] - start,
            self.keys.slice(start, stop - start),
        )
        return self.call(rows, self.before.slice(start, stop - start))

    def _failed(self, key: int, error: Exception) -> None:
        """A key whose rows fail: find the rows that do."""
        name = key_names(self.keys.slice(key, 1))[0]
        letters = self.guard.letters
        if letters is None:
            raise self.guard.failed(self.function, name, error) from error
        first, end = int(self.bounds[key]), int(self.bounds[key + 1])
        bad: dict[int, Exception] = {0: error}
        if end - first > 1:
            bad = {}

            def alone(row: int, why: Exception) -> None:
                bad[row] = why
                letters.check(len(self.aside) + len(bad), self.function, name, why)

            self._each_alone(key, first, end, alone)
            good = np.array([row for row in range(end - first) if row not in bad], np.int64)
            if len(good):
                rows = Rows(
                    self.table.slice(first, end - first).take(pa.array(good)),
                    np.zeros(len(good), np.int64),
                    self.keys.slice(key, 1),
                )
                try:
                    made = self.call(rows, self.before.slice(key, 1))
                    self.again.append((key, key + 1, made))
                except MemoryError:
                    raise
                except Exception as why:
                    bad.update(dict.fromkeys(good.tolist(), why))
        letters.check(len(self.aside) + len(bad), self.function, name, error)
        self.aside.update({int(self.order[first + row]): why for row, why in bad.items()})

    def _each_alone(
        self, key: int, first: int, end: int, failed: Callable[[int, Exception], None]
    ) -> None:
        """Try each row of a key alone with the key's state: as if each had a key of its own."""
        size = max(1, self.before.slice(key, 1).nbytes)
        step = max(1, _COPIES // size)

        def some(start: int, stop: int) -> tuple[pa.Table, F64]:
            n = stop - start
            same = pa.array(np.full(n, key))
            rows = Rows(self.table.slice(first + start, n), np.arange(n), self.keys.take(same))
            return self.call(rows, self.before.take(same))

        for begin in range(0, end - first, step):
            part = partial(_shifted, begin)
            by_halves(min(step, end - first - begin), part(some), part(failed))


def _shifted(by: int, function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of numbers, and maybe an error after them, for numbers that begin at `by`."""

    def shifted(*given: Any) -> Any:
        return function(*(by + one if isinstance(one, int) else one for one in given))

    return shifted


def _copies(origin: I64, aside: dict[int, Exception]) -> dict[int, Exception]:
    """All copies of rows of which one is set aside."""
    why = {int(origin[row]): error for row, error in aside.items()}
    copies = np.flatnonzero(np.isin(origin, list(why)))
    return {row: why[int(origin[row])] for row in copies.tolist()}
