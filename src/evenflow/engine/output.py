"""The output of a batch, on its way from the tasks to a sink."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.parquet as pq

from evenflow.storage import Storage, together


@dataclass(frozen=True)
class Output:
    """What one batch puts out: for every key that it touched, the key and what is known of it now.

    Parameters:
        batch: the number of the batch; a batch that is run again has the same.
        storage: where the files are.
        files: the names of Parquet files, complete and durable, which go away after the batch.
        schema: of all of them.
        query: whose output it is; the same for as long as the query's checkpoint lasts.
        origin: of which rows it was made. A batch that is run again has the same; once a checkpoint
            was restored from a backup, a batch of the same number has another. Empty if not known.
    """

    batch: int
    storage: Storage
    files: Sequence[str]
    schema: pa.Schema
    query: str = ""
    origin: str = ""

    def table(self) -> pa.Table:
        """All rows, in memory."""
        contents = together(self.storage, [partial(self.storage.read, name) for name in self.files])
        files = map(pa.BufferReader, contents)
        tables = [pq.read_table(file).cast(self.schema) for file in files]
        return pa.concat_tables([self.schema.empty_table(), *tables])


class Sink(Protocol):
    """Takes the output of one batch after the other. Picklable: it may run in another process.

    `deliver` may be called again with the same batch and the same rows, if the driver died before
    the batch was committed; it is not called again after that.
    """

    def staging(self, default: Storage) -> Storage:
        """Where tasks write the files of the output: the checkpoint, or a place of the sink's own."""
        ...

    def deliver(self, output: Output, session: Any) -> None:
        """Take the output; `session` is the Spark session, None without Spark. An exception stops the
        query before the batch is committed."""
        ...


@dataclass(frozen=True)
class Tables:
    """A sink that keeps the output of every batch in this process. It is lost with it.

    Parameters:
        tables: batch → its rows.
    """

    tables: dict[int, pa.Table] = field(default_factory=dict)

    def staging(self, default: Storage) -> Storage:
        return default

    def deliver(self, output: Output, session: Any) -> None:
        self.tables[output.batch] = output.table()

    def table(self) -> pa.Table:
        """All rows of all batches so far, with a column `batch`."""
        return pa.concat_tables(
            table.append_column("batch", pa.array([batch] * table.num_rows, pa.int64()))
            for batch, table in sorted(self.tables.items())
        )

    def latest(self, *key: str) -> pa.Table:
        """The newest row of each key."""
        from evenflow.operators.grouping_rows import group_rows

        table = self.table()
        newest = table.take(pa.array(range(table.num_rows - 1, -1, -1), pa.int64()))
        _, first = group_rows([newest.column(name) for name in key])
        return newest.take(pa.array(first)).drop_columns(["batch"])
