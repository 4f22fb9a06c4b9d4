"""The output of a batch as a DataFrame, and how Spark writes it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from evenflow.engine.output import Output
from evenflow.spark.columns import spark_schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, DataFrameWriter, SparkSession


def output_frame(output: Output, spark: SparkSession) -> DataFrame:
    """The rows of a batch's output, as Spark reads them."""
    schema = spark_schema(output.schema)
    if not output.files:
        return spark.createDataFrame([], schema)
    return spark.read.schema(schema).parquet(*(_for_spark(output, name) for name in output.files))


def frame_writer(
    output: Output,
    spark: SparkSession,
    format: str,
    options: Mapping[str, str],
    partition_by: Sequence[str],
) -> DataFrameWriter:
    """A writer that appends the rows of a batch's output in a format of Spark."""
    frame: Any = output_frame(output, spark)
    writer: DataFrameWriter = frame.write.format(format).mode("append").options(**options)
    return writer.partitionBy(*partition_by) if partition_by else writer


def _for_spark(output: Output, name: str) -> str:
    """The address of a file. A plain path would be one of Spark's default file system."""
    where = output.storage.where(name)
    return f"file://{where}" if where.startswith("/") else where
