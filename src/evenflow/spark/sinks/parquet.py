"""The format "parquet": files that every reader of Parquet takes for one table."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, ClassVar
from uuid import uuid4

from evenflow.engine.output import Output
from evenflow.model import InputError
from evenflow.spark.columns import check_columns, quoted
from evenflow.spark.locations import spark_address, storage_for
from evenflow.spark.sinks.few_files import in_few_files
from evenflow.spark.sinks.protocol import Target, another_history
from evenflow.state.errors import explained
from evenflow.storage import Storage, together
from evenflow.storage.durable import sync_directory, write_whole
from evenflow.storage.posix import PosixStorage

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

_MARK = "_evenflow"  # Spark does not read names that begin with an underscore
_COMPLETE = "complete/"  # what is below it has the number of a batch that is there whole
_KEPT = 10  # of these marks; a reader needs the newest
_QUERY = "query"  # says whose output it is
_FOLDER = "batch="  # the directory of a batch, before its number
_ORIGIN = "_origin"  # says of which rows the batch was made
_ROWS_PER_FILE = "rowsPerFile"


@dataclass(frozen=True)
class ParquetSink:
    """Parquet files in `path/batch=N/`: what Spark, pandas and DuckDB read as one table with a column
    `batch`.

    Guarantee: every row is there exactly once after a batch is committed, whenever the driver dies.

    - On a POSIX file system a batch's directory appears by one rename, and one that is there is kept: a
      reader sees a batch whole or not at all.
    - On other stores the files of a batch appear one after the other. Their names follow from the batch
      and the partition, so a batch that is delivered again replaces each file by one with the same
      rows: a reader may see a part of the newest batch, and never a row twice. `read_output` leaves
      the newest batch out until it is whole.

    A place with the output of another query is refused, and so is one that has another batch of this
    number, from before the checkpoint was restored from a backup.

    Parameters:
        storage: where the output goes.
        rows_per_file: files of a batch are put together until they have so many rows; None for one file
            per partition and batch.
    """

    name: ClassVar[str] = "parquet"
    temporary: ClassVar[bool] = False
    storage: Storage
    rows_per_file: int | None = None

    @classmethod
    def of(cls, target: Target) -> ParquetSink:
        target.takes(_ROWS_PER_FILE)
        text = target.option(_ROWS_PER_FILE)
        if text is not None and (not text.isdecimal() or int(text) < 1):
            raise InputError(
                f'option "{_ROWS_PER_FILE}" takes a whole number of at least 1, got {text!r}'
            )
        if target.path is None:
            raise InputError('format "parquet" needs a directory; write start("path/to/output")')
        storage = storage_for(target.spark, target.path, target.storage_options)
        if isinstance(storage, PosixStorage):
            _make_directory(storage)
        return cls(storage, None if text is None else int(text))

    def staging(self, default: Storage) -> Storage:
        return self.storage.under(_MARK)

    def deliver(self, output: Output, session: Any) -> None:
        self.claim(output.query)
        files = output.files
        if self.rows_per_file is not None:
            output = in_few_files(output, self.rows_per_file)
        if isinstance(self.storage, PosixStorage):
            self._rename(output, Path(self.storage.root))
        else:
            self._copy(output)
        output.storage.delete(*sorted(set(output.files) - set(files)))

    def claim(self, query: str) -> None:
        """Take the place for this query. Batches of another one, maybe one whose checkpoint was
        deleted, have the same numbers and would be taken for this one's."""
        if not self.storage.under(_MARK).create(_QUERY, query.encode()):
            raise InputError(
                f"{self.storage.where()} has the output of another query, with another checkpoint; "
                "give this one a directory of its own, or delete that one"
            )

    def check_free(self, query: str) -> None:
        """Refuse a place with files that are not evenflow's: readers would take both for one table, and
        Spark shows one or the other."""
        if self.belongs_to(query):
            return
        foreign = [name for name in self.storage.list("") if name[0] not in "_."]
        if foreign and not self.storage.under(_MARK).list(_QUERY):
            raise InputError(
                f"{self.storage.where()} has files that this query did not write, such as "
                f"{foreign[0]!r}, and its readers would mix them up; give the query an empty directory"
            )

    def discard(self, batch: int) -> None:
        """Remove a batch that was delivered and never committed, before it is run again."""
        if isinstance(self.storage, PosixStorage):
            root = Path(self.storage.root)
            there = [name.removeprefix(_FOLDER) for name in os.listdir(root) if _FOLDER in name]
            numbers = [int(number) for number in there if number.isdecimal()]
        else:
            numbers = complete_batches(self.storage)
        if any(number > batch for number in numbers):
            raise another_history(self.storage.where(), batch)
        folder = f"{_FOLDER}{batch}"
        if isinstance(self.storage, PosixStorage):
            shutil.rmtree(root / folder, ignore_errors=True)
        else:
            self.storage.delete(*self.storage.list(f"{folder}/"))
            self.storage.under(_MARK).delete(_complete(batch))

    def belongs_to(self, query: str) -> bool:
        """Whether the place was taken for this query."""
        try:
            return self.storage.under(_MARK).read(_QUERY) == query.encode()
        except FileNotFoundError:
            return False

    def _rename(self, output: Output, root: Path) -> None:
        final = root / f"{_FOLDER}{output.batch}"
        if final.exists():  # from a driver that died before it could commit: the rows are the same
            origin = final / _ORIGIN
            self._check_history(output, origin.read_text() if origin.exists() else "")
            return
        if not output.files:
            return
        # Among the tasks' files, so that what a driver that dies here leaves is cleared with them.
        complete = root / _MARK / "staging" / f"{output.batch:010d}-{uuid4().hex}"
        complete.mkdir(parents=True)
        for name in output.files:
            os.link(output.storage.where(name), complete / Path(name).name)
        if output.origin:
            write_whole(complete / _ORIGIN, [output.origin.encode()])
        sync_directory(complete)
        try:
            os.rename(complete, final)
        except OSError:
            if not final.exists():
                raise
            shutil.rmtree(complete)
        sync_directory(final.parent)

    def _copy(self, output: Output) -> None:
        mark, folder = _complete(output.batch), f"{_FOLDER}{output.batch}/"
        own = self.storage.under(_MARK)
        marks = own.list(_COMPLETE)
        if marks and marks[-1] > mark:
            raise another_history(self.storage.where(), output.batch)
        if mark in marks:
            self._check_history(output, own.read(mark).decode())
            return
        finals = {_final_name(folder, name): name for name in output.files}
        copies = [partial(self.storage.copy, f"{_MARK}/{name}", to) for to, name in finals.items()]
        with explained("write", self.storage.where(folder)):
            together(self.storage, copies)
            # The same names, unless somebody else has put files there.
            left = [name for name in self.storage.list(folder) if name not in finals]
            self.storage.delete(*left)
            own.put(mark, [output.origin.encode()])
            own.delete(*marks[: 1 - _KEPT])

    def _check_history(self, output: Output, origin: str) -> None:
        if origin != output.origin and origin and output.origin:
            raise another_history(self.storage.where(), output.batch)


