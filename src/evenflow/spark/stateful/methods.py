"""`transformWithState` and its relatives, as methods of `Keyed`."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from evenflow.engine.job import Job
from evenflow.engine.processor_states import ProcessorStates
from evenflow.engine.processors import EVENT_TIME, NONE, PROCESSING_TIME, Processor
from evenflow.engine.work import Work
from evenflow.model import InputError
from evenflow.spark.columns import is_connect, spark_schema
from evenflow.spark.event_time import Watermark, own_watermark
from evenflow.spark.jobs import start_query
from evenflow.spark.names import INITIAL
from evenflow.spark.result import BalancedStream
from evenflow.spark.stateful.frames import FrameSettings
from evenflow.spark.stateful.group_state import GroupStateFunction
from evenflow.spark.stateful.initial import as_rows, initial_rows, with_initial
from evenflow.spark.stateful.processor import declare
from evenflow.spark.stateful.values import struct_type

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, GroupedData
    from pyspark.sql.streaming.stateful_processor import StatefulProcessor
    from pyspark.sql.types import StructType

    from evenflow.spark.keyed import Keyed
    from evenflow.spark.query import StreamingQuery
    from evenflow.spark.result import BalancedDataFrame
    from evenflow.spark.stream_writer import StreamSettings

_TIME_MODES = {mode.lower(): mode for mode in (NONE, PROCESSING_TIME, EVENT_TIME)}
_TIMEOUTS = {
    "NoTimeout": NONE,
    "ProcessingTimeTimeout": PROCESSING_TIME,
    "EventTimeTimeout": EVENT_TIME,
}


class _Asked(NamedTuple):
    """What the arguments of a method come to."""

    schema: StructType
    mode: str
    watermark: Watermark | None
    settings: FrameSettings


class StatefulMethods(ABC):
    """Keyed work with a state that is written variable by variable, and with timers."""

    df: DataFrame
    keys: tuple[str, ...]
    watermark: Watermark | None
    windows: Any
    log: Any

    @abstractmethod
    def _job_on(self, df: DataFrame, work: Work) -> Job:
        """The computation without its data, checked."""

    @abstractmethod
    def _frame_on(self, df: DataFrame, job: Job) -> DataFrame:
        """The result for a batch DataFrame."""

    def transformWithStateInPandas(
        self,
        statefulProcessor: StatefulProcessor,
        outputStructType: StructType | str,
        outputMode: str,
        timeMode: str,
        initialState: GroupedData | Keyed | None = None,
        eventTimeColumnName: str = "",
    ) -> BalancedDataFrame:
        """Do stateful work with a processor of PySpark's, unchanged, that is given pandas DataFrames.

        Guarantee: the calls, states and rows of `df.groupBy(…).transformWithStateInPandas(…)`: all rows
        of a key in one call per batch, then each timer that is due, once. States and timers are kept
        exactly once, and move with their keys.

        Parameters:
            statefulProcessor: a `pyspark.sql.streaming.StatefulProcessor`.
            outputStructType: the schema of the rows that it gives.
            outputMode: "update" or "append"; both put out every row that it gives, once.
            timeMode: "none", "processingTime" or "eventTime": what its timers go by. A TTL needs
                "processingTime".
            initialState: a batch DataFrame, grouped by as many key columns, whose rows
                `handleInitialState` gets before the first batch.
            eventTimeColumnName: accepted as PySpark has it. The result of a stream is written, not
                transformed further, so nobody asks for its watermark.
        """
        return self._transformed(
            statefulProcessor,
            outputStructType,
            outputMode,
            timeMode,
            initialState,
            True,
            eventTimeColumnName,
        )

    def transformWithState(
        self,
        statefulProcessor: StatefulProcessor,
        outputStructType: StructType | str,
        outputMode: str,
        timeMode: str,
        initialState: GroupedData | Keyed | None = None,
        eventTimeColumnName: str = "",
    ) -> BalancedDataFrame:
        """`transformWithStateInPandas`, for a processor that is given and gives `Row`s."""
        return self._transformed(
            statefulProcessor,
            outputStructType,
            outputMode,
            timeMode,
            initialState,
            False,
            eventTimeColumnName,
        )

    def applyInPandasWithState(
        self,
        func: Callable[..., Any],
        outputStructType: StructType | str,
        stateStructType: StructType | str,
        outputMode: str,
        timeoutConf: str,
    ) -> BalancedDataFrame:
        """Do stateful work with a function of key, DataFrames and `GroupState`, unchanged.

        Guarantee: the calls, states and rows of `df.groupBy(…).applyInPandasWithState(…)`: every key
        with rows, then every key that has timed out.

        Parameters:
            func: takes the key as a tuple, an iterator of DataFrames and a
                `pyspark.sql.streaming.state.GroupState`, and gives DataFrames.
            outputStructType: the schema of the rows that it gives.
            stateStructType: the schema of its state.
            outputMode: "update" or "append".
            timeoutConf: one of `pyspark.sql.streaming.state.GroupStateTimeout`.
        """
        what = "applyInPandasWithState"
        if timeoutConf not in _TIMEOUTS:
            raise InputError(
                f"{what}: timeoutConf is one of {', '.join(_TIMEOUTS)}, got {timeoutConf!r}"
            )
        asked = self._asked(what, outputStructType, outputMode, _TIMEOUTS[timeoutConf])
        function = GroupStateFunction.of(
            func,
            asked.schema,
            struct_type(stateStructType, f"{what}: stateStructType"),
            timeoutConf,
            asked.watermark is not None,
            asked.settings,
        )
        return self._stateful(function, asked, None)

    def _transformed(
        self,
        processor: StatefulProcessor,
        schema: StructType | str,
        output_mode: str,
        time_mode: str,
        initial: GroupedData | Keyed | None,
        pandas: bool,
        event_time: str,
    ) -> BalancedDataFrame:
        from pyspark.sql.streaming.stateful_processor import StatefulProcessor

        what = "transformWithStateInPandas" if pandas else "transformWithState"
        if not isinstance(processor, StatefulProcessor):
            raise InputError(
                f"{what} takes an instance of a subclass of pyspark.sql.streaming.StatefulProcessor, "
                f"got {processor!r}"
            )
        mode = _TIME_MODES.get(time_mode.lower()) if isinstance(time_mode, str) else None
        if mode is None:
            raise InputError(
                f'{what}: timeMode is "none", "processingTime" or "eventTime", got {time_mode!r}'
            )
        asked = self._asked(what, schema, output_mode, mode)
        if event_time and event_time not in asked.schema.names:
            raise InputError(
                f"{what}: eventTimeColumnName is a column of the output, which has "
                f"{', '.join(asked.schema.names)}; got {event_time!r}"
            )
        column = None if initial is None else INITIAL
        declared = declare(processor, asked.schema, mode, pandas, asked.settings, column)
        first = None if initial is None else as_rows(self.df, self.keys, initial, what)
        return self._stateful(declared, asked, first)

    def _asked(self, what: str, schema: StructType | str, output_mode: str, mode: str) -> _Asked:
        if self.windows is not None or self.log is not None:
            raise InputError(
                f"{what} and window(…) or inOrder(…) cannot be combined; leave them out, or use two "
                "queries"
            )
        if not isinstance(output_mode, str) or output_mode.lower() not in ("update", "append"):
            raise InputError(f'{what}: outputMode is "update" or "append", got {output_mode!r}')
        watermark = own_watermark(self.df, self.watermark)
        if mode == EVENT_TIME and watermark is None and self.df.isStreaming:
            raise InputError(
                f"{what}: timers in event time need a watermark: add "
                '.withWatermark("…", "10 minutes") with the event time and how late rows may come'
            )
        return _Asked(
            struct_type(schema, f"{what}: outputStructType"),
            mode,
            watermark,
            FrameSettings.of(self.df.sparkSession),
        )

    def _stateful(
        self, processor: Processor, asked: _Asked, initial: DataFrame | None
    ) -> BalancedDataFrame:
        """The result of a processor."""
        work = ProcessorStates(
            processor,
            asked.mode,
            None if asked.watermark is None else asked.watermark.column,
            0 if asked.watermark is None else asked.watermark.delay,
            None if initial is None else INITIAL,
            int(time.time() * 1000),
        )
        df = self.df if initial is None else with_initial(self.df, initial)
        job = self._job_on(df, work)
        if not df.isStreaming:
            rows = df if initial is None else df.unionByName(initial_rows(df, initial))
            return cast("BalancedDataFrame", self._frame_on(rows, job))
        if initial is not None and is_connect(df):
            raise InputError(
                "initialState of a stream needs a classic Spark session; on Spark Connect, write the "
                "initial rows into the stream's source"
            )

        def schema() -> StructType:
            return spark_schema(job.output_schema())

        def start(settings: StreamSettings) -> StreamingQuery:
            first = None if initial is None else initial_rows(df, initial)
            return start_query(df, job, settings, first)

        return cast("BalancedDataFrame", BalancedStream(schema, start))
