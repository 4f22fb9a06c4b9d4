"""The queries of a fleet: each function starts a streaming query on a given session.

`counted` is an Evenflow query, `totals` a plain Spark query. Both read the files of a directory and
sleep for every row, so that one machine can stand in for several.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ROWS = "key long, value long"


def counted(
    spark: SparkSession,
    checkpoint: str,
    source: str,
    output: str,
    service: float,
    every: str = "2 seconds",
) -> Any:
    """The number of rows of each key, and their sum: by Evenflow, exactly once."""
    import evenflow as ef
    from evenflow.operators import Aggregates
    from evenflow.operators.service_time import ServiceTime

    work = ServiceTime(Aggregates(rows=ef.count(), total=ef.sum("value")), service)
    return (
        ef.keyed(_rows(spark, source), "key")
        .balance("key", partitions=1)
        .apply(work)
        .writeStream.format("parquet")
        .option("checkpointLocation", checkpoint)
        .trigger(processingTime=every)
        .start(output)
    )


def totals(
    spark: SparkSession,
    checkpoint: str,
    source: str,
    output: str,
    service: float,
    every: str = "2 seconds",
) -> Any:
    """Every row with its value doubled: by Spark's file sink, exactly once."""

    def served(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            time.sleep(batch.num_rows * service)
            yield batch

    rows = _rows(spark, source).mapInArrow(served, ROWS)
    writer = rows.selectExpr("key", "value * 2 AS doubled").writeStream.format("parquet")
    return (
        writer.option("checkpointLocation", checkpoint)
        .option("path", output)
        .trigger(processingTime=every)
        .start()
    )


def _rows(spark: SparkSession, source: str) -> DataFrame:
    # Files are written under hidden names and then renamed, so visible files are complete.
    return spark.readStream.schema(ROWS).parquet(source).coalesce(1)
