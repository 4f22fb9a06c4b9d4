"""The handle of a stateful processor: its state variables and timers, as PySpark has them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn

from evenflow.engine.processors import NONE, PROCESSING_TIME
from evenflow.model import InputError
from evenflow.operators.state_variables import (
    LIST,
    MAP,
    VALUE,
    KeyState,
    Variable,
    as_known,
)
from evenflow.spark.stateful.values import Converter, arrow_struct, struct_type

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


@dataclass(frozen=True)
class Declared:
    """A state variable, as the processor's `init` has declared it.

    Parameters:
        variable: for the engine.
        value: the schema of a value.
        key: of a map's keys.
    """

    variable: Variable
    value: StructType
    key: StructType | None = None


class Handle:
    """What `init` of a stateful processor is given: PySpark's `StatefulProcessorHandle`.

    Parameters:
        time_mode: what timers go by.
        known: the variables by name, as they were declared when the query was defined; None to
            declare them now, where schemas given as text can be parsed.
    """

    def __init__(self, time_mode: str, known: Mapping[str, Declared] | None = None) -> None:
        self._time_mode = time_mode
        self._known = known
        self.declared: dict[str, Declared] = {}
        self.deleted: set[str] = set()
        self.key: KeyState | None = None  #: the state of the key that is worked on
        self.now = -1

    # --- state variables -------------------------------------------------------------------------

    def getValueState(
        self, stateName: str, schema: StructType | str, ttlDurationMs: int | None = None
    ) -> ValueState:
        """A variable with one value."""
        return ValueState(self, self._declare(VALUE, stateName, schema, None, ttlDurationMs))

    def getListState(
        self, stateName: str, schema: StructType | str, ttlDurationMs: int | None = None
    ) -> ListState:
        """A variable with a list of values."""
        return ListState(self, self._declare(LIST, stateName, schema, None, ttlDurationMs))

    def getMapState(
        self,
        stateName: str,
        userKeySchema: StructType | str,
        valueSchema: StructType | str,
        ttlDurationMs: int | None = None,
    ) -> MapState:
        """A variable with a value for each of some keys of the user's own."""
        return MapState(
            self, self._declare(MAP, stateName, valueSchema, userKeySchema, ttlDurationMs)
        )

    def deleteIfExists(self, stateName: str) -> None:
        """Forget a variable, with all that was stored in it."""
        if self.key is not None:
            refuse("deleting state", "deleteIfExists belongs into init")
        self.deleted.add(stateName)
        self.declared.pop(stateName, None)

    def _declare(
        self,
        kind: str,
        name: str,
        schema: StructType | str,
        key_schema: StructType | str | None,
        ttl: int | None,
    ) -> Declared:
        doing = f"initializing {kind} state"
        if self.key is not None:
            refuse(doing, f"the state {name!r} must be asked for in init")
        if not isinstance(name, str) or not name:
            refuse(doing, f"its name must be text, got {name!r}")
        if self._known is not None:
            # One that is not known is deleted again later in init, or refused after it.
            found = self._known.get(name) or _deleted(name, kind)
            self.declared[name] = found
            return found
        if name in self.declared:
            refuse(doing, f"the state {name!r} is declared twice")
        if ttl is not None and ttl != 0:
            if self._time_mode != PROCESSING_TIME:
                raise InputError(
                    f"the state {name!r} has a TTL, which goes by processing time; set "
                    'timeMode="ProcessingTime", or leave ttlDurationMs out'
                )
            if isinstance(ttl, bool) or not isinstance(ttl, int) or ttl < 0:
                raise InputError(
                    f"ttlDurationMs of the state {name!r} must be above 0, got {ttl!r}"
                )
        value = struct_type(schema, f"the schema of the state {name!r}")
        key = None
        if key_schema is not None:
            key = struct_type(key_schema, f"the key schema of the state {name!r}")
        variable = Variable(
            name, kind, arrow_struct(value), None if key is None else arrow_struct(key), ttl or None
        )
        self.declared[name] = Declared(variable, value, key)
        return self.declared[name]

    # --- timers ----------------------------------------------------------------------------------

    def registerTimer(self, expiryTimestampMs: int) -> None:
        """Have `handleExpiredTimer` called for this key once it is so late, in milliseconds."""
        self._timers("register timer").add(int(expiryTimestampMs))

    def deleteTimer(self, expiryTimestampMs: int) -> None:
        """Forget a timer of this key; one that is not there is fine."""
        self._timers("deleting timer").discard(int(expiryTimestampMs))

    def listTimers(self) -> Iterator[int]:
        """The timers of this key, soonest first."""
        return iter(sorted(self._timers("listing timers")))

    def _timers(self, doing: str) -> set[int]:
        if self._time_mode == NONE:
            refuse(doing, 'there are no timers with timeMode="None"; set it to another')
        if self.key is None:
            refuse(doing, "timers belong to a key; use them outside of init and close")
        return self.key.timers

    # --- for the variables -----------------------------------------------------------------------

    def state_of(self, name: str, doing: str) -> KeyState:
        """The state of the key that is worked on."""
        if name not in self.declared:
            refuse(doing, f"the state {name!r} was deleted with deleteIfExists")
        if self.key is None:
            refuse(doing, f"the state {name!r} belongs to a key; use it outside of init and close")
        return self.key


class _State:
    """What all kinds of state variables share."""

    def __init__(self, handle: Handle, declared: Declared) -> None:
        self._handle = handle
        self._name = declared.variable.name
        self._ttl = declared.variable.ttl
        self._convert = Converter(declared.value, self._name)

    def _key(self, doing: str) -> KeyState:
        return self._handle.state_of(self._name, f"{doing} state")

    def _until(self) -> int | None:
        return None if self._ttl is None else self._handle.now + self._ttl

    def _written(self, doing: str, value: Any) -> tuple[Any, ...]:
        return wrapped(f"{doing} state", self._convert, value)


