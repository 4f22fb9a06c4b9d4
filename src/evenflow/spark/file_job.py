"""Keyed aggregates of files: from Parquet, CSV or JSON, as a batch or as a stream, to Parquet."""

from __future__ import annotations

import os
import re
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evenflow.engine.job import AUTO
from evenflow.model import InputError
from evenflow.model.file_formats import HEAD, SUFFIXES, format_of, is_compressed, not_what_it_says
from evenflow.model.validation import check_whole
from evenflow.operators import Aggregate, Aggregates
from evenflow.spark.keyed import Keyed, keyed
from evenflow.spark.query import QueryFailed, StreamingQuery
from evenflow.state.checkpoint import Checkpoint
from evenflow.state.errors import CheckpointError
from evenflow.storage.addresses import local_path

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_OPTIONS = {"CSV": {"header": "true", "inferSchema": "true"}, "Parquet": {}, "JSON": {}}
_MOST_LOOKED_AT = 1000  # files whose first bytes are read before Spark reads them all


@dataclass(frozen=True)
class FileJob:
    """What to compute from which files.

    Guarantee: what can be known to be wrong before Spark starts is refused when the object is made.

    Parameters:
        path: a file, or a directory of files of one format.
        key: the key columns.
        aggregates: name of the output column → aggregate.
        grouping: which partition gets which row; "auto" to choose by what the data shows.
        partitions: how many tasks share the work; None for as many as Spark has cores.
        seed: of the hash functions.
    """

    path: Path
    key: tuple[str, ...]
    aggregates: Mapping[str, Aggregate]
    grouping: str = AUTO
    partitions: int | None = None
    seed: int = 0
    kind: str = field(init=False)  #: Parquet, CSV or JSON

    def __post_init__(self) -> None:
        from evenflow.grouping import make

        if self.partitions is not None:
            check_whole("partitions", self.partitions, least=1)
        if self.grouping != AUTO:
            make(self.grouping)
        object.__setattr__(self, "kind", input_format(self.path))

    def compute(
        self, spark: SparkSession, output: Path, *, overwrite: bool = False
    ) -> dict[str, Any]:
        """Compute it as a batch; what was done, as plain JSON.

        Parameters:
            output: the directory of the Parquet files; empty or new, unless it may be overwritten.
        """
        from pyspark.sql import Observation
        from pyspark.sql import functions as F

        check_apart(self.path, output)
        check_empty(output, overwrite)
        with explained():
            balanced, operator = self._on(self._read(spark)), Aggregates(**self.aggregates)
            began = time.perf_counter()
            plan = balanced.plan(operator)
            loads, written = Observation(), Observation()
            result = balanced.compute(operator, plan=plan, loads=loads)
            result = result.observe(written, F.count(F.lit(1)).alias("keys"))
            result.write.mode("overwrite" if overwrite else "append").parquet(_uri(output))
            seconds = time.perf_counter() - began
            counts = [int(n) for n in loads.get.values()]
            keys = int(written.get["keys"])
        total = sum(counts)
        return {
            "input": str(self.path),
            "format": self.kind,
            "output": str(output),
            "rows": total,
            "keys": keys,
            "partitions": plan.partitions,
            "grouping": self.grouping,
            "scheme": plan.scheme,
            "reason": plan.reason,
            "seconds": seconds,
            "imbalance": max(counts) / total - 1 / len(counts) if total else 0.0,
            "max_over_average": max(counts) * len(counts) / total if total else 1.0,
            "loads": counts,
        }

    def start(
        self,
        spark: SparkSession,
        output: Path,
        checkpoint: Path,
        *,
        every: str | None = None,
        files_per_batch: int | None = None,
        on_batch: Callable[[Mapping[str, Any]], object] | None = None,
        overwrite: bool = False,
    ) -> StreamingQuery:
        """Start it as a streaming query on the files that are there, and on those that come.

        Parameters:
            output: the directory of the Parquet files; new, unless the checkpoint is of a query that
                has written there.
            checkpoint: the directory of the state.
            every: how often to look for new files; None to process what is there, and end.
            files_per_batch: at most so many new files make a batch.
            on_batch: called with the metrics of each batch.
        """
        if not self.path.is_dir():
            raise InputError(
                f"--input {str(self.path)!r} is a file; a stream is read from a directory, to which "
                "files are added; give the directory, or leave --stream out"
            )
        check_apart(self.path, output)
        check_apart(self.path, checkpoint, "--checkpoint")
        check_apart(output, checkpoint, "--checkpoint", "--output")
        if not has_batches(checkpoint):
            # A batch of another query would be taken for this one's, and its rows be left out.
            check_empty(output, overwrite)
            if overwrite and output.exists():
                shutil.rmtree(output)
        elif overwrite:
            raise InputError(
                f"--overwrite: the query of the checkpoint {str(checkpoint)!r} continues where it "
                f"ended, and what it has written to {str(output)!r} belongs to it; to start over, "
                "delete both, or give others"
            )
        with explained():
            schema = self._read(spark).schema
            reader = spark.readStream.format(self.kind.lower()).schema(schema)
            if self.kind == "CSV":
                reader = reader.option("header", "true")
            if files_per_batch is not None:
                reader = reader.option("maxFilesPerTrigger", files_per_batch)
            result = self._on(reader.load(_uri(self.path))).agg(**self.aggregates)
            writer = result.writeStream.option("checkpointLocation", checkpoint)
            if on_batch is not None:
                writer.onBatch(on_batch)
            if every is None:
                writer.trigger(availableNow=True)
            else:
                writer.trigger(processingTime=every)
            return writer.start(output)

    def _read(self, spark: SparkSession) -> DataFrame:
        reader = spark.read.format(self.kind.lower()).options(**_OPTIONS[self.kind])
        return reader.load(_uri(self.path))

    def _on(self, rows: DataFrame) -> Keyed:
        return keyed(rows, list(self.key)).balance(
            self.grouping, partitions=self.partitions, seed=self.seed
        )


