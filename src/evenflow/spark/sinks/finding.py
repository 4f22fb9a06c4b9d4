"""Formats by name, and the sink of a query."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import Any

from evenflow.engine.output import Sink
from evenflow.model import InputError
from evenflow.model.discovery import Catalogue
from evenflow.spark.sinks.foreach_batch import ForEachBatch
from evenflow.spark.sinks.foreach_row import ForEachRow
from evenflow.spark.sinks.protocol import Format, Target
from evenflow.spark.sinks.spark_format import SparkFormat
from evenflow.spark.sinks.tables import format_of_table

FORMATS = Catalogue[Format]("format", "evenflow.spark.sinks")
_DEFAULT = "parquet"
_FILES = ("parquet",)  # formats of evenflow that as tables are Spark's own


def is_temporary(format: str | Sink | None) -> bool:
    """Whether the output ends with the process, so that its state may, too; or, as in Spark, is
    handed to a function."""
    if isinstance(format, ForEachBatch | ForEachRow):
        return True
    known = FORMATS.all()
    return isinstance(format, str) and format.lower() in known and known[format.lower()].temporary


def sink_of(format: str | Sink | None, target: Target) -> Sink:
    """The sink of a query.

    Parameters:
        format: a format's name; None for that of the table, or "parquet"; or a sink, as it is.
        target: what else was asked for; its `format` is set here.
    """
    if format is None or isinstance(format, str):
        name = format or _default(target)
        target = replace(target, format=name)
        known = FORMATS.all()
        if name.lower() in known and not (target.table is not None and name.lower() in _FILES):
            return known[name.lower()].of(target)
        return SparkFormat.of(target)
    if target.table is not None:
        raise InputError(f"toTable({target.table!r}) takes the name of a format, not {format!r}")
    _check_sink(format)
    replace(target, format=type(format).__name__).takes()
    return format


def _default(target: Target) -> str:
    if target.table is None:
        return _DEFAULT
    found = format_of_table(target.spark, target.table)
    return found or str(target.spark.conf.get("spark.sql.sources.default", _DEFAULT))


def _check_sink(format: Any) -> None:
    with suppress(AttributeError):
        if callable(format.staging) and callable(format.deliver):
            return
    raise InputError(
        f"format takes a name or a sink, an object with `staging` and `deliver`; got {format!r}"
    )
