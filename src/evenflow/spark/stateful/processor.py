"""A `StatefulProcessor` of PySpark's, as the engine calls it."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.types as types

from evenflow.engine.processors import Times
from evenflow.model import InputError
from evenflow.operators.state_variables import KeyState, Variable
from evenflow.spark.columns import arrow_types
from evenflow.spark.stateful.frames import FrameSettings, GroupedFrames, key_values
from evenflow.spark.stateful.handle import Declared, Handle
from evenflow.spark.stateful.results import FrameResults, RowResults

if TYPE_CHECKING:
    from pyspark.sql.streaming.stateful_processor import StatefulProcessor
    from pyspark.sql.types import StructType

_METHODS = {
    "initial": "handleInitialState",
    "input": "handleInputRows",
    "expired": "handleExpiredTimer",
    "close": "close",
}


@dataclass(frozen=True)
class PySparkProcessor:
    """A user's `StatefulProcessor`.

    Each task begins with a copy of the processor as it was when the query was defined: what it keeps
    in attributes is lost between batches, as in Spark.

    Parameters:
        name: of its class.
        pickled: the processor.
        declared: its state variables, as `init` asked for them.
        deleted: the variables that `init` has deleted.
        schema: of its output.
        time_mode: what its timers go by.
        pandas: whether it is given DataFrames, or else `Row`s.
        settings: Spark's.
        initial: the column with the initial state, if there is one.
    """

    name: str
    pickled: bytes = field(repr=False)
    declared: tuple[Declared, ...]
    deleted: tuple[str, ...]
    schema: StructType
    time_mode: str
    pandas: bool
    settings: FrameSettings
    initial: str | None = None

    def variables(self) -> Sequence[Variable]:
        return [declared.variable for declared in self.declared]

    def output_schema(self) -> pa.Schema:
        return arrow_types(self.schema)

    def signature(self) -> str:
        return "transformWithState"

    def called(self, call: str) -> str:
        return f"{self.name}.{_METHODS[call]}"

    def begin(self, times: Times) -> ProcessorCalls:
        return ProcessorCalls(self, times)


def declare(
    processor: StatefulProcessor,
    schema: StructType,
    time_mode: str,
    pandas: bool,
    settings: FrameSettings,
    initial: str | None,
) -> PySparkProcessor:
    """The processor with its state variables, which its `init` is called for, on a copy.

    Parameters:
        processor: the user's own.
        schema: of its output.
        time_mode, pandas, settings, initial: as in `PySparkProcessor`.
    """
    from pyspark import cloudpickle

    try:
        pickled = cloudpickle.dumps(processor)  # type: ignore[no-untyped-call]
    except Exception as error:
        raise InputError(
            f"{type(processor).__name__} cannot be sent to executors ({error}); open files and "
            "connections in init, and leave Spark's session out"
        ) from error
    handle = Handle(time_mode)
    copied = pickle.loads(pickled)
    copied.init(handle)
    copied.close()
    return PySparkProcessor(
        type(processor).__name__,
        pickled,
        tuple(handle.declared.values()),
        tuple(sorted(handle.deleted)),
        schema,
        time_mode,
        pandas,
        settings,
        initial,
    )


class ProcessorCalls:
    """A `StatefulProcessor` in one task."""

    def __init__(self, processor: PySparkProcessor, times: Times) -> None:
        from pyspark.sql.streaming.stateful_processor import TimerValues

        self._is = processor
        known = {declared.variable.name: declared for declared in processor.declared}
        self._handle = Handle(processor.time_mode, known)
        self._handle.now = times.processing
        self._user = pickle.loads(processor.pickled)
        self._user.init(self._handle)
        if set(self._handle.declared) != set(known):
            raise InputError(
                f"{processor.name}.init asked for the states {sorted(self._handle.declared)}, and for "
                f"{sorted(known)} when the query was defined; it must ask for the same ones always"
            )
        self._times = TimerValues(times.processing, times.watermark)
        self._made: FrameResults | RowResults = (
            FrameResults(processor.schema, processor.settings)
            if processor.pandas
            else RowResults(processor.schema)
        )

    def keys(self, columns: pa.Table) -> list[Any]:
        if self._is.pandas:
            return key_values(columns, self._is.settings)
        return list(zip(*(column.to_pylist() for column in self._zoned(columns)), strict=True))

    def rows(self, rows: pa.Table, bounds: Sequence[int], initial: bool) -> Callable[[int], Any]:
        if initial:
            packed = rows.column(self._is.initial).combine_chunks()
            rows = pa.Table.from_batches([pa.RecordBatch.from_struct_array(packed)])
        if self._is.pandas:
            return GroupedFrames(rows, bounds, self._is.settings)
        from pyspark.sql import Row

        make = Row(*rows.column_names)
        columns = [column.to_pylist() for column in self._zoned(rows)]

        def of(key: int) -> Iterable[Row]:
            start, end = bounds[key], bounds[key + 1]
            return (make(*values) for values in zip(*(c[start:end] for c in columns), strict=True))

        return of

    def _zoned(self, table: pa.Table) -> Iterable[pa.ChunkedArray]:
        """The columns, their timestamps in the zone of the session."""
        for column in table.columns:
            if types.is_timestamp(column.type) and column.type.tz is not None:
                yield column.cast(pa.timestamp(column.type.unit, self._is.settings.zone))
            else:
                yield column

    def initial(self, key: Any, state: KeyState, rows: Any) -> None:
        self._handle.key = state
        for some in rows:
            self._user.handleInitialState(key, some, self._times)

    def input(self, key: Any, state: KeyState, rows: Any) -> None:
        self._handle.key = state
        made = self._user.handleInputRows(key, rows, self._times)
        self._made.add(made, self._is.called("input"), key)

    def expired(self, key: Any, state: KeyState, moment: int) -> None:
        from pyspark.sql.streaming.stateful_processor import ExpiredTimerInfo

        self._handle.key = state
        made = self._user.handleExpiredTimer(key, self._times, ExpiredTimerInfo(moment))
        self._made.add(made, self._is.called("expired"), key)

    def output(self) -> Iterable[pa.Table]:
        return self._made.take()

    def close(self) -> None:
        self._handle.key = None
        self._user.close()
