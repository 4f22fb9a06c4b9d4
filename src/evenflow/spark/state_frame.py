"""A query's committed state as a DataFrame."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from evenflow.engine.pieces import pieces
from evenflow.engine.stored_state import StoredState
from evenflow.spark.columns import spark_schema
from evenflow.spark.locations import storage_for
from evenflow.spark.names import neutral, with_neutral_names
from evenflow.state.checkpoint import Checkpoint

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_ROWS = 10_000  # of an Arrow batch


@dataclass(frozen=True)
class _ReadState:
    """A `mapInArrow` function that reads the state of the owners whose numbers come in."""

    state: StoredState

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for owner in batch.column(0).to_pylist():
                table = self.state.rows(owner)
                table = table.rename_columns([neutral(i) for i in range(table.num_columns)])
                for start, stop in pieces(table):
                    yield from table.slice(start, stop - start).to_batches(max_chunksize=_ROWS)


def read_state(
    spark: SparkSession,
    path: str | os.PathLike[str],
    batch: int | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> DataFrame:
    """The committed state of a query as a DataFrame: one row per key, or key and window.

    The columns are those of the key, under their names, then the operator's state, then `_batch`, the
    batch that wrote the row. State with event time has `_window_end` or `_expires` after the key. The
    state is the operator's own: a mean is a sum and a count, a sketch is bytes.

    Guarantee: the state after one committed batch, each key once, whatever the query does meanwhile.
    Each partition is read by a task of its own; nothing is collected.

    Parameters:
        spark: a session, classic or Connect.
        path: the checkpoint location of the query.
        batch: a batch that is kept (`evenflow state show` says which); None for the last one.
        storage_options: credentials and settings of its store, where the session and the environment
            do not have them.
    """
    checkpoint = Checkpoint.open(storage_for(spark, path, storage_options))
    state = StoredState.of(checkpoint, batch)
    schema = state.schema()
    owners = spark.range(state.partitions, numPartitions=state.partitions)
    found = owners.mapInArrow(_ReadState(state), spark_schema(with_neutral_names(schema)))
    return found.toDF(*schema.names)