def read_output(
    spark: SparkSession,
    path: str | os.PathLike[str],
    storage_options: Mapping[str, str] | None = None,
) -> DataFrame:
    """The output of a query in the format "parquet", of all batches that are there whole.

    On a POSIX file system that is what `spark.read.parquet(path)` gives at any moment. On other stores,
    where a batch arrives file by file, the newest batch is left out until all of it is there.

    Parameters:
        spark: the session.
        path: what the query was started with.
        storage_options: for its store, as in `storage_for`.

    Example:
        >>> hits = read_output(spark, "s3://bucket/hits")  # doctest: +SKIP
    """
    storage = storage_for(spark, path, storage_options)
    if isinstance(storage, PosixStorage):
        return spark.read.parquet(spark_address(spark, path))
    batches = complete_batches(storage)
    if not batches:
        raise InputError(
            f"there is no complete batch in {storage.where()} yet; wait for the first one, and give "
            'the path that a query with the format "parquet" was started with'
        )
    # The batches before the newest are whole as well: each was committed before the next began.
    return spark.read.parquet(spark_address(spark, path)).where(f"batch <= {batches[-1]}")


def read_latest(
    spark: SparkSession,
    path: str | os.PathLike[str],
    *keys: Column | str,
    storage_options: Mapping[str, str] | None = None,
) -> DataFrame:
    """The newest row of each key in the output of a query in the format "parquet": what a query in
    output mode "update" knows of its keys now.

    Guarantee: one row per key, that of the last batch that wrote the key, of all batches that are there
    whole. The result is computed from all batches whenever it is used; give a name to it with
    `createOrReplaceTempView`, or write it somewhere to read it often.

    Parameters:
        spark: the session.
        path: what the query was started with.
        keys: the key columns; with windows, `"window"` as well.
        storage_options: for its store, as in `storage_for`.

    Example:
        >>> read_latest(spark, "s3://bucket/hits", "page").where("hits > 100")  # doctest: +SKIP
    """
    from pyspark.sql import functions as F

    if not keys:
        raise InputError(
            'read_latest needs the key columns; write read_latest(spark, path, "page")'
        )
    output = read_output(spark, path, storage_options)
    check_columns(output, [key for key in keys if isinstance(key, str)], "read_latest")
    row = F.struct(*(F.col(quoted(name)) for name in output.columns))
    chosen = [F.col(quoted(key)) if isinstance(key, str) else key for key in keys]
    newest = F.max_by(row, F.col(_FOLDER.rstrip("="))).alias("row")
    return output.groupBy(*chosen).agg(newest).select("row.*")


def complete_batches(storage: Storage) -> list[int]:
    """The numbers of the newest batches that are whole, in order, on a store without rename."""
    return [int(name.removeprefix(_COMPLETE)) for name in storage.under(_MARK).list(_COMPLETE)]


def _complete(batch: int) -> str:
    return f"{_COMPLETE}{batch:010d}"


def _final_name(folder: str, staged: str) -> str:
    """The name of an output file: it follows from the batch and the partition, which is in the name
    that its task gave it, `staging/BATCH-PARTITION-UNIQUE.parquet`."""
    return f"{folder}part-{PurePosixPath(staged).name.split('-')[1]}.parquet"


def _make_directory(storage: PosixStorage) -> None:
    """Fails here, and not in the first batch, where that is not possible."""
    try:
        os.makedirs(storage.under(_MARK).where("staging"), exist_ok=True)
    except OSError as error:
        raise InputError(
            f"the output directory {storage.root} cannot be created: {error.strerror}; give another "
            "path, or let this user write there"
        ) from error
