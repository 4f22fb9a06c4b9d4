"""Where the output of a streaming query goes."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq

from evenflow.model import InputError
from evenflow.state.checkpoint import local_path
from evenflow.state.durable import sync_directory, write_whole

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_MARK = "_evenflow"  # Spark does not read names that begin with an underscore


@dataclass(frozen=True)
class Output:
    """What one batch has to say: for every key that it touched, the key and what is known of it now.

    Parameters:
        batch: the number of the batch; a batch that is run again has the same.
        files: Parquet files, complete and synced, that go away after the batch.
        schema: of all of them.
        query: whose output it is; the same for as long as the query's checkpoint lasts.
    """

    batch: int
    files: Sequence[Path]
    schema: pa.Schema
    query: str = ""

    def table(self) -> pa.Table:
        """All rows, in memory."""
        return pa.concat_tables(
            [
                self.schema.empty_table(),
                *(pq.read_table(file).cast(self.schema) for file in self.files),
            ]
        )

    def to_df(self, spark: SparkSession) -> DataFrame:
        """All rows, as Spark reads them."""
        from pyspark.sql.pandas.types import from_arrow_schema

        schema = from_arrow_schema(self.schema)
        if not self.files:
            return spark.createDataFrame([], schema)
        return spark.read.schema(schema).parquet(*(str(file) for file in self.files))


class Sink(Protocol):
    """Takes the output of one batch after the other. Picklable: it may run in another process.

    `deliver` may be called again with the same batch and the same rows, if the driver died before
    the batch was committed; it is not called again after that.
    """

    def staging(self, default: Path) -> Path:
        """The directory in which tasks write the files of the output; on the sink's own file system."""
        ...

    def deliver(self, output: Output, spark: SparkSession) -> None:
        """Take it. An exception stops the query before the batch is committed."""
        ...


class _Staged:
    def staging(self, default: Path) -> Path:
        return default


@dataclass(frozen=True)
class ParquetSink:
    """Parquet files in `path/batch=N/`: what Spark, pandas and DuckDB read as one table with a column
    `batch`.

    Guarantee: a reader sees the rows of a batch all or not at all, and never twice, whenever the
    driver dies: a batch's directory appears by one rename, and one that is there is kept. A directory
    with the output of another query is refused.
    """

    path: str

    def staging(self, default: Path) -> Path:
        staging = Path(self.path) / _MARK / "staging"
        _make(staging, "the output directory")
        return staging

    def deliver(self, output: Output, spark: SparkSession) -> None:
        self._check_query(output.query)
        final = Path(self.path) / f"batch={output.batch}"
        if final.exists() or not output.files:
            return  # from a driver that died before it could commit: the rows are the same
        complete = Path(self.path) / _MARK / "staging" / f"{output.batch:010d}-{uuid4().hex}"
        complete.mkdir()
        for file in output.files:
            os.link(file, complete / file.name)
        sync_directory(complete)
        try:
            os.rename(complete, final)
        except OSError:
            if not final.exists():
                raise
            shutil.rmtree(complete)
        sync_directory(final.parent)

    def _check_query(self, query: str) -> None:
        """Take the directory for this query. Batches of another one, maybe one whose checkpoint was
        deleted, have the same numbers and would be taken for this one's."""
        mark = Path(self.path) / _MARK / "query"
        if not mark.exists():
            with suppress(FileExistsError):
                write_whole(mark, [query.encode()], replace=False)
        if mark.read_bytes() != query.encode():
            raise InputError(
                f"{self.path} has the output of another query, with another checkpoint; give this one "
                "a directory of its own, or delete that one"
            )


@dataclass(frozen=True)
class ForEachBatch(_Staged):
    """Calls `function(df, batch)` with the output of each batch as a DataFrame, as `foreachBatch` does.

    Guarantee: every batch is handed over at least once before it is committed, and not after; a batch
    that is handed over again has the same number and rows, so that a transaction keyed by the number
    makes it exactly once.
    """

    function: Callable[[DataFrame, int], object]

    def deliver(self, output: Output, spark: SparkSession) -> None:
        self.function(output.to_df(spark), output.batch)


@dataclass(frozen=True)
class MemorySink(_Staged):
    """Keeps the output of every batch in this process, for tests and notebooks. It is lost with it.

    `latest(key)` is the newest row of each key.
    """

    tables: dict[int, pa.Table] = field(default_factory=dict)

    def deliver(self, output: Output, spark: SparkSession) -> None:
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


@dataclass(frozen=True)
class ConsoleSink(_Staged):
    """Prints the first rows of each batch."""

    rows: int = 20

    def deliver(self, output: Output, spark: SparkSession) -> None:
        table = output.table()
        print(f"batch {output.batch}: {table.num_rows:,} keys")
        for row in table.slice(0, self.rows).to_pylist():
            print("  " + ", ".join(f"{name}={value!r}" for name, value in row.items()))


def parquet(path: str | os.PathLike[str]) -> ParquetSink:
    """Exactly-once Parquet files under `path`."""
    return ParquetSink(str(local_path(os.fspath(path))))


def foreach_batch(function: Callable[[Any, int], object]) -> ForEachBatch:
    """A function of one's own, called with a DataFrame and the batch's number."""
    if not callable(function):
        raise InputError(f"foreach_batch takes a function of (df, batch), got {function!r}")
    return ForEachBatch(function)


def memory() -> MemorySink:
    """Output kept in this process."""
    return MemorySink()


def console(rows: int = 20) -> ConsoleSink:
    """Output printed."""
    return ConsoleSink(rows)


def clear_staging(directory: Path, batch: int) -> None:
    """Drop what batches up to this one, which is committed, have left behind: tasks that failed, and
    drivers that died."""
    for entry in directory.iterdir():
        number = entry.name.partition("-")[0]
        if not number.isdigit() or int(number) > batch:
            continue
        if entry.is_dir():
            shutil.rmtree(entry, ignore_errors=True)
        else:
            entry.unlink(missing_ok=True)


def _make(directory: Path, what: str) -> None:
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{what} {directory} cannot be made: {error.strerror}") from error
