"""Batches without rows, so that timers fire and values end while nothing arrives."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_NO_DATA = "spark.sql.streaming.noDataMicroBatches.enabled"


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
