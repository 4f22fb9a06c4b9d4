"""Plain functions as an operator, called once per key with arrays and dicts."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, ClassVar, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.types as types

from evenflow.model import InputError
from evenflow.model.function_names import function_name
from evenflow.operators.groups import I64, Groups, pairs
from evenflow.operators.input_columns import column_type, one_array
from evenflow.operators.protocol import Operator, Rows
from evenflow.operators.schemas import Columns, schema_of

State: TypeAlias = dict[str, Any]
Update = Callable[[Any, dict[str, npt.NDArray[Any]], State | None], State | None]
Merge = Callable[[State, State], State]
Row = Mapping[str, Any]
Emit = Callable[[Any, State | None], Row | Iterable[Row] | None]
Timer = Callable[[Any, State], datetime | int | None]


_MOMENT = pa.timestamp("us", "UTC")


class PerKey(Operator):
    """Custom keyed work, written for one key at a time.

    `update(key, rows, state)` gets the key (a tuple if there are several key columns), its new rows as
    one NumPy array per column, and the state that it returned last time, or None. It returns the new
    state: a dict with a value for every column of `state`. Numbers, booleans, dates and timestamps are
    arrays of their own type, everything else arrays of Python objects. Null is None in an array of
    objects, NaT among dates and timestamps, and NaN among numbers: integers of a key that has a null
    are floats, as in `applyInPandas`. Booleans of such a key are objects.

    Guarantee: the rows of a key come in the order in which they arrived at the worker. Without `merge`,
    `update` is called once per key of a batch DataFrame, with all its rows; with `merge`, or on a
    stream, it may be called several times, with parts of them. Without `merge`,
    only schemes that keep a key on one worker run it. A state whose values are all None counts as no
    state; return None to forget a key. The adapter takes a few microseconds per key; a custom
    `Operator` is called with whole tables and takes less.

    Parameters:
        update: the function.
        state: the values to keep: "n bigint, names array<string>", a `StructType`, Arrow's schema, or
            a mapping of names to types, Arrow's or Spark's.
        merge: (state, state) → state, if partial states of a key can be merged.
        emit: (key, state) → a dict of the output columns, several of them, or None for no row; the
            state itself by default.
        output: like `state`, for the result of `emit`.
        columns: the input columns that `update` reads; None for all.
        name: by which a checkpoint knows it; that of `update` by default. A query whose function was
            renamed goes on with its state under the old name.
        ttl: how long a key's state lives after its last rows, in streams: "30 minutes", or a timedelta.
            A key whose time is over is forgotten.
        timer: in place of `ttl`, (key, state) → when the state ends: a datetime, milliseconds since
            1970, or None for never. It is asked after every call of `update`.
        expired: (key, state) → what is put out when a state ends, as `emit` returns it.
        timeMode: "processingTime" or "eventTime": what `ttl` and `timer` go by.

    Example:
        >>> from evenflow.operators import on_table
        >>> def longest_pause(key, rows, state):
        ...     times = np.sort(rows["second"])
        ...     if state:
        ...         times = np.concatenate([[state["last"]], times])
        ...     pause = int(np.diff(times).max(initial=state["pause"] if state else 0))
        ...     return {"last": int(times[-1]), "pause": pause}
        >>> operator = PerKey(longest_pause, state={"last": "int64", "pause": "int64"})
        >>> operator.mergeable
        False
        >>> rows = pa.table({"user": ["x", "y", "x", "x"], "second": [10, 12, 40, 13]})
        >>> on_table(operator, rows, "user").to_pylist()
        [{'user': 'x', 'last': 40, 'pause': 27}, {'user': 'y', 'last': 12, 'pause': 0}]
    """

    name: ClassVar[str] = "per-key"
    timed = True

    def __init__(
        self,
        update: Update,
        state: Columns,
        *,
        merge: Merge | None = None,
        emit: Emit | None = None,
        output: Columns | None = None,
        columns: Sequence[str] | None = None,
        name: str | None = None,
        ttl: str | timedelta | None = None,
        timer: Timer | None = None,
        expired: Emit | None = None,
        timeMode: str = "processingTime",
    ) -> None:
        functions = {
            "update": update,
            "merge": merge,
            "emit": emit,
            "timer": timer,
            "expired": expired,
        }
        for what, function in functions.items():
            if not callable(function) and (function is not None or what == "update"):
                raise InputError(f"PerKey: {what} must be a function, got {function!r}")
        if (emit is None) != (output is None):
            raise InputError(
                "PerKey: emit and output go together: a function, and the names and types of what "
                'it returns, as in output={"pause": "int64"}'
            )
        self._update, self._merge, self._emit = update, merge, emit
        self._state = schema_of(state, "PerKey: state")
        self._output = self._state if output is None else schema_of(output, "PerKey: output")
        self._columns = None if columns is None else tuple(columns)
        self._name = name
        self.ttl, self.timeMode = ttl, timeMode
        self._timer, self._expired = timer, expired

    @property
    def identity(self) -> str:
        """The name that was given, or that of `update`; its module may change."""
        own = getattr(self._update, "__name__", type(self._update).__name__)
        return own if self._name is None else self._name

    def parameters(self) -> str:
        """Nothing: the columns of the state are compared by themselves, and functions may change."""
        return ""

    def signature(self) -> str:
        """Its identity, the names of its functions and its state."""
        return f"{self.identity}: {self!r}"

    def __repr__(self) -> str:
        # Functions by name: their default repr holds an address, which differs between processes.
        functions = (self._update, self._merge, self._emit)
        named = [
            f"{a}={function_name(f)}"
            for a, f in zip(("update", "merge", "emit"), functions, strict=True)
        ]
        kept = ", ".join(f"{f.name}: {f.type}" for f in self._state)
        return f"PerKey({', '.join(named)}, state=[{kept}])"

    def called(self, method: str) -> str:
        """The name of the function."""
        name = {"timers": "timer"}.get(method, method)
        return f"{name} ({function_name(getattr(self, f'_{name}'))})"

    @property
    def whole_keys(self) -> bool:
        """Without `merge`, parts of a key's rows would be of no use to anybody."""
        return self._merge is None

    @property
    def mergeable(self) -> bool:
        """Whether `merge` was given."""
        return self._merge is not None

    def columns(self) -> Sequence[str] | None:
        """The declared input columns."""
        return self._columns

    def state_schema(self, rows: pa.Schema) -> pa.Schema:
        """The declared one."""
        for column in self._columns or ():
            column_type(rows, column, "PerKey")
        return self._state

    def output_schema(self, rows: pa.Schema) -> pa.Schema:
        """The declared one."""
        return self._output

    def update(self, rows: Rows, state: pa.Table) -> pa.Table:
        """The states after one call per key."""
        return self.measured(rows, state)[0]

    def measured(self, rows: Rows, state: pa.Table) -> tuple[pa.Table, npt.NDArray[np.float64]]:
        """The states after one call per key, and the duration of each call in seconds."""
        names = rows.table.column_names if self._columns is None else self._columns
        columns = {name: one_array(rows.table.column(name)) for name in names}
        plain, holed = _arrays(columns, rows.groups)
        keys, states = _key_values(rows.keys), _dicts(state)
        bounds = rows.groups.bounds.tolist()
        update, arrays = self._update, list(plain.items())
        results: list[State | None] = []
        ended = [time.perf_counter()]
        start = 0
        for key, end, old in zip(keys, bounds[1:], states, strict=True):
            values = {name: array[start:end] for name, array in arrays}
            for name, (objects, is_holed) in holed.items():
                if is_holed[len(results)]:
                    values[name] = objects[start:end]
            results.append(update(key, values, old))
            ended.append(time.perf_counter())
            start = end
        return _table(results, self._state, f"update ({function_name(update)})"), np.diff(ended)

    def merge(self, a: pa.Table, b: pa.Table) -> pa.Table:
        """Merge two partial states of each key, by one call per key."""
        both = pairs(a.num_rows)
        return self.merge_groups(pa.concat_tables([a, b]), both.group, both.n)

    def merge_groups(self, states: pa.Table, group: I64, n: int) -> pa.Table:
        """Merge the partial states of each key, from first to last."""
        if self._merge is None:
            raise NotImplementedError(f"{self!r} has no merge")
        merge = self._merge
        merged: list[State | None] = [None] * n
        for number, part in zip(group.tolist(), _dicts(states), strict=True):
            known = merged[number]
            if part is not None:
                merged[number] = part if known is None else merge(known, part)
        return _table(merged, self._state, f"merge ({function_name(merge)})")

    def emit(self, keys: pa.Table, state: pa.Table) -> pa.Table:
        """The result of `emit` for each key, or the state."""
        if self._emit is None:
            return state
        return _table(self._emitted(keys, state), self._output, self.called("emit"))

    def emitted(self, keys: pa.Table, state: pa.Table) -> tuple[pa.Table, I64 | None]:
        """The results of `emit`, any number of rows per key."""
        if self._emit is None:
            return state, None
        return self._rows(self._emitted(keys, state), "emit")

    def expired(self, keys: pa.Table, state: pa.Table) -> tuple[pa.Table, I64 | None]:
        """The results of `expired`, any number of rows per key."""
        assert self._expired is not None
        return self._rows(_each(self._expired, keys, state), "expired")

    def timers(self, keys: pa.Table, state: pa.Table) -> pa.Array:
        """The results of `timer`."""
        assert self._timer is not None
        return pa.array(map(_moment, _each(self._timer, keys, state)), _MOMENT)

    @property
    def has_timers(self) -> bool:
        """Whether `timer` was given."""
        return self._timer is not None

    @property
    def has_expired(self) -> bool:
        """Whether `expired` was given."""
        return self._expired is not None

    def _emitted(self, keys: pa.Table, state: pa.Table) -> list[Any]:
        assert self._emit is not None
        return _each(self._emit, keys, state)

    def _rows(self, results: list[Any], method: str) -> tuple[pa.Table, I64]:
        """The rows of all results, and the number of the key of each."""
        found = [[one] if isinstance(one, Mapping) else _several(one) for one in results]
        counts = [len(rows) for rows in found]
        table = _table([row for rows in found for row in rows], self._output, self.called(method))
        return table, np.repeat(np.arange(len(found)), counts)


