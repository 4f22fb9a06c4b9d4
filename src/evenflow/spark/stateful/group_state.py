"""A function with a `GroupState`, as `applyInPandasWithState` takes it, as the engine calls it."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from evenflow.engine.processors import Times
from evenflow.model import InputError
from evenflow.operators.state_variables import VALUE, KeyState, Variable
from evenflow.spark.columns import arrow_types
from evenflow.spark.stateful.frames import FrameSettings, GroupedFrames, key_values
from evenflow.spark.stateful.results import FrameResults
from evenflow.spark.stateful.values import Converter, arrow_struct

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

_STATE = "state"


@dataclass(frozen=True)
class GroupStateFunction:
    """A user's function of key, DataFrames and `GroupState`.

    Parameters:
        name: of the function.
        pickled: the function.
        schema: of its output.
        state: of its state.
        timeout: "NoTimeout", "ProcessingTimeTimeout" or "EventTimeTimeout".
        watermark: whether there is one.
        settings: Spark's.
    """

    name: str
    pickled: bytes = field(repr=False)
    schema: StructType
    state: StructType
    timeout: str
    watermark: bool
    settings: FrameSettings

    @classmethod
    def of(
        cls,
        function: Callable[..., Any],
        schema: StructType,
        state: StructType,
        timeout: str,
        watermark: bool,
        settings: FrameSettings,
    ) -> GroupStateFunction:
        """The function, ready to be sent to executors."""
        from pyspark import cloudpickle

        if not callable(function):
            raise InputError(f"applyInPandasWithState takes a function, got {function!r}")
        Converter(state, _STATE)
        name = getattr(function, "__name__", type(function).__name__)
        pickled = cloudpickle.dumps(function)  # type: ignore[no-untyped-call]
        return cls(name, pickled, schema, state, timeout, watermark, settings)

    def variables(self) -> Sequence[Variable]:
        return [Variable(_STATE, VALUE, arrow_struct(self.state))]

    @property
    def deleted(self) -> Sequence[str]:
        return ()

    def output_schema(self) -> pa.Schema:
        return arrow_types(self.schema)

    def signature(self) -> str:
        return "applyInPandasWithState"

    def called(self, call: str) -> str:
        return self.name

    def begin(self, times: Times) -> GroupStateCalls:
        return GroupStateCalls(self, times)


class GroupStateCalls:
    """Such a function in one task. A key has one timer: its timeout."""

    def __init__(self, function: GroupStateFunction, times: Times) -> None:
        self._is, self._times = function, times
        self._function = pickle.loads(function.pickled)
        self._convert = Converter(function.state, _STATE)
        self._made = FrameResults(function.schema, function.settings)

    def keys(self, columns: pa.Table) -> list[Any]:
        return key_values(columns, self._is.settings, numpy=True)

    def rows(self, rows: pa.Table, bounds: Sequence[int], initial: bool) -> Callable[[int], Any]:
        return GroupedFrames(rows, bounds, self._is.settings)

    def initial(self, key: Any, state: KeyState, rows: Any) -> None:
        raise NotImplementedError("applyInPandasWithState has no initial state")

    def input(self, key: Any, state: KeyState, rows: Any) -> None:
        self._call(key, state, rows, timed_out=False)

    def expired(self, key: Any, state: KeyState, moment: int) -> None:
        self._call(key, state, iter(()), timed_out=True)

    def _call(self, key: Any, state: KeyState, rows: Any, timed_out: bool) -> None:
        from pyspark.sql import Row
        from pyspark.sql.streaming.state import GroupState

        known = state.values.get(_STATE)
        group: Any = GroupState(
            optionalValue=Row(*self._convert.read(known[0])) if known else None,  # type: ignore[arg-type]
            batchProcessingTimeMs=self._times.processing,
            eventTimeWatermarkMs=self._times.watermark,
            timeoutConf=self._is.timeout,
            hasTimedOut=timed_out,
            watermarkPresent=self._is.watermark,
            defined=known is not None,
            updated=False,
            removed=False,
            timeoutTimestamp=GroupState.NO_TIMESTAMP,
            keyAsUnsafe=b"",
            valueSchema=self._is.state,
        )
        self._made.add(self._function(key, rows, group), self._is.name, key)
        if group._removed:
            state.values.pop(_STATE, None)
        elif group._updated:
            state.values[_STATE] = (self._convert.written(tuple(group._value)), None)
        state.timers.clear()  # a timeout holds until the next call
        if group._timeout_timestamp != GroupState.NO_TIMESTAMP:
            # A key times out once time is past its timeout; a timer fires when it is reached.
            state.timers.add(int(group._timeout_timestamp) + 1)

    def output(self) -> Iterable[pa.Table]:
        return self._made.take()

    def close(self) -> None:
        pass