class ValueState(_State):
    """One value."""

    def exists(self) -> bool:
        """Whether there is a value."""
        return self._found("checking value", "exists") is not None

    def get(self) -> tuple[Any, ...] | None:
        """The value; None if there is none."""
        found = self._found("getting value")
        return None if found is None else self._convert.read(found)

    def update(self, newValue: tuple[Any, ...]) -> None:
        """Write the value."""
        values = self._key("updating value").values
        values[self._name] = (self._written("updating value", newValue), self._until())

    def clear(self) -> None:
        """Remove the value."""
        self._key("clearing value").values.pop(self._name, None)

    def _found(self, doing: str, what: str = "") -> tuple[Any, ...] | None:
        key = self._handle.state_of(self._name, " ".join(filter(None, (doing, "state", what))))
        found = key.values.get(self._name)
        return None if found is None else found[0]


class ListState(_State):
    """A list of values."""

    def exists(self) -> bool:
        """Whether there are values."""
        return bool(self._key("checking list").lists.get(self._name))

    def get(self) -> Iterator[tuple[Any, ...]]:
        """The values, in order."""
        return map(self._convert.read, self._found("getting list"))

    def put(self, newState: Sequence[tuple[Any, ...]]) -> None:
        """Replace all values."""
        lists = self._key("updating list").lists
        lists[self._name] = self._all("updating list", newState)

    def appendValue(self, newState: tuple[Any, ...]) -> None:
        """Add a value at the end."""
        self.appendList([newState])

    def appendList(self, newState: Sequence[tuple[Any, ...]]) -> None:
        """Add values at the end."""
        lists = self._key("updating list").lists
        added = self._all("updating list", newState)
        lists.setdefault(self._name, []).extend(added)

    def clear(self) -> None:
        """Remove all values."""
        self._key("clearing list").lists.pop(self._name, None)

    def _found(self, doing: str) -> list[tuple[Any, ...]]:
        found = self._key(doing).lists.get(self._name, ())
        return [value for value, _ in found]

    def _all(
        self, doing: str, values: Sequence[tuple[Any, ...]]
    ) -> list[tuple[tuple[Any, ...], int | None]]:
        if not values:
            refuse(f"{doing} state", f"the list {self._name!r} cannot be empty; use clear()")
        until = self._until()
        return [(self._written(doing, value), until) for value in values]


class MapState(_State):
    """A value for each of some keys of the user's own."""

    def __init__(self, handle: Handle, declared: Declared) -> None:
        super().__init__(handle, declared)
        assert declared.key is not None
        self._convert_key = Converter(declared.key, self._name)

    def exists(self) -> bool:
        """Whether there are values."""
        return bool(self._key("checking map").maps.get(self._name))

    def getValue(self, key: tuple[Any, ...]) -> tuple[Any, ...] | None:
        """The value of a key; None if there is none."""
        pair = self._key("getting map").maps.get(self._name, {}).get(as_known(self._user_key(key)))
        return None if pair is None else self._convert.read(pair[1][0])

    def containsKey(self, key: tuple[Any, ...]) -> bool:
        """Whether a key has a value."""
        return self.getValue(key) is not None

    def updateValue(self, key: tuple[Any, ...], value: tuple[Any, ...]) -> None:
        """Write the value of a key."""
        maps = self._key("updating map").maps
        own = self._user_key(key)
        lived = (self._written("updating map", value), self._until())
        maps.setdefault(self._name, {})[as_known(own)] = (own, lived)

    def iterator(self) -> Iterator[tuple[tuple[Any, ...], tuple[Any, ...]]]:
        """Keys and values."""
        pairs = self._found("getting map")
        return ((self._convert_key.read(k), self._convert.read(v)) for k, v in pairs)

    def keys(self) -> Iterator[tuple[Any, ...]]:
        """The keys."""
        return (key for key, _ in self.iterator())

    def values(self) -> Iterator[tuple[Any, ...]]:
        """The values."""
        return (value for _, value in self.iterator())

    def removeKey(self, key: tuple[Any, ...]) -> None:
        """Remove a key and its value."""
        known = self._key("removing map").maps.get(self._name, {})
        known.pop(as_known(self._user_key(key)), None)

    def clear(self) -> None:
        """Remove all keys and values."""
        self._key("clearing map").maps.pop(self._name, None)

    def _found(self, doing: str) -> list[tuple[tuple[Any, ...], tuple[Any, ...]]]:
        found = self._key(doing).maps.get(self._name, {})
        return [(key, value) for key, (value, _) in found.values()]

    def _user_key(self, key: tuple[Any, ...]) -> tuple[Any, ...]:
        return wrapped("using map state", self._convert_key, key)


def wrapped(doing: str, convert: Converter, value: Any) -> tuple[Any, ...]:
    """The value as it is stored; what is wrong with it as PySpark's error."""
    try:
        return convert.written(value)
    except (TypeError, ValueError, ArithmeticError) as error:
        refuse(doing, str(error), error)


def refuse(doing: str, why: str, cause: Exception | None = None) -> NoReturn:
    """Raise the error that PySpark raises."""
    from pyspark.errors import PySparkRuntimeError

    raise PySparkRuntimeError(f"Error {doing}: {why}") from cause


def _deleted(name: str, kind: str) -> Declared:
    from pyspark.sql.types import StructType

    nothing = StructType()
    return Declared(Variable(name, kind, arrow_struct(nothing)), nothing, nothing)
