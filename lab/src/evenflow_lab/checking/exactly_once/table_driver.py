"""A streaming query into Delta and Iceberg that kills itself between delivery and commit.

Runs as `python -m evenflow_lab.checking.exactly_once.table_driver DIRECTORY`, over the files of
`DIRECTORY/in`, with the pyspark of `table_formats`. Every batch is killed once, with SIGKILL, after
both tables have it; a run that nobody kills writes what the tables have to `DIRECTORY/tables.json`.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import evenflow as ef
from evenflow.engine.output import Output, Sink
from evenflow.operators import Aggregates
from evenflow.spark.session import local_session
from evenflow.spark.sinks import InCheckpoint, Target
from evenflow.spark.sinks.finding import sink_of
from evenflow_lab.checking.exactly_once.stream import SPARK_SCHEMA, aggregates
from evenflow_lab.checking.table_formats import table_settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TABLE = "lake.web.hits"


@dataclass(frozen=True)
class KilledAfterDelivery(InCheckpoint):
    """Delivers to several sinks, then kills this process: once for each batch.

    Parameters:
        sinks: that get the output.
        marks: a directory that says which batches have been killed.
    """

    sinks: tuple[Sink, ...]
    marks: Path

    def deliver(self, output: Output, session: Any) -> None:
        for sink in self.sinks:
            sink.deliver(output, session)
        try:
            os.close(os.open(self.marks / str(output.batch), os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return
        os.kill(os.getpid(), signal.SIGKILL)


def main(directory: Path) -> None:
    """Run it until all files are worked on, or this process is dead."""
    settings = {"spark.sql.shuffle.partitions": 2, **table_settings(directory / "warehouse")}
    spark = local_session("local[2]", "killed", **settings)
    reader = spark.readStream.schema(SPARK_SCHEMA).option("maxFilesPerTrigger", 1)
    keyed = ef.keyed(reader.parquet(str(directory / "in")), "page").balance("key", partitions=2)
    result = keyed.apply(Aggregates(**aggregates()))
    hits = str(directory / "hits")
    delta = Target("delta", result.schema, spark, path=hits)
    iceberg = Target("iceberg", result.schema, spark, table=TABLE)
    sinks = tuple(sink_of(target.format, target) for target in (delta, iceberg))
    writer = result.writeStream.format(KilledAfterDelivery(sinks, directory / "marks"))
    writer.option("checkpointLocation", directory / "ckpt").trigger(availableNow=True)
    writer.start().awaitTermination()
    found = {"delta": rows_of(spark, f"delta.`{hits}`"), "iceberg": rows_of(spark, TABLE)}
    (directory / "tables.json").write_text(json.dumps(found))
    spark.stop()


def rows_of(spark: SparkSession, table: str) -> list[list[Any]]:
    """All rows of a table."""
    return [list(row) for row in spark.table(table).select("page", *aggregates()).collect()]


if __name__ == "__main__":
    main(Path(sys.argv[1]))
