"""The one protocol of operators: what happens to the rows of a key."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, is_dataclass
from datetime import timedelta
from functools import cached_property
from typing import ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from evenflow.operators.groups import I64, Groups

F64 = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Rows:
    """Rows of several keys, as a worker receives them.

    Parameters:
        table: the rows, with the key columns and the columns that the operator asked for.
        group: row → number of its key, 0 … len(keys) − 1.
        keys: the distinct keys, one row each, in the user's own key columns.
        origin: where a row is there several times, once per window: the number of the row that it
            copies; None where no row is.
    """

    table: pa.Table
    group: I64
    keys: pa.Table
    origin: I64 | None = None

    def __len__(self) -> int:
        return int(self.table.num_rows)

    @property
    def n_keys(self) -> int:
        return int(self.keys.num_rows)

    @cached_property
    def groups(self) -> Groups:
        """The rows grouped by key; sorted at most once."""
        return Groups(self.group, self.n_keys)


class Operator:
    """Keyed work. Subclass it and define `state_schema`, `update` and, if possible, `merge`.

    An operator is configuration: frozen and picklable. Its memory of a key is one row of the state
    table. It is called with whole tables, never once per row; `operators.PerKey` adapts a plain
    function that is called once per key.

    Guarantee: an operator that defines `merge` gives the same answer however a key's rows are split
    into parts, as long as its `update` and `merge` do (`evenflow.checks` tests that). Without `merge`,
    only schemes that keep a key on one worker run it; that worker then sees all rows of the key.
    """

    #: By which a checkpoint knows the operator; without one of its own, a class goes by its own name.
    name: ClassVar[str] = "operator"
    #: How long the state of a key of a stream lives after its last rows, as "30 minutes".
    ttl: str | timedelta | None = None
    #: What `ttl` and `timers` go by: "processingTime" or "eventTime".
    timeMode: str = "processingTime"

    #: What a row usually costs, in seconds, where that is known before the first batch was measured.
    row_seconds: float | None = None
    #: Whether `measured` returns seconds by the clock, which the machine disturbs.
    timed: bool = False

    def columns(self) -> Sequence[str] | None:
        """The input columns it reads, besides the key; None for all."""
        return None

    def fingerprinted(self) -> Sequence[str]:
        """Those of whose values it takes fingerprints (`kernels/fingerprints.py`)."""
        return ()

    def state_schema(self, rows: pa.Schema) -> pa.Schema:
        """The columns of the state of a key, given the schema of the rows."""
        raise NotImplementedError

    def output_schema(self, rows: pa.Schema) -> pa.Schema:
        """The columns that `emit` returns; the state itself by default."""
        return self.state_schema(rows)

    def update(self, rows: Rows, state: pa.Table) -> pa.Table:
        """The states after `rows`.

        `state` has one row per key, in the order of `rows.keys`; all its columns are null for a key
        without state. The result has the same length, order and schema.
        """
        raise NotImplementedError

    def measured(self, rows: Rows, state: pa.Table) -> tuple[pa.Table, F64]:
        """`update`, and its cost for each key: the number of rows by default.

        Planners balance these costs. Any unit works if it never changes: an operator whose work is not
        proportional to rows (a join, a call of a slow function) returns seconds, or pairs.
        """
        costs = np.bincount(rows.group, minlength=rows.n_keys).astype(np.float64)
        return self.update(rows, state), costs

    def merge(self, a: pa.Table, b: pa.Table) -> pa.Table:
        """Merge two partial states of each key: row i of `a` and of `b` belong to the same key."""
        raise NotImplementedError

    def merge_groups(self, states: pa.Table, group: I64, n: int) -> pa.Table:
        """Merge any number of partial states of n keys: row r of `states` belongs to key `group[r]`.

        Every key has at least one part. The default calls `merge` once for the second parts of all
        keys, once for the third parts, and so on; operators that can do it at once override it.
        """
        order = np.argsort(group, kind="stable")
        counts = np.bincount(group, minlength=n)
        firsts = np.concatenate([[0], np.cumsum(counts)[:-1]])
        merged = states.take(pa.array(order[firsts]))
        for part in range(1, int(counts.max(initial=0))):
            more = np.flatnonzero(counts > part)
            other = states.take(pa.array(order[firsts[more] + part]))
            joined = self.merge(merged.take(pa.array(more)), other)
            place = np.arange(n)
            place[more] = n + np.arange(len(more))
            merged = pa.concat_tables([merged, joined]).take(pa.array(place))
        return merged

    def emit(self, keys: pa.Table, state: pa.Table) -> pa.Table:
        """The current result, one row per key; `state` itself by default."""
        return state

    def emitted(self, keys: pa.Table, state: pa.Table) -> tuple[pa.Table, I64 | None]:
        """What is put out, and the number of the key of each row: a key may have several rows, or none.
        By default what `emit` returns, and None for one row of every key."""
        return self.emit(keys, state), None

    def timers(self, keys: pa.Table, state: pa.Table) -> pa.Array:
        """When the state of each key ends, as timestamps; null for never.

        In place of `ttl`, for other moments than some time after the last rows. It is asked after every
        batch that touches a key.
        """
        raise NotImplementedError

    def expired(self, keys: pa.Table, state: pa.Table) -> tuple[pa.Table, I64 | None]:
        """What is put out when the states of keys end, in the form of `emitted`."""
        raise NotImplementedError

    @property
    def has_timers(self) -> bool:
        """Whether `timers` says when states end."""
        return type(self).timers is not Operator.timers

    @property
    def has_expired(self) -> bool:
        """Whether `expired` says what is put out then."""
        return type(self).expired is not Operator.expired

    @property
    def ends(self) -> bool:
        """Whether states end by themselves."""
        return self.ttl is not None or self.has_timers

    @property
    def whole_keys(self) -> bool:
        """Whether `update` should see all rows of a key at once, in batch DataFrames."""
        return False

    @property
    def mergeable(self) -> bool:
        """Whether partial states can be merged, that is, whether keys may be split."""
        return type(self).merge is not Operator.merge

    def called(self, method: str) -> str:
        """What a message calls one of its methods: "update", "merge" or "emit"."""
        return f"{type(self).__name__}.{method}"

    @property
    def identity(self) -> str:
        """The name by which a checkpoint knows it: `name`, if the class has one of its own, or that of
        the class. Its module may change."""
        named = type(self).name
        return type(self).__name__ if named == Operator.name else named

    def parameters(self) -> str:
        """What else must stay the same when a query restarts: the fields of a dataclass, or what
        `repr` shows, or all attributes; but for its ttl."""
        if is_dataclass(self):
            given = {one.name: getattr(self, one.name) for one in fields(self) if one.repr}
        elif type(self).__repr__ is not object.__repr__:
            return repr(self)
        else:
            given = dict(sorted(vars(self).items()))
        # The default repr of a function holds an address, which differs between processes.
        shown = {name: getattr(one, "__qualname__", one) for name, one in given.items()}
        return repr({name: one for name, one in shown.items() if name not in ("ttl", "timeMode")})

    def signature(self) -> str:
        """Its identity and its parameters."""
        return f"{self.identity}: {self.parameters()}"
