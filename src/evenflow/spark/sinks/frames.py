"""The output of a batch as a DataFrame, and how Spark writes it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from evenflow.engine.output import Output
from evenflow.spark.columns import spark_schema
from evenflow.spark.locations import spark_address
from evenflow.spark.names import as_pattern

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, DataFrameWriter, SparkSession


def output_frame(output: Output, spark: SparkSession) -> DataFrame:
    """The rows of a batch's output, as Spark reads them."""
    schema = spark_schema(output.schema)
    if not output.files:
        return spark.createDataFrame([], schema)
    places = (spark_address(spark, output.storage.where(name)) for name in output.files)
    return spark.read.schema(schema).parquet(*map(as_pattern, places))


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
