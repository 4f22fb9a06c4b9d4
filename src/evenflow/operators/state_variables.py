"""State that is written a variable at a time: values, lists and maps, with a TTL, and timers.

A key's state is one row: a column per variable, and its timers. While a function works on the key, the
row is a `KeyState`: plain Python values, as Arrow gives them, which remember until when they live.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from evenflow.model import InputError

VALUE, LIST, MAP = "value", "list", "map"
TIMERS = "timers"  #: the column of the timers
LOOK = "look"  #: the column that says when to look at the key; never later than anything is due

Fields: TypeAlias = tuple[Any, ...]  #: the values of a struct, field by field
Lived: TypeAlias = tuple[Fields, int | None]  #: and until when they live, in milliseconds

_UNTIL = pa.field("until", pa.int64())


@dataclass(frozen=True)
class Variable:
    """A state variable, as its owner declares it.

    Parameters:
        name: its own among the variables of a function.
        kind: "value", "list" or "map".
        value: the type of a value, a struct.
        key: the type of a map's keys, a struct.
        ttl: how many milliseconds a value lives after it was written; None for as long as it is kept.
    """

    name: str
    kind: str
    value: pa.StructType
    key: pa.StructType | None = None
    ttl: int | None = None

    @property
    def column(self) -> str:
        """Its column of the state."""
        return f"{self.kind}_{self.name}"

    @property
    def type(self) -> pa.DataType:
        """The type of its column: what it holds, each part with the moment until which it lives."""
        value = pa.field(VALUE, self.value)
        if self.kind == VALUE:
            return pa.struct([value, _UNTIL])
        if self.kind == LIST:
            return pa.list_(pa.struct([value, _UNTIL]))
        return pa.list_(pa.struct([pa.field("key", self.key), value, _UNTIL]))


def state_columns(variables: Sequence[Variable]) -> pa.Schema:
    """The columns of a key's state.

    Example:
        >>> seen = Variable("seen", "value", pa.struct([("n", pa.int64())]))
        >>> state_columns([seen]).names
        ['value_seen', 'timers', 'look']
    """
    columns = [pa.field(one.column, one.type) for one in variables]
    return pa.schema([*columns, (TIMERS, pa.list_(pa.int64())), (LOOK, pa.int64())])


@dataclass
class KeyState:
    """The state of one key while a function works on it.

    Parameters:
        values: variable → value, of those that have one.
        lists: variable → values, of those that have one.
        maps: variable → a key in a form that can be looked up → (key, value).
        timers: moments in milliseconds.
        look: when the key was to be looked at, before.
    """

    values: dict[str, Lived] = field(default_factory=dict)
    lists: dict[str, list[Lived]] = field(default_factory=dict)
    maps: dict[str, dict[Any, tuple[Fields, Lived]]] = field(default_factory=dict)
    timers: set[int] = field(default_factory=set)
    look: int | None = None

    def drop_expired(self, now: int) -> None:
        """Drop what lives no longer than until now, in milliseconds."""

        def lives(lived: Lived) -> bool:
            return lived[1] is None or lived[1] > now

        self.values = {name: one for name, one in self.values.items() if lives(one)}
        lists = {name: [one for one in ones if lives(one)] for name, ones in self.lists.items()}
        self.lists = {name: ones for name, ones in lists.items() if ones}
        maps = {
            name: {known: pair for known, pair in pairs.items() if lives(pair[1])}
            for name, pairs in self.maps.items()
        }
        self.maps = {name: pairs for name, pairs in maps.items() if pairs}

    def due(self) -> int | None:
        """When the first of its timers fires, or the first of its values ends; None for never."""
        found = list(self.timers)
        for _, until in self._lived():
            if until is not None:
                found.append(until)
        return min(found, default=None)

    def _lived(self) -> Iterator[Lived]:
        yield from self.values.values()
        for ones in self.lists.values():
            yield from ones
        for pairs in self.maps.values():
            yield from (lived for _, lived in pairs.values())


def as_known(value: Any) -> Any:
    """A value in a form that can be looked up, so that equal keys of a map are found.

    Example:
        >>> as_known((1, [2.0, float("nan")], {"a": None}))
        (1, ('[]', 2.0, 'NaN'), ('{}', ('a', None)))
    """
    if isinstance(value, tuple):
        return tuple(map(as_known, value))
    if isinstance(value, list):
        return ("[]", *map(as_known, value))
    if isinstance(value, dict):
        return ("{}", *((as_known(k), as_known(v)) for k, v in value.items()))
    return "NaN" if isinstance(value, float) and value != value else value


# --- between rows of state and Python ------------------------------------------------------------


def read_states(variables: Sequence[Variable], table: pa.Table) -> list[KeyState]:
    """The states in these rows; that of a key without state is empty."""
    states = [KeyState() for _ in range(table.num_rows)]
    table = table.combine_chunks()
    for one in variables:
        column = _array(table.column(one.column))
        if column.null_count == len(column):
            continue
        if one.kind == VALUE:
            for i, lived in zip(_known(column), _lived(column.drop_null()), strict=True):
                states[i].values[one.name] = lived
            continue
        starts, items = _parts(column)
        if one.kind == LIST:
            ones = list(_lived(items))
            for i, start, stop in starts:
                states[i].lists[one.name] = ones[start:stop]
        else:
            keys = _fields(items.field("key"))
            pairs = [
                (as_known(key), (key, lived))
                for key, lived in zip(keys, _lived(items), strict=True)
            ]
            for i, start, stop in starts:
                states[i].maps[one.name] = dict(pairs[start:stop])
    for state, timers in zip(states, table.column(TIMERS).to_pylist(), strict=True):
        state.timers = set(timers or ())
    for state, look in zip(states, table.column(LOOK).to_pylist(), strict=True):
        state.look = look
    return states


def write_states(variables: Sequence[Variable], states: Sequence[KeyState], now: int) -> pa.Table:
    """The rows of these states. A state with nothing in it is a row of nulls.

    A key whose next moment has come or moved nearer gets a new `look`; else it keeps the one it has,
    because a look too early does no harm, and a new one has to be written down.

    Parameters:
        now: what is due by now will be looked at in the next batch.
    """
    arrays = []
    for one in variables:
        if one.kind == VALUE:
            found = [state.values.get(one.name) for state in states]
            arrays.append(_written(one, [lived for lived in found if lived], found))
            continue
        if one.kind == LIST:
            lists = [state.lists.get(one.name) for state in states]
            items = _written(one, [lived for ones in lists for lived in ones or ()])
            lengths = [len(ones) if ones else None for ones in lists]
        else:
            maps = [state.maps.get(one.name) for state in states]
            pairs = [pair for known in maps for pair in (known or {}).values()]
            items = _written(one, [lived for _, lived in pairs], keys=[key for key, _ in pairs])
            lengths = [len(known) if known else None for known in maps]
        arrays.append(_lists(items, lengths, one.type))
    timers = [sorted(state.timers) or None for state in states]
    arrays.append(pa.array(timers, pa.list_(pa.int64())))
    for state in states:
        due = state.due()
        due = None if due is None else max(due, now)
        if due is None or state.look is None or not now < state.look <= due:
            state.look = due
    arrays.append(pa.array([state.look for state in states], pa.int64()))
    return pa.table(arrays, schema=state_columns(variables))


def empty_rows(table: pa.Table) -> np.ndarray:
    """Which rows of state have nothing in them."""
    empty = np.ones(table.num_rows, np.bool_)
    for column in table.columns:
        empty &= column.is_null().to_numpy()
    return empty


def _array(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks else pa.array([], column.type)


def _known(column: pa.Array) -> list[int]:
    return list(np.flatnonzero(column.is_valid().to_numpy(zero_copy_only=False)).tolist())


def _parts(column: pa.Array) -> tuple[list[tuple[int, int, int]], pa.StructArray]:
    """(row, first part, end) of every list that is there; and the parts of all."""
    lengths = column.value_lengths().fill_null(0).to_numpy()
    ends = np.cumsum(lengths)
    known = np.flatnonzero(lengths)
    bounds = zip(known, (ends - lengths)[known], ends[known], strict=True)
    return [(int(i), int(a), int(b)) for i, a, b in bounds], column.flatten()


def _lived(column: pa.StructArray) -> Iterator[Lived]:
    return zip(_fields(column.field(VALUE)), column.field("until").to_pylist(), strict=True)


def _fields(column: pa.StructArray) -> list[Fields]:
    if not column.type.num_fields:
        return [()] * len(column)
    parts = [part.to_pylist() for part in column.flatten()]
    return list(zip(*parts, strict=True))


def _written(
    one: Variable,
    lived: list[Lived],
    places: list[Lived | None] | None = None,
    keys: list[Fields] | None = None,
) -> pa.Array:
    """Values with the moment until which they live, as structs.

    Parameters:
        places: where they are, None where there is none; one after the other if not given.
        keys: of a map.
    """
    value = _struct([fields for fields, _ in lived], one.value, one)
    until = pa.array([moment for _, moment in lived], pa.int64())
    children, fields = [value, until], [pa.field(VALUE, one.value), _UNTIL]
    if keys is not None:
        assert one.key is not None
        children.insert(0, _struct(keys, one.key, one))
        fields.insert(0, pa.field("key", one.key))
    packed = pa.StructArray.from_arrays(children, fields=fields)
    if places is None or len(lived) == len(places):
        return packed
    there = np.array([place is not None for place in places])
    return packed.take(pa.array(np.cumsum(there) - 1, mask=~there))


def _struct(rows: list[Fields], kind: pa.StructType, one: Variable) -> pa.StructArray:
    if not kind.num_fields:
        return pa.array([{}] * len(rows), kind)
    columns = list(zip(*rows, strict=True)) if rows else [()] * kind.num_fields
    try:
        arrays = [pa.array(column, part.type) for column, part in zip(columns, kind, strict=True)]
    except (pa.ArrowException, OverflowError, TypeError, ValueError) as error:
        raise InputError(
            f"the state {one.name!r} is {kind}, and a value of it is not: {error}"
        ) from error
    return pa.StructArray.from_arrays(arrays, fields=list(kind))


def _lists(items: pa.Array, lengths: list[int | None], kind: pa.DataType) -> pa.Array:
    ends = np.cumsum([length or 0 for length in lengths])
    offsets = np.concatenate([[0], ends]).astype(np.int64)
    missing = np.array([length is None for length in lengths] + [False], np.bool_)
    roomy = pa.LargeListArray.from_arrays(pa.array(offsets, mask=missing), items)
    return roomy.cast(kind)
