"""Session windows of Spark's columns: gaps of each row's own, and `session_window(…)` as a key."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from evenflow.model import InputError
from evenflow.operators.sessions import Session
from evenflow.spark.columns import quoted

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

START, END = "__evenflow_session_start", "__evenflow_session_end"

_DAY_TIME = tuple(f"interval {unit}" for unit in ("day", "hour", "minute", "second"))

# Spark marks the columns of its window functions, on classic Spark and on Spark Connect.
_SESSION, _WINDOW = "spark.sessionWindow", "spark.timeWindow"


def with_own_gap(df: DataFrame, time: str, gap: Column) -> tuple[DataFrame, str]:
    """The DataFrame with the end of each row's own session, and that column's name.

    Parameters:
        time: the name of the event time.
        gap: a string such as "5 minutes" or an interval, as Spark's `session_window` takes it.
    """
    from pyspark.errors import AnalysisException
    from pyspark.sql import Column
    from pyspark.sql import functions as F

    if not isinstance(gap, Column):
        raise InputError(
            f'gapDuration takes a duration such as "10 minutes", a timedelta or a Column, got {gap!r}'
        )
    try:
        kind = df.select(gap).schema[0].dataType.simpleString()
        if kind not in ("string", "interval") and not kind.startswith(_DAY_TIME):
            raise InputError(
                f'gapDuration: the column is {kind}, and must be a string such as "10 minutes" or an '
                "interval"
            )
        end = F.col(quoted(time)) + (gap.cast("interval") if kind == "string" else gap)
        return df.withColumn(END, end), END
    except AnalysisException as error:
        first = next(line for line in str(error).splitlines() if line.strip())
        raise InputError(f"gapDuration: {first}") from error


def without_session(
    df: DataFrame, keys: Sequence[Any]
) -> tuple[DataFrame, tuple[Any, ...], Session | None]:
    """The keys without Spark's `session_window(…)`, and in its place the session, if there is one.

    Guarantee: as a key, `F.session_window(…)` is what it is to Spark's `groupBy`, under its alias, if
    it has one. `F.window(…)` is a plain key for a batch DataFrame; a stream has `window(…)` for it.

    Parameters:
        df: the DataFrame; with a session, it gets the columns `START` and `END`.
        keys: as `keyed` takes them.
    """
    from pyspark.errors import AnalysisException
    from pyspark.sql import Column

    if len(keys) == 1 and isinstance(keys[0], list | tuple):
        keys = keys[0]
    left: list[Any] = []
    session: Session | None = None
    for key in keys:
        if not isinstance(key, Column):
            left.append(key)
            continue
        try:
            fields = df.select(key).schema.fields
        except AnalysisException:
            left.append(key)  # what is wrong with it is said where all keys are looked at
            continue
        marks = fields[0].metadata if len(fields) == 1 else {}
        if marks.get(_WINDOW) and df.isStreaming:
            raise InputError(
                "keyed: window(…) as a key has no end to a stream; write "
                '.window("time", "10 minutes") after keyed(…)'
            )
        if not marks.get(_SESSION):
            left.append(key)
            continue
        if session is not None:
            raise InputError("keyed: there are two session windows; a row is in one session")
        session = Session(START, end=END, name=fields[0].name)
        df = _with_bounds(df, key)
    if session is not None and not left:
        raise InputError(
            "keyed takes at least one key column besides session_window(…); write keyed(df, "
            '"user", session_window(…))'
        )
    return df, tuple(left), session


def _with_bounds(df: DataFrame, session: Column) -> DataFrame:
    """The DataFrame with the bounds of each row's own session. Rows in no session are left out."""
    from pyspark.sql import functions as F

    whole = "__evenflow_session"
    bounds = df.select("*", session.alias(whole))
    start = F.col(f"{whole}.start")
    kept = [F.col(quoted(name)) for name in df.columns]
    return bounds.select(*kept, start.alias(START), F.col(f"{whole}.end").alias(END))
