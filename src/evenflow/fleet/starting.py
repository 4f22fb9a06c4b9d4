"""Starting a query by its function, so that whatever happens none runs that nobody holds."""

from __future__ import annotations

import importlib
import re
import time
from typing import TYPE_CHECKING, Any

from evenflow.fleet.config import QuerySpec
from evenflow.model import EvenflowError, InputError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_STOP_SECONDS = 10.0  # that a query without a handle has to end
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:/*")


class StillRunning(EvenflowError):
    """A query runs, cannot be stopped, and nobody has its handle: its lease must not be released."""


def spark_query(query: Any) -> Any:
    """Spark's StreamingQuery behind what a function returned."""
    return getattr(query, "spark_query", query)


def start_query(spec: QuerySpec, spark: SparkSession) -> Any:
    """What the query's function returns; `InputError` if that is not a query.

    Guarantee: if it raises, no query on this checkpoint runs in this application, or it is
    `StillRunning`.
    """
    stop_others(spec, spark)
    try:
        module, _, name = spec.function.partition(":")
        function = getattr(importlib.import_module(module), name)
        query = function(spark, checkpoint=spec.checkpoint, **spec.arguments)
        if not hasattr(spark_query(query), "runId"):
            raise InputError(
                f"{spec.function} returned {query!r}; it must return the query that it started: "
                "return the query, Spark's or Evenflow's"
            )
    except BaseException:
        stop_others(spec, spark)
        raise
    return query


def stop_others(spec: QuerySpec, spark: SparkSession) -> None:
    """Stop the queries on this checkpoint that run in this application without a handle."""
    for query in spark.streams.active:
        if not _is_on(query, spec.checkpoint):
            continue
        query.stop()
        deadline = time.monotonic() + _STOP_SECONDS
        while query.isActive and time.monotonic() < deadline:
            time.sleep(0.05)
        if query.isActive:
            raise StillRunning(
                f"{spec.function} has started a query that it did not return, and that still runs; "
                "have the function return it, and restart the node"
            )


def _is_on(query: Any, checkpoint: str) -> bool:
    # No other way leads from one of several active queries to the function that started it: names are
    # optional, and functions run at the same time.
    root = str(query._jsq.streamingQuery().resolvedCheckpointRoot())
    return (_path(root) + "/").startswith(_path(checkpoint) + "/")


def _path(location: str) -> str:
    """A location without its scheme.

    Example:
        >>> _path("file:///data/a"), _path("/data/a/"), _path("s3a://bucket/a")
        ('/data/a', '/data/a', '/bucket/a')
    """
    return "/" + _SCHEME.sub("", location).strip("/")
