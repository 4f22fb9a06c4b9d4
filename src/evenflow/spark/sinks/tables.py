"""What is checked and made before the first batch: the format is there, and so is the table."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING

from evenflow.model import InputError
from evenflow.spark.columns import quoted
from evenflow.spark.sinks.protocol import Target

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Formats that Spark does not bring, and what to start it with.
_PACKAGES = {
    "delta": "io.delta:delta-spark_{spark}_2.13:4.4.0",
    "iceberg": "org.apache.iceberg:iceberg-spark-runtime-{spark}_2.13:1.12.0",
    "kafka": "org.apache.spark:spark-sql-kafka-0-10_2.13:{version}",
    "avro": "org.apache.spark:spark-avro_2.13:{version}",
}
_COMMON = ("parquet", "orc", "json", "csv", "text", "jdbc", "avro", *_PACKAGES, "memory", "console")


def check_format(target: Target) -> None:
    """Refuse a format that Spark cannot find."""
    try:
        # Asks for the format and reads nothing. What it lacks, such as a path, does not matter here.
        _ = target.spark.read.format(target.format).load().schema
    except Exception as error:
        # A classic session raises Java's own exception, Spark Connect one of PySpark.
        if "[DATA_SOURCE_NOT_FOUND]" in str(error):
            raise InputError(_not_found(target)) from None


def needs_place(target: Target) -> None:
    """Refuse a query without a path and a table."""
    if target.path is None and target.table is None:
        raise InputError(
            f'format {target.format!r} needs a place; write start("path/to/table") or '
            'toTable("catalog.database.table")'
        )


def format_of_table(spark: SparkSession, table: str) -> str | None:
    """The format of a table, in lower case; None if there is no such table."""
    if not spark.catalog.tableExists(table):
        return None
    rows = spark.sql(f"DESCRIBE TABLE EXTENDED {_quoted_table(table)}").collect()
    details = {row[0]: row[1] for row in rows}
    if details.get("Type") == "VIEW" or "Provider" not in details:
        raise InputError(f"toTable({table!r}): this is a view; give the name of a table")
    return str(details["Provider"]).lower()


def prepare_table(target: Target) -> None:
    """Make the table if it is not there; refuse one of another format."""
    table = target.table
    if table is None:
        return
    if target.path is not None:
        raise InputError(
            f'toTable({table!r}): the option "path" is not available here; create the table with '
            "CREATE TABLE … LOCATION first"
        )
    found = format_of_table(target.spark, table)
    if found is not None and found != target.format.lower():
        raise InputError(
            f"toTable({table!r}): the table has the format {found!r}, not {target.format!r}; leave "
            "the format out, or give another table"
        )
    if found is None:
        empty = target.spark.createDataFrame([], target.schema)
        writer = empty.writeTo(_quoted_table(table)).using(target.format)
        if target.partition_by:
            first, *others = (empty[quoted(name)] for name in target.partition_by)
            writer = writer.partitionedBy(first, *others)
        writer.create()


def _quoted_table(table: str) -> str:
    """As it was written where that has quotes; else with each part quoted."""
    return table if "`" in table else ".".join(quoted(part) for part in table.split("."))


def _not_found(target: Target) -> str:
    name, version = target.format.lower(), target.spark.version
    if name in _PACKAGES:
        spark = ".".join(version.split(".")[:2])
        package = _PACKAGES[name].format(spark=spark, version=version)
        return (
            f"Spark {version} does not have the format {name!r}; start it with --packages {package} "
            "(the version that fits your Spark) and the settings in docs/sinks.md"
        )
    near = difflib.get_close_matches(name, _COMMON, 1)
    hint = f"did you mean {near[0]!r}? " if near else ""
    return (
        f"Spark {version} does not have the format {target.format!r}; {hint}Otherwise start it with "
        "the package of that format (--packages), or use foreachBatch(function)"
    )
