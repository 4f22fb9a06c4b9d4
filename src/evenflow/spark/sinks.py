"""Where the output of a streaming query goes: one sink per format, found by the format's name."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from evenflow.engine.output import Output, Sink, Tables
from evenflow.model import InputError
from evenflow.spark.names import as_pattern
from evenflow.storage import Storage
from evenflow.storage.addresses import local_path, storage_at
from evenflow.storage.durable import sync_directory

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = [
    "FORMAT_OPTIONS",
    "ConsoleSink",
    "ForEachBatch",
    "MemorySink",
    "NoopSink",
    "Output",
    "ParquetSink",
    "Sink",
    "Target",
    "known_formats",
    "sink_of",
]

_MARK = "_evenflow"  # Spark does not read names that begin with an underscore


class _Staged:
    def staging(self, default: Storage) -> Storage:
        return default


@dataclass(frozen=True)
class ParquetSink:
    """Parquet files in `path/batch=N/`: what Spark, pandas and DuckDB read as one table with a column
    `batch`.

    Guarantee: a reader sees the rows of a batch all or not at all, and never twice, whenever the
    driver dies: a batch's directory appears by one rename, and one that is there is kept. A directory
    with the output of another query is refused.

    Parameters:
        path: the directory.
    """

    path: str

    def staging(self, default: Storage) -> Storage:
        return self._own()

    def deliver(self, output: Output, session: Any) -> None:
        self._check_query(output.query)
        final = Path(self.path) / f"batch={output.batch}"
        if final.exists() or not output.files:
            return  # from a driver that died before it could commit: the rows are the same
        # Among the tasks' files, so that what a driver that dies here leaves is cleared with them.
        complete = Path(self.path) / _MARK / "staging" / f"{output.batch:010d}-{uuid4().hex}"
        complete.mkdir(parents=True)
        for name in output.files:
            os.link(output.storage.where(name), complete / Path(name).name)
        sync_directory(complete)
        try:
            os.rename(complete, final)
        except OSError:
            if not final.exists():
                raise
            shutil.rmtree(complete)
        sync_directory(final.parent)

    def prepare(self) -> None:
        """Make the directory; fails here, and not in the first batch, where that is not possible."""
        directory = Path(self._own().where("staging"))
        try:
            directory.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(
                f"the output directory {self.path} cannot be created: {error.strerror}; give another "
                "path, or let this user write there"
            ) from error

    def _own(self) -> Storage:
        return storage_at(self.path).under(_MARK)

    def _check_query(self, query: str) -> None:
        """Take the directory for this query. Batches of another one, maybe one whose checkpoint was
        deleted, have the same numbers and would be taken for this one's."""
        if not self._own().create("query", query.encode()):
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

    def deliver(self, output: Output, session: Any) -> None:
        self.function(output_frame(output, session), output.batch)


@dataclass(frozen=True)
class MemorySink(Tables):
    """Keeps the output of every batch in this process, for tests and notebooks. It is lost with it.

    `latest(key)` is the newest row of each key.

    Parameters:
        view: the name of a temporary view of all rows, if there is to be one.
        spark: the session that has the view.
    """

    view: str | None = None
    spark: SparkSession | None = field(default=None, repr=False)

    def deliver(self, output: Output, session: Any) -> None:
        super().deliver(output, session)
        if self.view is not None and self.spark is not None:
            rows = self.table().drop_columns(["batch"])
            # In one piece: of a table in several, Spark 4.3 takes the first and drops the others.
            self.spark.createDataFrame(rows.combine_chunks()).createOrReplaceTempView(self.view)


@dataclass(frozen=True)
class ConsoleSink(_Staged):
    """Prints the first rows of each batch.

    Parameters:
        rows: how many.
    """

    rows: int = 20

    def deliver(self, output: Output, session: Any) -> None:
        table = output.table()
        print(f"batch {output.batch}: {table.num_rows:,} rows")
        for row in table.slice(0, self.rows).to_pylist():
            print("  " + ", ".join(f"{name}={value!r}" for name, value in row.items()))


@dataclass(frozen=True)
class NoopSink(_Staged):
    """Drops the output; for measuring, and for queries of which only the state counts."""

    def deliver(self, output: Output, session: Any) -> None:
        pass


def output_frame(output: Output, spark: SparkSession) -> DataFrame:
    """The rows of a batch's output, as Spark reads them."""
    from pyspark.sql.pandas.types import from_arrow_schema

    schema = from_arrow_schema(output.schema)
    if not output.files:
        return spark.createDataFrame([], schema)
    files = (as_pattern(output.storage.where(name)) for name in output.files)
    return spark.read.schema(schema).parquet(*files)


@dataclass(frozen=True)
class Target:
    """What a format is given to make its sink.

    Parameters:
        path: of `start(path)` or the option "path".
        options: of the writer, by their names in lower case.
        name: of the query.
        spark: the session.
        connect: whether it is one of Spark Connect.
    """

    path: str | None
    options: Mapping[str, str]
    name: str | None
    spark: SparkSession
    connect: bool = False


def _parquet(target: Target) -> ParquetSink:
    if target.path is None:
        raise InputError('format "parquet" needs a directory; write start("path/to/output")')
    sink = ParquetSink(str(local_path(target.path)))
    sink.prepare()
    return sink


def _memory(target: Target) -> MemorySink:
    if target.connect:
        raise InputError(
            'format "memory" is not available on Spark Connect, where batches run in another process; '
            'use "parquet" or foreachBatch(function)'
        )
    if target.name is None:
        raise InputError(
            'format "memory" keeps the rows in a temporary view of the query\'s name; add '
            '.queryName("hits"), then read spark.table("hits")'
        )
    return MemorySink(view=target.name, spark=target.spark)


def _console(target: Target) -> ConsoleSink:
    text = target.options.get("numrows", "20")
    if not text.isdecimal() or int(text) < 1:
        raise InputError(f'option "numRows" takes a whole number of at least 1, got {text!r}')
    return ConsoleSink(int(text))


# A new format is a sink, a function that makes it, and a line here.
_FORMATS: dict[str, Callable[[Target], Sink]] = {
    "parquet": _parquet,
    "memory": _memory,
    "console": _console,
    "noop": lambda target: NoopSink(),
}
FORMAT_OPTIONS = ("numRows",)  #: options that some format takes
FORGETFUL = ("memory", "console", "noop")  #: formats whose queries may do without a checkpoint


def known_formats() -> list[str]:
    """The names of the formats, the default first."""
    return list(_FORMATS)


def sink_of(format: str | Sink | None, target: Target) -> Sink:
    """The sink of a format.

    Parameters:
        format: a format's name, None for "parquet", or a sink, which is returned as it is.
    """
    if format is None or isinstance(format, str):
        return _FORMATS[format or "parquet"](target)
    with suppress(AttributeError):
        if callable(format.staging) and callable(format.deliver):
            return format
    raise InputError(
        f"format takes a name or a sink, an object with `staging` and `deliver`; got {format!r}"
    )
