"""Streams made of files, one micro-batch after the other, and how long Spark says each took."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    import evenflow as ef

_FIRST = 1_600_000_000  # the time stamp of the first file


class Feed:
    """A directory of Parquet files that a stream reads in the order in which they were added.

    Parameters:
        folder: the directory; made here.
        sources: files per micro-batch, each of which becomes one source task.
    """

    def __init__(self, folder: str | Path, sources: int = 1) -> None:
        self.folder, self.sources = Path(folder), sources
        self.folder.mkdir(parents=True)
        self._files = 0

    def add(self, table: pa.Table) -> None:
        """One more micro-batch."""
        size = -(-table.num_rows // self.sources)
        for source in range(self.sources):
            name = f"{self._files:06d}.parquet"
            hidden = self.folder / f".{name}"  # Spark does not read names that begin with a dot
            pq.write_table(table.slice(source * size, size), hidden)
            # Spark takes files by their time stamps, which would be equal for quick writers.
            os.utime(hidden, (_FIRST + self._files,) * 2)
            hidden.rename(self.folder / name)
            self._files += 1

    def stream(self, spark: SparkSession) -> DataFrame:
        """The files as a stream."""
        first = min(self.folder.glob("*.parquet"))
        schema = spark.read.parquet(str(first)).schema
        reader = spark.readStream.schema(schema).option("maxFilesPerTrigger", self.sources)
        return reader.parquet(str(self.folder))


def processed(
    result: ef.BalancedDataFrame,
    checkpoint: str | Path,
    on_batch: Callable[[Mapping[str, Any]], object] | None = None,
) -> ef.StreamingQuery:
    """Run a query over what is there, with its output written by the tasks and then dropped."""
    writer = result.writeStream.format("noop").option("checkpointLocation", checkpoint)
    if on_batch is not None:
        writer.onBatch(on_batch)
    query = writer.trigger(availableNow=True).start()
    query.awaitTermination()
    return query


def finished(query: StreamingQuery) -> list[dict[str, Any]]:
    """Wait for a query that takes what there is; Spark's account of each batch, in order."""
    query.awaitTermination()
    batches = {progress["batchId"]: progress for progress in map(_plain, query.recentProgress)}
    return [batches[batch] for batch in sorted(batches)]


def seconds_of(batches: Sequence[dict[str, Any]]) -> list[float]:
    """How long the batches took, from a trigger to its end, by Spark's own clock."""
    return [batch["durationMs"]["triggerExecution"] / 1000 for batch in batches]


def _plain(progress: Any) -> dict[str, Any]:
    import json

    plain: dict[str, Any] = json.loads(progress.json) if hasattr(progress, "json") else progress
    return plain
