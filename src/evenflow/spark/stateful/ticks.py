"""Batches without rows, so that timers fire and values end while nothing arrives."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from evenflow.spark.query import StreamingQuery

_NO_DATA = "spark.sql.streaming.noDataMicroBatches.enabled"
_WRAPPED = "spark.sql.streaming.triggerAvailableNowWrapper.enabled"
_POLL = 0.02  # seconds


def with_ticks(df: DataFrame) -> DataFrame:
    """The stream, with a second source that has no rows and something new every second.

    Spark begins a batch when a source has something new, and knows nothing of our timers. Its own
    setting for batches without rows switches this off, too.

    Parameters:
        df: a streaming DataFrame.
    """
    from pyspark.sql import functions as F

    if str(df.sparkSession.conf.get(_NO_DATA, "true")).lower() != "true":
        return df
    ticks = df.sparkSession.readStream.format("rate").option("rowsPerSecond", 1).load()
    empty = [F.lit(None).cast(field.dataType).alias(field.name) for field in df.schema.fields]
    return df.unionByName(ticks.filter(F.lit(False)).select(*empty))


def start_with_all_available(
    spark: SparkSession, start: Callable[[], StreamingQuery]
) -> StreamingQuery:
    """Start a query with ticks and the trigger `availableNow`.

    Guarantee: it ends once all that the sources had at its start is processed, in batches of the size
    that they are set to. By itself, Spark would run a single batch, because the ticks' source does not
    know this trigger: one of any size, or the one that was cut, and nothing after it.

    Parameters:
        spark: the session, whose setting is as before when this returns.
        start: starts the query.
    """
    before = spark.conf.get(_WRAPPED, "false") or "false"
    spark.conf.set(_WRAPPED, "true")
    try:
        query = start()
        # Spark reads the setting in the query's own thread, when it makes the sources.
        while query.spark_query.isActive and query.status["message"].startswith("Initializing"):
            time.sleep(_POLL)
        return query
    finally:
        spark.conf.set(_WRAPPED, before)
