"""The format "memory": a temporary view with all rows."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from evenflow.engine.output import Output, Tables
from evenflow.model import InputError
from evenflow.spark.sinks.protocol import Target

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class MemorySink(Tables):
    """Keeps the output of every batch in this process, for tests and notebooks. It is lost with it.

    `latest(key)` is the newest row of each key.

    Parameters:
        view: the name of a temporary view of all rows, if there is to be one.
        spark: the session that has the view.
    """

    name: ClassVar[str] = "memory"
    temporary: ClassVar[bool] = True
    view: str | None = None
    spark: SparkSession | None = field(default=None, repr=False)

    @classmethod
    def of(cls, target: Target) -> MemorySink:
        target.takes()
        if target.connect:
            raise InputError(
                'format "memory" is not available on Spark Connect, where batches run in another '
                'process; use "parquet" or foreachBatch(function)'
            )
        if target.name is None:
            raise InputError(
                'format "memory" keeps the rows in a temporary view of the query\'s name; add '
                '.queryName("hits"), then read spark.table("hits")'
            )
        return cls(view=target.name, spark=target.spark)

    def deliver(self, output: Output, session: Any) -> None:
        super().deliver(output, session)
        if self.view is not None and self.spark is not None:
            rows = self.table().drop_columns(["batch"])
            # In one piece: of a table in several, Spark 4.3 takes the first and drops the others.
            self.spark.createDataFrame(rows.combine_chunks()).createOrReplaceTempView(self.view)
