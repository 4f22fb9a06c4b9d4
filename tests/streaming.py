"""Starting a query in one call, for tests that start many."""

from evenflow.spark.sinks import MemorySink


def start(result, checkpoint, sink=None, *, now=True, mode=None, on_batch=None, name=None):
    """Start the query of a stream's result.

    Parameters:
        sink: a sink, or a function of (df, batch); None for one in memory that nobody reads.
        now: process what is there, and end.
    """
    writer = result.writeStream.option("checkpointLocation", checkpoint)
    if sink is None or hasattr(sink, "deliver"):
        writer.format(MemorySink() if sink is None else sink)
    else:
        writer.foreachBatch(sink)
    if now:
        writer.trigger(availableNow=True)
    if mode is not None:
        writer.outputMode(mode)
    if on_batch is not None:
        writer.onBatch(on_batch)
    if name is not None:
        writer.queryName(name)
    return writer.start()


def run(result, checkpoint, sink=None, **how):
    """Start it, and wait until it has processed what is there."""
    query = start(result, checkpoint, sink, **how)
    assert query.awaitTermination(300)
    return query
