"""Starting a query in one call, for tests that start many."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evenflow.spark.sinks import MemorySink, Sink

if TYPE_CHECKING:
    import evenflow as ef

Take = Callable[[Any, int], object]


def start(
    result: ef.BalancedDataFrame,
    checkpoint: str | Path,
    sink: Sink | Take | None = None,
    *,
    now: bool = True,
    mode: str = "update",
    on_batch: Callable[[Mapping[str, Any]], object] | None = None,
    name: str | None = None,
) -> ef.StreamingQuery:
    """Start the query of a stream's result.

    Parameters:
        sink: a sink, or a function of (df, batch); None for one in memory that nobody reads.
        now: process what is there, and end.
        mode, on_batch, name: as in `StreamWriter`.
    """
    writer = result.writeStream.option("checkpointLocation", checkpoint).outputMode(mode)
    if sink is None:
        writer.format(MemorySink())
    elif callable(sink):
        writer.foreachBatch(sink)
    else:
        writer.format(sink)
    if now:
        writer.trigger(availableNow=True)
    if on_batch is not None:
        writer.onBatch(on_batch)
    if name is not None:
        writer.queryName(name)
    return writer.start()


def run(
    result: ef.BalancedDataFrame,
    checkpoint: str | Path,
    sink: Sink | Take | None = None,
    **how: Any,
) -> ef.StreamingQuery:
    """Start it, and wait until it has processed what is there."""
    query = start(result, checkpoint, sink, **how)
    assert query.awaitTermination(300)
    return query