def _each(function: Callable[[Any, Any], Any], keys: pa.Table, state: pa.Table) -> list[Any]:
    """What a function returns for every key and its state."""
    return [function(key, old) for key, old in zip(_key_values(keys), _dicts(state), strict=True)]


def _several(result: Any) -> list[Any]:
    """The rows of a result that is not a dict; what is none is left for a message."""
    if result is None:
        return []
    if isinstance(result, Iterable) and not isinstance(result, str | bytes):
        return list(result)
    return [result]


def _moment(moment: Any) -> Any:
    """A moment as Arrow takes it: milliseconds become microseconds."""
    whole = isinstance(moment, int | np.integer) and not isinstance(moment, bool)
    return int(moment) * 1000 if whole else moment


def _arrays(
    columns: dict[str, pa.Array], groups: Groups
) -> tuple[dict[str, npt.NDArray[Any]], dict[str, tuple[npt.NDArray[Any], list[bool]]]]:
    """Columns as arrays, key by key; and columns with nulls that a NumPy array of their type cannot
    hold, again in a type that can, with the keys that need it."""
    plain: dict[str, npt.NDArray[Any]] = {}
    holed: dict[str, tuple[npt.NDArray[Any], list[bool]]] = {}
    order = groups.order
    for name, array in columns.items():
        if array.null_count and (
            types.is_primitive(array.type) and not types.is_temporal(array.type)
        ):
            null = array.is_null().to_numpy(zero_copy_only=False)
            # For numbers Arrow makes floats, with NaN; for booleans and decimals objects, with None.
            values = array.to_numpy(zero_copy_only=False)[order]
            holed[name] = (values, groups.reduce(np.logical_or, null).tolist())
            array = array.fill_null(False if types.is_boolean(array.type) else 0)
        plain[name] = array.to_numpy(zero_copy_only=False)[order]
    return plain, holed


