"""How late rows may come: the watermark that was asked for, here or of the DataFrame."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Never

from evenflow.model import InputError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_SPARKS = "spark.watermarkDelayMs"  # where Spark keeps the delay of `DataFrame.withWatermark`


class Watermark(NamedTuple):
    """How late rows may come.

    Parameters:
        column: the event time.
        delay: in microseconds of event time.
    """

    column: str
    delay: int


def own_watermark(df: DataFrame, given: Watermark | None) -> Watermark | None:
    """The watermark of a streaming DataFrame, with its event time; None without one, and for a batch
    DataFrame.

    Parameters:
        given: what `Keyed.withWatermark` was given; None to look for the DataFrame's own.
    """
    if given is not None or not df.isStreaming:
        return given if df.isStreaming else None
    marked = [f for f in df.schema.fields if f.metadata.get(_SPARKS) is not None]
    if len(marked) > 1:
        raise InputError(
            f"the DataFrame has watermarks on {', '.join(field.name for field in marked)}; say which "
            'one counts with .withWatermark("time", "10 minutes") after keyed(…)'
        )
    return Watermark(marked[0].name, int(marked[0].metadata[_SPARKS]) * 1000) if marked else None


def no_watermark(what: str, column: str) -> Never:
    """Refuse a stream without a watermark.

    Parameters:
        what: the method that needs it, for messages.
        column: the event time.
    """
    raise InputError(
        f"{what} on a stream needs a watermark, so that state can be dropped: add "
        f'.withWatermark({column!r}, "10 minutes"), with how late rows may come'
    )


def delay_of(df: DataFrame, watermark: Watermark | None, column: str, what: str) -> int:
    """How late rows may come by this event time, in microseconds; 0 for a batch DataFrame.

    Parameters:
        watermark: what `Keyed.withWatermark` was given; None to look for the DataFrame's own.
        column: the event time.
        what: the method that needs it, for messages.
    """
    if not df.isStreaming:
        return 0
    if watermark is None:
        milliseconds = df.schema[column].metadata.get(_SPARKS)
        if milliseconds is not None:
            return int(milliseconds) * 1000
        no_watermark(what, column)
    if watermark.column != column:
        raise InputError(
            f"{what}: the event time is {column!r} and the watermark is on {watermark.column!r}; give "
            "both the same column"
        )
    return watermark.delay
