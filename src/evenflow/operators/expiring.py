"""An operator whose states end by themselves: beside each state, when that is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyarrow as pa

from evenflow.model import InputError
from evenflow.model.durations import microseconds
from evenflow.operators.groups import I64, pairs
from evenflow.operators.input_columns import one_array
from evenflow.operators.protocol import F64, Operator, Rows
from evenflow.operators.state_variables import LOOK
from evenflow.operators.windows import times_of

UNTIL = "until"  #: the column of the moment until which a state lives, in milliseconds
_NEVER = np.iinfo(np.int64).min  # less than every moment


@dataclass(frozen=True)
class Expiring(Operator):
    """Another operator, with two more columns of state: until when it lives, and when to look at it.

    Guarantee: the same states and output as those of `operator`. In event time, a state with a `ttl`
    lives until that long after the latest row of its key, however its rows are cut into parts.

    Parameters:
        operator: with a `ttl` or `timers`.
        event_time: the column of the event time; None in processing time.

    Example:
        >>> from evenflow.operators import PerKey
        >>> counting = PerKey(lambda key, rows, state: {"n": 1}, "n bigint", ttl="1 hour")
        >>> Expiring(counting).state_schema(pa.schema([])).names
        ['n', 'until', 'look']
    """

    name: ClassVar[str] = "expiring"

    operator: Operator
    event_time: str | None = None

    def __post_init__(self) -> None:
        who = type(self.operator).__name__
        if self.operator.ttl is not None and self.operator.has_timers:
            raise InputError(f"{who} has a ttl and timers; give it one of the two")
        if self.operator.ttl is not None:
            microseconds(f"{who}: ttl", self.operator.ttl)

    @property
    def lives(self) -> int | None:
        """How long a state lives, in milliseconds; None if `timers` says when it ends."""
        ttl = self.operator.ttl
        return None if ttl is None else -(-microseconds("ttl", ttl) // 1000)

    @property
    def identity(self) -> str:
        return self.operator.identity

    def parameters(self) -> str:
        return self.operator.parameters()

    def called(self, method: str) -> str:
        return self.operator.called(method)

    @property
    def row_seconds(self) -> float | None:  # type: ignore[override]
        return self.operator.row_seconds

    @property
    def timed(self) -> bool:  # type: ignore[override]
        return self.operator.timed

    @property
    def whole_keys(self) -> bool:
        return self.operator.whole_keys

    @property
    def mergeable(self) -> bool:
        return self.operator.mergeable

    @property
    def has_timers(self) -> bool:
        return self.operator.has_timers

    @property
    def has_expired(self) -> bool:
        return self.operator.has_expired

    def columns(self) -> Sequence[str] | None:
        wanted = self.operator.columns()
        if wanted is None or self.event_time is None:
            return wanted
        return list(dict.fromkeys([*wanted, self.event_time]))

    def state_schema(self, rows: pa.Schema) -> pa.Schema:
        own = self.operator.state_schema(rows)
        if taken := {UNTIL, LOOK} & set(own.names):
            raise InputError(
                f"the operator has a state column {min(taken)!r}, which says here when a state ends: "
                "choose another name"
            )
        return pa.schema([*own, (UNTIL, pa.int64()), (LOOK, pa.int64())])

    def output_schema(self, rows: pa.Schema) -> pa.Schema:
        return self.operator.output_schema(rows)

    def update(self, rows: Rows, state: pa.Table) -> pa.Table:
        return self.measured(rows, state)[0]

    def measured(self, rows: Rows, state: pa.Table) -> tuple[pa.Table, F64]:
        after, costs = self.operator.measured(rows, own_state(state))
        until = one_array(state.column(UNTIL))
        if self.event_time is not None and self.lives is not None:
            moments, known = times_of(rows.table.column(self.event_time))
            ends = -(-moments[known] // 1000) + self.lives
            until = _latest(
                pa.concat_arrays([until, pa.array(ends)]),
                np.concatenate([np.arange(rows.n_keys), rows.group[known]]),
                rows.n_keys,
            )
        return _beside(after, until, state.column(LOOK)), costs

    def merge(self, a: pa.Table, b: pa.Table) -> pa.Table:
        both = pairs(a.num_rows)
        return self.merge_groups(pa.concat_tables([a, b]), both.group, both.n)

    def merge_groups(self, states: pa.Table, group: I64, n: int) -> pa.Table:
        merged = self.operator.merge_groups(own_state(states), group, n)
        until, look = (_latest(one_array(states.column(c)), group, n) for c in (UNTIL, LOOK))
        return _beside(merged, until, look)

    def emit(self, keys: pa.Table, state: pa.Table) -> pa.Table:
        return self.operator.emit(keys, own_state(state))

    def emitted(self, keys: pa.Table, state: pa.Table) -> tuple[pa.Table, I64 | None]:
        return self.operator.emitted(keys, own_state(state))

    def timers(self, keys: pa.Table, state: pa.Table) -> pa.Array:
        return self.operator.timers(keys, own_state(state))

    def expired(self, keys: pa.Table, state: pa.Table) -> tuple[pa.Table, I64 | None]:
        return self.operator.expired(keys, own_state(state))


def own_state(state: pa.Table) -> pa.Table:
    """The columns of the operator itself."""
    return state.drop_columns([UNTIL, LOOK])


def _beside(own: pa.Table, until: pa.Array, look: pa.Array) -> pa.Table:
    return own.append_column(UNTIL, until).append_column(LOOK, look)


def _latest(moments: pa.Array, group: I64, n: int) -> pa.Array:
    """The latest moment of each group; null if it has none."""
    known = moments.is_valid().to_numpy(zero_copy_only=False)
    found = np.full(n, _NEVER)
    np.maximum.at(found, group[known], moments.drop_null().to_numpy())
    return pa.array(found, mask=found == _NEVER)
