"""What a keyed DataFrame offers for event time: watermarks, windows, sessions, deduplication."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, cast

from evenflow.engine.distinct_rows import DistinctRows
from evenflow.engine.expiring_states import ExpiringStates
from evenflow.engine.keyed_states import KeyedStates
from evenflow.engine.processors import EVENT_TIME, PROCESSING_TIME
from evenflow.engine.session_states import SessionStates
from evenflow.engine.windowed_states import WindowedStates
from evenflow.engine.work import Work
from evenflow.model import InputError
from evenflow.model.durations import microseconds
from evenflow.operators import Operator, Window
from evenflow.operators.deduplication import Deduplication
from evenflow.operators.expiring import Expiring
from evenflow.operators.sessions import Session
from evenflow.spark.columns import arrow_schema, check_columns, with_column
from evenflow.spark.event_time import Watermark, delay_of, no_watermark, own_watermark
from evenflow.spark.session_windows import START, with_own_gap
from evenflow.spark.stream_writer import APPEND, UPDATE

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from evenflow.spark.keyed import Keyed
    from evenflow.spark.result import BalancedDataFrame


class EventTimeVerbs:
    """The methods that know of event time."""

    def withWatermark(self, eventTime: str, delayThreshold: str | timedelta) -> Keyed:
        """Say how late rows may come, as `DataFrame.withWatermark` does.

        A window is over when a row has been seen whose event time is later than the window's end by
        more than the delay. Then its state is dropped; rows of it that come later still are dropped
        and counted. Without this call, the watermark that the DataFrame itself has is used.

        Parameters:
            eventTime: the name of the timestamp column.
            delayThreshold: "10 minutes", or a timedelta.
        """
        keyed = cast("Keyed", self)
        check_columns(keyed.df, [eventTime], "withWatermark")
        delay = microseconds("withWatermark: delayThreshold", delayThreshold, least=0)
        return replace(keyed, watermark=Watermark(eventTime, delay))

    def window(
        self,
        timeColumn: Column | str,
        windowDuration: str | timedelta,
        slideDuration: str | timedelta | None = None,
        startTime: str | timedelta | None = None,
    ) -> Keyed:
        """Group by event-time windows as well: one row per key and window, with the column `window`, a
        struct of `start` and `end`, after the keys.

        Guarantee: the windows of Spark's `window` function, and the rows that Spark's own streaming
        aggregation takes in and drops. State is dropped once its window is over.

        Parameters:
            timeColumn: the event time, a timestamp. Rows where it is null are in no window.
            windowDuration: how long a window is: "10 minutes", or a timedelta.
            slideDuration: how far apart windows begin; None for windows that do not overlap.
            startTime: how long after the full hour, day, … windows begin; "15 minutes" for hourly
                windows at a quarter past.
        """
        keyed = cast("Keyed", self)
        df, name = with_column(keyed.df, timeColumn, "window")
        chosen = Window(
            name,
            size=microseconds("windowDuration", windowDuration),
            slide=microseconds(
                "slideDuration", windowDuration if slideDuration is None else slideDuration
            ),
            start=microseconds(
                "startTime", "0 seconds" if startTime is None else startTime, least=-(1 << 62)
            ),
        )
        chosen.time_type(arrow_schema(df))
        return _in_windows(keyed, df, chosen)

    def sessionWindow(
        self, timeColumn: Column | str, gapDuration: Column | str | timedelta
    ) -> Keyed:
        """Group by sessions as well, as Spark's `session_window` does: one row per key and session,
        with the column `session_window`, a struct of `start` and `end`, after the keys. A session goes
        on while rows of its key come within the gap; it ends that long after its last row.

        Guarantee: the sessions of Spark's `session_window` function, and the rows that Spark's own
        streaming aggregation takes in and drops. A stream puts every session out once, when the
        watermark has passed its end: output mode "append" is the only one, as in Spark. State is
        dropped then.

        Parts of a session meet at the owner of its key, so keys may be split; what is computed must be
        able to merge: every aggregate can, and every `Operator` with a `merge`.

        Parameters:
            timeColumn: the event time, a timestamp. Rows where it is null are in no session.
            gapDuration: "10 minutes", or a timedelta; or a `Column`, for a gap of each row's own: a
                string or an interval. Rows whose gap is null or at most 0 are in no session.

        Example:
            visits = ef.keyed(clicks, "user").sessionWindow("time", "30 minutes").agg(hits=ef.count())
        """
        keyed = cast("Keyed", self)
        df, name = with_column(keyed.df, timeColumn, "sessionWindow")
        if isinstance(gapDuration, str | timedelta):
            session = Session(name, microseconds("gapDuration", gapDuration))
        else:
            df, end = with_own_gap(df, name, gapDuration)
            session = Session(name, end=end)
        session.time_type(arrow_schema(df))
        return _in_windows(keyed, df, session)

    def dropDuplicates(self) -> BalancedDataFrame:
        """Keep one row of each key, as `DataFrame.dropDuplicates` does with the key columns: the first.

        A stream puts a row out in the batch that has it. It remembers every key that it has seen: for
        good, or, if the event time is one of the key columns and there is a watermark, until the
        watermark has passed it. Rows that are later than the watermark allows are dropped, as in Spark.

        Guarantee: one row per key, over all batches; the columns of the DataFrame in their order. Of
        the rows of a key, those of an earlier batch come first. Within a batch, the order of the
        DataFrame holds for a key whose rows are in one of its partitions, under schemes that do not
        split keys; otherwise any row may be first, as in Spark.

        Example:
            once = ef.keyed(events, "id").dropDuplicates()
        """
        keyed = cast("Keyed", self)
        mark = own_watermark(keyed.df, keyed.watermark)
        return _distinct(keyed, mark, within=False)

    def dropDuplicatesWithinWatermark(self) -> BalancedDataFrame:
        """Keep one row of each key, as `DataFrame.dropDuplicatesWithinWatermark` does: a stream forgets
        a key once the watermark has passed the event time of its row by the delay, so its state stays
        small.

        Guarantee: as `dropDuplicates`; rows of a key are duplicates if they are less than the delay
        of the watermark apart. As in Spark, it is for streams with a watermark.

        Example:
            once = (
                ef.keyed(events, "id").withWatermark("time", "1 hour").dropDuplicatesWithinWatermark()
            )
        """
        keyed = cast("Keyed", self)
        what = "dropDuplicatesWithinWatermark"
        if not keyed.df.isStreaming:
            raise InputError(f"{what} is for streams; of a batch DataFrame, use dropDuplicates()")
        mark = own_watermark(keyed.df, keyed.watermark)
        if mark is None:
            raise InputError(
                f"{what} needs a watermark, which says when keys are forgotten: add "
                '.withWatermark("time", "10 minutes"), or use dropDuplicates()'
            )
        return _distinct(keyed, mark, within=True)


def windowed_states(
    df: DataFrame,
    operator: Operator,
    windows: Window | Session,
    watermark: Watermark | None,
    mode: str | None,
) -> Work:
    """An operator on the rows of each key and window.

    Parameters:
        df: with the keys.
        operator: what happens to the rows of a key in a window.
        windows: of which kind.
        watermark: as `withWatermark` was given it.
        mode: the output mode of a stream; None for the usual one.
    """
    if isinstance(windows, Window):
        delay = delay_of(df, watermark, windows.column, "window")
        return WindowedStates(operator, replace(windows, delay=delay, mode=mode or UPDATE))
    if not operator.mergeable:
        raise InputError(
            f"sessionWindow: a row between two sessions makes them one, and {type(operator).__name__} "
            "has no `merge` to put their states together; define merge(a, b)"
        )
    if mode == UPDATE:
        raise InputError(
            'outputMode "update": a session is put out once, when it is over, because its start and '
            'end change until then; use outputMode "append", as with Spark\'s session_window'
        )
    column = windows.column
    if (
        column == START and df.isStreaming
    ):  # of a session window as a key, whose time has no name here
        watermark = own_watermark(df, watermark) or no_watermark("session_window", "time")
        column = watermark.column
    delay = delay_of(df, watermark, column, "sessionWindow")
    return SessionStates(operator, replace(windows, delay=delay))


def expiring_states(
    df: DataFrame, operator: Operator, watermark: Watermark | None, mode: str | None
) -> Work:
    """An operator whose states end by themselves.

    Parameters:
        df: with the keys. A batch DataFrame ends before any state does.
        operator: with a `ttl` or timers.
        watermark: as `withWatermark` was given it.
        mode: the output mode of a stream; None for the usual one.
    """
    who = type(operator).__name__
    time_mode = str(operator.timeMode).lower()
    if time_mode not in (PROCESSING_TIME, EVENT_TIME):
        raise InputError(
            f'{who}: timeMode is "processingTime" or "eventTime", got {operator.timeMode!r}'
        )
    if not df.isStreaming:
        Expiring(operator)  # checked
        return KeyedStates(operator)
    if time_mode == PROCESSING_TIME:
        return ExpiringStates(Expiring(operator), append=mode == APPEND)
    mark = own_watermark(df, watermark)
    if mark is None:
        raise InputError(
            f"{who} goes by event time, which needs a watermark: add "
            '.withWatermark("…", "10 minutes") with the event time and how late rows may come'
        )
    return ExpiringStates(Expiring(operator, mark.column), time_mode, mark.delay, mode == APPEND)


def _in_windows(keyed: Keyed, df: DataFrame, windows: Window | Session) -> Keyed:
    what = "window" if isinstance(windows, Window) else "sessionWindow"
    if keyed.log is not None:
        raise InputError(f"{what} and inOrder(…) cannot be combined; use two queries")
    if keyed.windows is not None and type(keyed.windows) is not type(windows):
        raise InputError(
            "window(…) and sessionWindow(…) cannot be combined: a row is in windows of one kind; use "
            "two queries"
        )
    return replace(keyed, df=df, windows=windows)


def _distinct(keyed: Keyed, mark: Watermark | None, within: bool) -> BalancedDataFrame:
    what = "dropDuplicatesWithinWatermark" if within else "dropDuplicates"
    if keyed.windows is not None or keyed.log is not None:
        raise InputError(
            f"{what} keeps rows of keys; leave window(…), sessionWindow(…) and inOrder(…) out"
        )
    check_columns(keyed.df, keyed.df.columns, what)
    column, delay = (None, 0) if mark is None else mark
    rule = Deduplication(keyed.keys, tuple(keyed.df.columns), column, delay, within)
    rule.check(arrow_schema(keyed.df))
    return keyed._result(lambda mode: DistinctRows(rule))
