"""`writeStream`: where the output of a stream goes, how often, and where its state is kept."""

from __future__ import annotations

import difflib
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from evenflow.model import InputError
from evenflow.spark.sinks import ForEachBatch, Sink, known_formats
from evenflow.state.lease import SECONDS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from evenflow.spark.query import StreamingQuery

    OptionValue = bool | float | int | str | os.PathLike[str] | None

UPDATE, APPEND = "update", "append"
OnBatch = Callable[[Mapping[str, Any]], object]
KEPT_VERSIONS = 10


@dataclass(frozen=True)
class StreamSettings:
    """The settings of a `StreamWriter`.

    Parameters:
        format: the name of a format, or a sink; None for Spark's default, Parquet.
        path: where the output goes, for formats that write files.
        mode: the output mode, "update" or "append".
        options: of the writer, by their names in lower case; credentials may be among them.
        every: how often a batch begins ("5 seconds"); None for as soon as the one before is done.
        available_now: process what is there, and end.
        name: of the query.
        on_batch: called with the metrics of every batch once it is committed.
    """

    format: str | Sink | None = None
    path: str | None = None
    mode: str = UPDATE
    options: Mapping[str, str] = field(default_factory=dict, repr=False)
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

# Options under the names that people type; those of formats are in sinks.py.
_OPTIONS = ("checkpointLocation", "path", "keepVersions", "leaseSeconds")
_STORE = "storage."  # before the options of the store, as "kafka." is before those of Kafka


class StreamWriter:
    """Writes the result of keyed work on a stream, with the methods of Spark's own `DataStreamWriter`.

    Every method but `start` returns the writer itself.

    Guarantee: in the format "parquet" every row is written exactly once, even if driver or executors
    die; `foreachBatch` gets a batch again only if it was not committed, with the same number and rows.

    Parameters:
        start: starts the query.
    """

    def __init__(self, start: Start) -> None:
        self._start, self._settings = start, StreamSettings()

    def format(self, source: str | Sink) -> StreamWriter:
        """Choose where the output goes.

        Parameters:
            source: "parquet" (the default; exactly-once files), "memory" (a temporary view of the
                query's name), "console" (printed), "noop" (nowhere); or a sink of your own, an object
                with the methods of `evenflow.spark.sinks.Sink`.
        """
        if isinstance(source, str) and source not in known_formats():
            near = difflib.get_close_matches(source.lower(), known_formats(), 1)
            hint = f"did you mean {near[0]!r}? " if near else ""
            raise InputError(
                f"format {source!r} is not available; {hint}There are "
                f"{', '.join(map(repr, known_formats()))}, and foreachBatch(function) for all others"
            )
        return self._with(format=source)

    def outputMode(self, outputMode: str) -> StreamWriter:
        """Choose which rows a batch writes.

        Parameters:
            outputMode: "update" (the default): the row of every key, or key and window, that the batch
                touched; "append": with windows, every row once, when its window is over. The pairs of
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
                over (30); for the format "console", "numRows" (20). "storage.NAME", such as
                "storage.region" or "storage.access_key_id", for the store of checkpoint and output,
                where neither the session's Hadoop configuration nor the environment has it.
            value: None leaves it as it is.
        """
        from evenflow.spark.sinks import FORMAT_OPTIONS

        known = {name.lower(): name for name in (*_OPTIONS, *FORMAT_OPTIONS)}
        of_store = (
            isinstance(key, str) and len(key) > len(_STORE) and key.lower().startswith(_STORE)
        )
        if not of_store and (not isinstance(key, str) or key.lower() not in known):
            near = difflib.get_close_matches(str(key).lower(), known, 1)
            hint = f"did you mean {known[near[0]]!r}? " if near else ""
            raise InputError(
                f"there is no option {key!r}; {hint}There are {', '.join(known.values())}, and "
                f"{_STORE}NAME for settings of the store"
            )
        if value is None:
            return self
        text = str(value).lower() if isinstance(value, bool) else os.fspath(_text(value))
        return self._with(options={**self._settings.options, key.lower(): text})

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
        queryName: str | None = None,
        **options: OptionValue,
    ) -> StreamingQuery:
        """Start the query.

        Parameters:
            path: the directory of the output, for formats that write files.
            format, outputMode, queryName, options: as in the methods of these names.
        """
        if format is not None:
            self.format(format)
        if outputMode is not None:
            self.outputMode(outputMode)
        if queryName is not None:
            self.queryName(queryName)
        self.options(**options)
        if path is not None:
            self.option("path", path)
        settings = self._settings
        return self._start(replace(settings, path=settings.options.get("path")))

    def _with(self, **changes: Any) -> StreamWriter:
        self._settings = replace(self._settings, **changes)
        return self


def _text(value: Any) -> str | os.PathLike[str]:
    return value if isinstance(value, os.PathLike) else str(value)