def input_format(path: Path) -> str:
    """The format of a file, or of all files of a directory; refused where the content differs."""
    if not path.exists():
        raise InputError(f"--input {str(path)!r}: there is no such file or directory")
    files = [path] if path.is_file() else sorted(_data_files(path))
    if not files:
        raise InputError(
            f"--input {str(path)!r} has no files of rows; put some there ({SUFFIXES}; text also .gz)"
        )
    kinds: dict[str, Path] = {}
    for file in files:
        kind = format_of(file)
        if kind is None:
            raise InputError(
                f"{str(file)!r}: the name must end in one of {SUFFIXES} (the text formats also with "
                ".gz), so that it is known how to read it"
            )
        kinds.setdefault(kind, file)
    if len(kinds) > 1:
        (one, first), (other, second) = list(kinds.items())[:2]
        raise InputError(
            f"--input {str(path)!r} has {one} ({first.name}) and {other} ({second.name}) files; keep "
            "one format to a directory"
        )
    (kind,) = kinds
    for file in files[:_MOST_LOOKED_AT]:
        _check_head(file, kind)
    return kind


def check_apart(
    source: Path, target: Path, option: str = "--output", other: str = "--input"
) -> None:
    """Refuse a target within what is read, or around it: a stream would read what it writes, and
    overwriting the output would delete the input."""
    a, b = _resolved(source), _resolved(target)
    if a == b or a in b.parents or b in a.parents:
        raise InputError(
            f"{option} {str(target)!r} and {other} {str(source)!r} lie within one another; give "
            "separate directories"
        )


def check_empty(output: Path, overwrite: bool) -> None:
    """Refuse an output that is not a directory, or that is not empty."""
    folder = local_path(output)
    if folder.exists() and not folder.is_dir():
        raise InputError(f"--output {str(output)!r} is a file; give a directory")
    if not overwrite and folder.is_dir() and any(folder.iterdir()):
        raise InputError(
            f"--output {str(output)!r} is not empty; give another directory, or --overwrite"
        )


def has_batches(checkpoint: Path) -> bool:
    """Whether a query has committed a batch there."""
    path = local_path(checkpoint)
    return path.exists() and any(path.iterdir()) and bool(Checkpoint.open(path).batches())


@contextmanager
def explained() -> Iterator[None]:
    """Turn Spark's errors about a user's files and directories into one line."""
    from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
    from pyspark.errors import PySparkException, PythonException

    try:
        yield
    except PythonException as error:
        ours = re.search(r"\b(?:InputError|DamagedState|CheckpointError): (.*)", str(error))
        if ours is None:
            raise  # a mistake in our own tasks
        raise InputError(ours[1]) from error
    except (PySparkException, Py4JJavaError) as error:
        raise InputError(_reason(str(error))) from error
    except (QueryFailed, CheckpointError) as error:
        raise InputError(_reason(str(error))) from error


def _reason(text: str) -> str:
    """The line that says what went wrong, within Spark's account of it."""
    named = re.search(r"\[(FAILED_READ_FILE|[A-Z_]+FILE[A-Z_.]*)[^\]]*\] .*", text) or re.search(
        r"\[[A-Z][A-Z_.0-9]+\] .*", text
    )
    line = named[0] if named else next(iter(text.strip().splitlines()), "Spark failed")
    line = re.sub(r"\s*SQLSTATE: \w+", "", line)
    return line if len(line) <= 400 else line[:399] + "…"


def _data_files(directory: Path) -> Iterator[Path]:
    """What Spark would read there: not hidden, in the directory itself or in those of partitions."""
    for entry in os.scandir(directory):
        if entry.name.startswith(("_", ".")):
            continue
        if entry.is_file():
            yield Path(entry.path)
        elif "=" in entry.name:
            yield from _data_files(Path(entry.path))


def _check_head(file: Path, kind: str) -> None:
    import pyarrow as pa

    compression = "gzip" if is_compressed(file) else None
    try:
        with pa.input_stream(str(file), compression=compression) as stream:
            head = bytes(stream.read(HEAD))
    except PermissionError:
        raise InputError(f"{str(file)!r} cannot be read: permission denied") from None
    except (OSError, pa.ArrowException) as error:
        raise InputError(f"{str(file)!r} cannot be read: {error}") from None
    if not head:
        raise InputError(f"{str(file)!r} is empty; it should hold {kind} rows")
    actual = not_what_it_says(kind, head)
    if actual is not None:
        raise InputError(
            f"{str(file)!r} is not {kind}, as its name says: it looks like {actual}; rename or "
            "convert it"
        )


def _uri(path: Path) -> str:
    """For Spark, whose default file system may be another one. Spark takes the name as it is, so no
    character is escaped."""
    return f"file://{local_path(path)}"


def _resolved(path: Path) -> Path:
    return local_path(path).resolve()