def _key_values(keys: pa.Table) -> list[Any]:
    columns = [column.to_pylist() for column in keys.columns]
    return columns[0] if len(columns) == 1 else list(zip(*columns, strict=True))


def _dicts(table: pa.Table) -> list[State | None]:
    names = table.column_names
    if all(column.null_count == table.num_rows for column in table.columns):
        return [None] * table.num_rows
    rows = zip(*[column.to_pylist() for column in table.columns], strict=True)
    nothing = (None,) * len(names)
    return [None if row == nothing else dict(zip(names, row, strict=True)) for row in rows]


def _table(results: Sequence[Any], schema: pa.Schema, who: str) -> pa.Table:
    """Dicts as a table; None as a row of nulls."""
    if None in results:
        nothing = dict.fromkeys(schema.names)
        results = [nothing if result is None else result for result in results]
    columns = []
    for field in schema:
        try:
            columns.append(_column([result[field.name] for result in results], field.type))
        except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError) as error:
            raise InputError(
                f"PerKey: {who} returned a value for {field.name!r} that is not {field.type}: {error}"
            ) from None
        except (KeyError, TypeError, IndexError):
            wrong = next((r for r in results if not _has(r, field.name)), None)
            if wrong is None:
                raise
            raise InputError(
                f"PerKey: {who} returned {wrong!r}; expected a dict with {', '.join(schema.names)}"
            ) from None
    return pa.table(columns, schema=schema)


def _column(values: list[Any], kind: pa.DataType) -> pa.Array:
    if types.is_integer(kind):
        # Arrow would cut 1.5 to 1 without a word; PySpark refuses it.
        for value in values:
            if isinstance(value, float | np.floating) and not value.is_integer():
                raise pa.ArrowInvalid(f"{value!r} is not a whole number")
    return pa.array(values, kind)


def _has(result: Any, name: str) -> bool:
    return isinstance(result, Mapping) and name in result
