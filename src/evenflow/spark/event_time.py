"""How late rows may come: the watermark that was asked for, here or of the DataFrame."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

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
        raise InputError(
            f"{what} on a stream needs a watermark, so that state can be dropped: add "
            f'.withWatermark({column!r}, "10 minutes"), with how late rows may come'
        )
    if watermark.column != column:
        raise InputError(
            f"{what}: the event time is {column!r} and the watermark is on {watermark.column!r}; give "
            "both the same column"
        )
    return watermark.delay
