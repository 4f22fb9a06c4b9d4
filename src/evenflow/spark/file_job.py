"""Keyed aggregates of files: from Parquet, CSV or JSON, as a batch or as a stream, to Parquet."""

from __future__ import annotations

import re
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from evenflow.model import InputError
from evenflow.model.plan import AUTO
from evenflow.model.validation import check_whole
from evenflow.operators import Aggregate, Aggregates
from evenflow.spark.input_files import InputFiles, input_files
from evenflow.spark.keyed import Keyed, keyed
from evenflow.spark.locations import is_local, spark_address, storage_for
from evenflow.spark.query import QueryFailed, StreamingQuery
from evenflow.spark.sinks import ParquetSink
from evenflow.state.checkpoint import FOLDER, IDENTITY, Checkpoint
from evenflow.state.errors import CheckpointError
from evenflow.storage import Storage, local_path, storage_at

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_OPTIONS = {"CSV": {"header": "true", "inferSchema": "true"}, "Parquet": {}, "JSON": {}}


@dataclass(frozen=True)
class FileJob:
    """What to compute from which files.

    Guarantee: what can be known to be wrong before Spark starts is refused when the object is made.

    Parameters:
        path: a file, or a directory of files of one format; a path or the URI of a store.
        key: the key columns.
        aggregates: name of the output column → aggregate.
        grouping: which partition gets which row; "auto" to choose by what the data shows.
        partitions: how many tasks share the work; None for as many as Spark has cores, "auto" for as
            many as the load of a stream calls for, as in `Keyed.balance`.
        seed: of the hash functions.
        storage_options: for all locations that are not paths, as in `storage_for`.
        spark: the session, which may know how to reach such a location; not needed for paths.
    """

    path: str
    key: tuple[str, ...]
    aggregates: Mapping[str, Aggregate]
    grouping: str = AUTO
    partitions: int | str | None = None
    seed: int = 0
    storage_options: Mapping[str, str] = field(default_factory=dict, repr=False)
    spark: SparkSession | None = field(default=None, repr=False)
    files: InputFiles = field(init=False, repr=False)

    def __post_init__(self) -> None:
        from evenflow.grouping import make
        from evenflow.planning.scaling import scaling_of

        if isinstance(self.partitions, str):
            scaling_of(self.partitions)
        elif self.partitions is not None:
            check_whole("partitions", self.partitions, least=1)
        if self.grouping != AUTO:
            make(self.grouping)
        object.__setattr__(self, "files", input_files(self.path, self._at))

    @property
    def kind(self) -> str:
        """Parquet, CSV or JSON."""
        return self.files.kind

    def check(self, output: str, checkpoint: str | None = None, overwrite: bool = False) -> bool:
        """Refuse locations within one another, and an output that is not empty; whether the checkpoint
        is of a query that continues."""
        check_apart(self.path, output)
        if checkpoint is not None:
            check_apart(self.path, checkpoint, "--checkpoint")
            check_apart(output, checkpoint, "--checkpoint", "--output")
            if self._has_begun(checkpoint, output):
                return True
        # A batch of another query would be taken for this one's, and its rows be left out.
        if is_local(output) and local_path(output).exists() and not local_path(output).is_dir():
            raise InputError(f"--output {output!r} is a file; give a directory")
        if not overwrite and self._has_content(output):
            raise InputError(
                f"--output {output!r} is not empty; give another directory, or --overwrite"
            )
        return False

    def compute(
        self, spark: SparkSession, output: str, *, overwrite: bool = False
    ) -> dict[str, Any]:
        """Compute it as a batch; what was done, as plain JSON.

        Parameters:
            output: the directory of the Parquet files; empty or new, unless it may be overwritten.
        """
        from pyspark.sql import Observation
        from pyspark.sql import functions as F

        self.check(output, None, overwrite)
        with explained():
            balanced, operator = self._on(self._read(spark)), Aggregates(**self.aggregates)
            began = time.perf_counter()
            plan = balanced.plan(operator)
            loads, written = Observation(), Observation()
            result = balanced.compute(operator, plan=plan, loads=loads)
            result = result.observe(written, F.count(F.lit(1)).alias("keys"))
            result.write.mode("overwrite" if overwrite else "append").parquet(
                spark_address(spark, output)
            )
            seconds = time.perf_counter() - began
            counts = [int(n) for n in loads.get.values()]
            keys = int(written.get["keys"])
        total = sum(counts)
        return {
            "input": self.path,
            "format": self.kind,
            "output": output,
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
        output: str,
        checkpoint: str,
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
            checkpoint: where the state is kept.
            every: how often to look for new files; None to process what is there, and end.
            files_per_batch: at most so many new files make a batch.
            on_batch: called with the metrics of each batch.
        """
        if not self.files.is_directory:
            raise InputError(
                f"--input {self.path!r} is a file; a stream is read from a directory, to which "
                "files are added; give the directory, or leave --stream out"
            )
        continues = self.check(output, checkpoint, overwrite)
        if overwrite and not continues:
            self._clear(output)
        elif overwrite:
            raise InputError(
                f"--overwrite: the query of the checkpoint {checkpoint!r} continues where it ended, "
                f"and what it has written to {output!r} belongs to it; to start over, delete both, or "
                "give others"
            )
        with explained():
            schema = self._read(spark).schema
            reader = spark.readStream.format(self.kind.lower()).schema(schema)
            if self.kind == "CSV":
                reader = reader.option("header", "true")
            if files_per_batch is not None:
                reader = reader.option("maxFilesPerTrigger", files_per_batch)
            result = self._on(reader.load(spark_address(spark, self.path))).agg(**self.aggregates)
            writer = result.writeStream.option("checkpointLocation", checkpoint)
            if not (is_local(checkpoint) and is_local(output)):  # else they are the input's
                writer.options(**{f"storage.{k}": v for k, v in self.storage_options.items()})
            if on_batch is not None:
                writer.onBatch(on_batch)
            if every is None:
                writer.trigger(availableNow=True)
            else:
                writer.trigger(processingTime=every)
            return writer.start(output)

    def _read(self, spark: SparkSession) -> DataFrame:
        reader = spark.read.format(self.kind.lower()).options(**_OPTIONS[self.kind])
        return reader.load(spark_address(spark, self.path))

    def _at(self, address: str) -> Storage:
        if self.spark is None:
            return storage_at(address, self.storage_options)
        return storage_for(self.spark, address, self.storage_options)

    def _has_content(self, address: str) -> bool:
        if is_local(address):
            folder = local_path(address)
            return folder.is_dir() and any(path.is_file() for path in folder.rglob("*"))
        return bool(self._at(address).list(""))

    def _has_begun(self, checkpoint: str, output: str) -> bool:
        """Whether a query has committed a batch there, or was killed in its first one."""
        storage = self._at(checkpoint)
        if is_local(checkpoint):  # there, a directory with other things in it is refused
            begun = self._has_content(checkpoint)
        else:
            begun = bool(storage.under(FOLDER).list(IDENTITY))
        if not begun:
            return False
        found = Checkpoint.open(storage)
        return bool(found.batches()) or ParquetSink(self._at(output)).belongs_to(found.query)

    def _clear(self, address: str) -> None:
        if is_local(address):
            if local_path(address).exists():
                shutil.rmtree(local_path(address))
        else:
            storage = self._at(address)
            storage.delete(*storage.list(""))

    def _on(self, rows: DataFrame) -> Keyed:
        return keyed(rows, list(self.key)).balance(
            self.grouping, partitions=self.partitions, seed=self.seed
        )


def check_apart(source: str, target: str, option: str = "--output", other: str = "--input") -> None:
    """Refuse a target within what is read, or around it: a stream would read what it writes, and
    overwriting the output would delete the input."""
    a, b = _resolved(source), _resolved(target)
    if a.startswith(b) or b.startswith(a):
        raise InputError(
            f"{option} {target!r} and {other} {source!r} lie within one another; give separate "
            "directories"
        )


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


def _resolved(address: str) -> str:
    """So that one lies within the other if it begins with it."""
    if is_local(address):
        return f"{local_path(address).resolve()}/".replace("//", "/")
    return f"{re.sub('^s3[an]:', 's3:', address.rstrip('/'))}/"
