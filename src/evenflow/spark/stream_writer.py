"""`writeStream`: where the output of a stream goes, how often, and where its state is kept."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from evenflow.engine.dead_letters import LIMIT
from evenflow.model import InputError
from evenflow.spark.sinks import ForEachBatch, ForEachRow, Sink
from evenflow.spark.sinks.protocol import OWN_OPTIONS
from evenflow.state.lease import SECONDS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from evenflow.spark.query import StreamingQuery

    OptionValue = bool | float | int | str | os.PathLike[str] | None

UPDATE, APPEND = "update", "append"
OnBatch = Callable[[Mapping[str, Any]], object]
KEPT_VERSIONS = 10
_MOST_PORTS = 65_535


@dataclass(frozen=True)
class StreamSettings:
    """The settings of a `StreamWriter`.

    Parameters:
        format: the name of a format, or a sink; None for that of the table, or Parquet.
        path: where the output goes, for formats that write files.
        table: the name of the table that it goes to, in place of a path.
        mode: the output mode, "update" or "append"; None for the usual one of the work.
        options: evenflow's own, by their names in lower case; those of the store are among them.
        format_options: all others, as the user wrote them.
        partition_by: columns that the format partitions its output by.
        every: how often a batch begins ("5 seconds"); None for as soon as the one before is done.
        available_now: process what is there, and end.
        name: of the query.
        on_batch: called with the metrics of every batch once it is committed.
    """

    format: str | Sink | None = None
    path: str | None = None
    table: str | None = None
    mode: str | None = None
    options: Mapping[str, str] = field(default_factory=dict, repr=False)  # maybe with credentials
    format_options: Mapping[str, str] = field(default_factory=dict, repr=False)
    partition_by: tuple[str, ...] = ()
    every: str | None = None
    available_now: bool = False
    name: str | None = None
    on_batch: OnBatch | None = None

    @property
    def keep(self) -> int:
        """How many old versions of the state to keep."""
        return self._whole("keepVersions", KEPT_VERSIONS)

    @property
    def lease_seconds(self) -> int:
        """How long the driver must not be heard of for another one to take over."""
        return self._whole("leaseSeconds", int(SECONDS))

    @property
    def dead_letter_limit(self) -> int:
        """How many rows may be set aside, where there is a place for them."""
        if "deadletterlimit" in self.options and "deadletterpath" not in self.options:
            raise InputError(
                'option "deadLetterLimit" says how many rows may be set aside, and nothing says where '
                'to; add option "deadLetterPath", or leave it out'
            )
        return self._whole("deadLetterLimit", LIMIT)

    @property
    def metrics_at(self) -> tuple[str, int] | None:
        """Address and port of `/metrics`; None if it is not asked for."""
        if "metricsport" not in self.options:
            if "metricsaddress" in self.options:
                raise InputError(
                    'option "metricsAddress" says where Prometheus finds the metrics, and no port is '
                    'given; add option "metricsPort", or leave it out'
                )
            return None
        port = self._whole("metricsPort", 0)
        if port > _MOST_PORTS:
            raise InputError(f'option "metricsPort" takes a port up to {_MOST_PORTS}, got {port}')
        return self.options.get("metricsaddress", "127.0.0.1"), port

    @property
    def storage_options(self) -> dict[str, str]:
        """The options of the store, without their prefix."""
        return {
            name.removeprefix(_STORE): value
            for name, value in self.options.items()
            if name.startswith(_STORE)
        }

    def _whole(self, name: str, default: int) -> int:
        text = self.options.get(name.lower(), str(default))
        if not text.isdecimal() or int(text) < 1:
            raise InputError(f'option "{name}" takes a whole number of at least 1, got {text!r}')
        return int(text)


Start = Callable[[StreamSettings], "StreamingQuery"]

_OWN = {name.lower() for name in OWN_OPTIONS}
_STORE = "storage."  # before the options of the store, as "kafka." is before those of Kafka


class StreamWriter:
    """Writes the result of keyed work on a stream, with the methods of Spark's own `DataStreamWriter`.

    Every method but `start` and `toTable` returns the writer itself.

    Guarantee: in the formats "parquet", "delta" and "iceberg" every row is written exactly once, even
    if driver or executors die, in Spark's other formats at least once; `foreachBatch` gets a batch
    again only if it was not committed, with the same number and rows.

    Parameters:
        start: starts the query.
    """

    def __init__(self, start: Start) -> None:
        self._start, self._settings = start, StreamSettings()

    def format(self, source: str | Sink) -> StreamWriter:
        """Choose where the output goes.

        Parameters:
            source: "parquet" (the default), "delta" and "iceberg" are exactly once; "kafka" and every
                other format that Spark can write a batch DataFrame in ("orc", "json", "jdbc", …)
                at least once; "memory" (a temporary view of the query's name), "console" (printed) and
                "noop" (nowhere) end with the process. Or a sink of your own, an object with the
                methods of `evenflow.spark.sinks.Sink`.
        """
        if isinstance(source, str) and not source.strip():
            raise InputError("format takes the name of a format, and this one is empty")
        return self._with(format=source)

    def outputMode(self, outputMode: str) -> StreamWriter:
        """Choose which rows a batch writes.

        Parameters:
            outputMode: "update" (the default): the row of every key, or key and window, that the batch
                touched; "append": with windows, every row once, when its window is over; with a ttl or
                timers of an operator, the rows of a key when it ends. Sessions have
                "append" alone, which is their default. The rows of `dropDuplicates` and the pairs of
                `intervalJoin` are the same in both.
        """
        mode = outputMode.lower() if isinstance(outputMode, str) else outputMode
        if mode == "complete":
            raise InputError(
                'outputMode "complete" would write every key ever seen after every batch; use "update" '
                'and keep the newest row per key, or "append" with windows'
            )
        if mode not in (UPDATE, APPEND):
            raise InputError(f'outputMode takes "update" or "append", got {outputMode!r}')
        return self._with(mode=mode)

    def option(self, key: str, value: OptionValue) -> StreamWriter:
        """Set an option.

        Parameters:
            key: "checkpointLocation", where state, plans and Spark's own progress are kept, a path or
                the URI of a store: a query that finds them continues where it ended; "path", as in
                `start`; "keepVersions", how many old versions of the state to keep (10);
                "leaseSeconds", how long a driver must not be heard of for another machine to take
                over (30); "deadLetterPath", a directory for rows that the operator fails for: they
                are set aside there with their error, in place of stopping the query;
                "deadLetterLimit", how many, since the query began (1000); "metricsPort", a port where
                this process serves `/metrics` to Prometheus while the query runs, and
                "metricsAddress", the address it listens on (127.0.0.1); "storage.NAME", such as
                "storage.region" or "storage.access_key_id", for the store of checkpoint and output,
                where neither the session's Hadoop configuration nor the environment has it. All others
                are the format's, and checked at the start: for "console", "numRows" (20); for Spark's
                formats, theirs.
            value: None leaves it as it is.
        """
        if not isinstance(key, str) or not key.strip():
            raise InputError(f"option takes a name and a value, got the name {key!r}")
        if value is None:
            return self
        text = str(value).lower() if isinstance(value, bool) else os.fspath(_text(value))
        if key.lower() in _OWN or key.lower().startswith(_STORE):
            return self._with(options={**self._settings.options, key.lower(): text})
        # As written: to Spark any case is the same, to what Spark hands some options on to it is not.
        others = self._settings.format_options.items()
        kept = {name: value for name, value in others if name.lower() != key.lower()}
        return self._with(format_options={**kept, key: text})

    def options(self, **options: OptionValue) -> StreamWriter:
        """Set several options."""
        for key, value in options.items():
            self.option(key, value)
        return self

    def trigger(
        self,
        *,
        processingTime: str | None = None,
        once: bool | None = None,
        continuous: str | None = None,
        availableNow: bool | None = None,
    ) -> StreamWriter:
        """Choose when a batch begins; without a trigger, as soon as the one before is done.

        Parameters:
            processingTime: how often: "5 seconds".
            availableNow: True to process what is there in one or more batches, and end.
            once: True is the same; Spark itself has replaced it by `availableNow`.
            continuous: not available.
        """
        if continuous is not None:
            raise InputError(
                f"trigger(continuous={continuous!r}) is not available: plans change between "
                'micro-batches; use processingTime="…" or availableNow=True'
            )
        given = [processingTime is not None, bool(once), bool(availableNow)]
        if sum(given) != 1:
            raise InputError(
                'trigger takes one of processingTime="5 seconds" and availableNow=True'
            )
        if processingTime is not None and not (
            isinstance(processingTime, str) and processingTime.strip()
        ):
            raise InputError(
                f'processingTime takes an interval such as "5 seconds", got {processingTime!r}'
            )
        return self._with(every=processingTime, available_now=processingTime is None)

    def queryName(self, queryName: str) -> StreamWriter:
        """Name the query, for Spark's own pages and, with the format "memory", for its view."""
        if not isinstance(queryName, str) or not queryName.strip():
            raise InputError(f"queryName takes a name that is not empty, got {queryName!r}")
        return self._with(name=queryName)

    def partitionBy(self, *cols: str | Sequence[str]) -> StreamWriter:
        """Partition the output by columns, in formats that can: "delta", "iceberg", Spark's others.

        Parameters:
            cols: the names of output columns, one by one or in a list.
        """
        names = [name for given in cols for name in ([given] if isinstance(given, str) else given)]
        if not names or not all(isinstance(name, str) for name in names):
            raise InputError(f"partitionBy takes the names of columns, got {cols!r}")
        return self._with(partition_by=tuple(names))

    def foreach(self, f: Any) -> StreamWriter:
        """Hand every row to a function, in Spark's tasks, in place of a format. At least once.

        Parameters:
            f: a function of a row; or an object with `process(row)` and, if it likes,
                `open(partition_id, batch_id)` and `close(error)`, as PySpark takes it.
        """
        return self._with(format=ForEachRow(f))

    def foreachBatch(self, func: Callable[[DataFrame, int], object]) -> StreamWriter:
        """Hand every batch's output to a function, in place of a format.

        Parameters:
            func: called with a DataFrame and the batch's number before the batch is committed. A batch
                that is run again has the same number and rows, so that a transaction keyed by the
                number makes it exactly once.
        """
        if not callable(func):
            raise InputError(f"foreachBatch takes a function of (df, batch_id), got {func!r}")
        return self._with(format=ForEachBatch(func))

    def onBatch(self, callback: OnBatch) -> StreamWriter:
        """Have the metrics of every batch handed to a function, once the batch is committed.

        Parameters:
            callback: called with a dict, which `evenflow.read_metrics` describes; on Spark Connect, in
                a process of the server.
        """
        if not callable(callback):
            raise InputError(f"onBatch takes a function of a batch's metrics, got {callback!r}")
        return self._with(on_batch=callback)

    def start(
        self,
        path: str | os.PathLike[str] | None = None,
        format: str | Sink | None = None,
        outputMode: str | None = None,
        partitionBy: str | Sequence[str] | None = None,
        queryName: str | None = None,
        **options: OptionValue,
    ) -> StreamingQuery:
        """Start the query.

        Parameters:
            path: the directory of the output, for formats that write files.
            format, outputMode, partitionBy, queryName, options: as in the methods of these names.
        """
        return self._started(None, path, format, outputMode, partitionBy, queryName, options)

    def toTable(
        self,
        tableName: str,
        format: str | None = None,
        outputMode: str | None = None,
        partitionBy: str | Sequence[str] | None = None,
        queryName: str | None = None,
        **options: OptionValue,
    ) -> StreamingQuery:
        """Start the query, with a table of a catalog as its output, which is made if it is not there.

        Guarantee: exactly once for tables of Delta and Iceberg, at least once for all others.

        Parameters:
            tableName: such as "hits" or "catalog.database.hits".
            format: of a new table; Spark's default (`spark.sql.sources.default`) if not given.
            outputMode, partitionBy, queryName, options: as in the methods of these names.
        """
        if not isinstance(tableName, str) or not tableName.strip():
            raise InputError(f"toTable takes the name of a table, got {tableName!r}")
        return self._started(tableName, None, format, outputMode, partitionBy, queryName, options)

    def _started(
        self,
        table: str | None,
        path: str | os.PathLike[str] | None,
        format: str | Sink | None,
        mode: str | None,
        partition_by: str | Sequence[str] | None,
        name: str | None,
        options: Mapping[str, OptionValue],
    ) -> StreamingQuery:
        if format is not None:
            self.format(format)
        if mode is not None:
            self.outputMode(mode)
        if partition_by is not None:
            self.partitionBy(partition_by)
        if name is not None:
            self.queryName(name)
        self.options(**options)
        if path is not None:
            self.option("path", path)
        settings = self._settings
        return self._start(replace(settings, path=settings.options.get("path"), table=table))

    def _with(self, **changes: Any) -> StreamWriter:
        self._settings = replace(self._settings, **changes)
        return self


def _text(value: Any) -> str | os.PathLike[str]:
    return value if isinstance(value, os.PathLike) else str(value)
