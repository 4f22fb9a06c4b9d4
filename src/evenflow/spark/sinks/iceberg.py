"""The format "iceberg": an Iceberg table, each batch in one snapshot."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar

from evenflow.engine.output import Output
from evenflow.model import InputError
from evenflow.spark.sinks.frames import frame_writer
from evenflow.spark.sinks.protocol import InCheckpoint, Target
from evenflow.spark.sinks.tables import check_format, needs_place, prepare_table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

QUERY, BATCH = "evenflow.query", "evenflow.batch"  #: in the summary of a snapshot


@dataclass(frozen=True)
class IcebergSink(InCheckpoint):
    """Appends the output of each batch to an Iceberg table.

    Guarantee: every batch is in the table exactly once. The summary of a batch's snapshot has the id of
    the query and the number of the batch, which come into the table with the rows, in one commit.
    Before a batch is appended, the table is asked for the query's newest one; what it has is skipped.

    Where it ends: if the snapshot of the last batch has expired while no driver was running; and if a
    driver is frozen between asking and appending for so long that another one takes over.

    Parameters:
        table: its name in a catalog.
        options: of Iceberg's writer.
        partition_by: columns.
    """

    name: ClassVar[str] = "iceberg"
    temporary: ClassVar[bool] = False
    table: str
    options: Mapping[str, str] = field(default_factory=dict)
    partition_by: tuple[str, ...] = ()

    @classmethod
    def of(cls, target: Target) -> IcebergSink:
        check_format(target)
        needs_place(target)
        table = str(target.table or target.path)
        if "/" in table:
            raise InputError(
                f"{table!r} is a path, and Iceberg finds its tables in a catalog; give a table's name, "
                'toTable("catalog.database.table"); a catalog of the type "hadoop" keeps its tables '
                "below a path"
            )
        prepare_table(replace(target, table=table, path=None))
        return cls(table, dict(target.options), target.partition_by)

    def deliver(self, output: Output, session: Any) -> None:
        newest = newest_batch(session, self.table, output.query)
        if newest is not None and newest >= output.batch:
            return  # from a driver that died before it could commit: the rows are the same
        mark = {QUERY: output.query, BATCH: str(output.batch)}
        options = {**self.options, **{f"snapshot-property.{key}": mark[key] for key in mark}}
        writer = frame_writer(output, session, self.name, options, self.partition_by)
        writer.saveAsTable(self.table)


def newest_batch(spark: SparkSession, table: str, query: str) -> int | None:
    """The number of the newest batch of a query that an Iceberg table has; None if it has none.

    Reads the table's metadata file, which an append reads as well, and no manifests. A snapshot that
    somebody has rolled back counts as one that the table has.
    """
    spark.catalog.refreshTable(
        table
    )  # Iceberg's catalog keeps what it once loaded for some seconds
    snapshots = spark.table(f"{table}.snapshots").where(f"summary['{QUERY}'] = '{query}'")
    found = snapshots.selectExpr(f"max(CAST(summary['{BATCH}'] AS BIGINT))").first()
    return None if found is None or found[0] is None else int(found[0])
