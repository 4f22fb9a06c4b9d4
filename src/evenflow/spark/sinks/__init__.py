"""Where the output of a streaming query goes: one sink per file, found by the name of its format.

A new format is a file with a class that has a `name` and the methods of `Format`; other distributions
register theirs under the entry point `evenflow.spark.sinks`.
"""

from evenflow.engine.output import Output, Sink
from evenflow.spark.sinks.foreach_batch import ForEachBatch
from evenflow.spark.sinks.foreach_row import ForEachRow
from evenflow.spark.sinks.memory import MemorySink
from evenflow.spark.sinks.noop import NoopSink
from evenflow.spark.sinks.parquet import ParquetSink, read_latest, read_output
from evenflow.spark.sinks.protocol import Format, InCheckpoint, Target

__all__ = [
    "ForEachBatch",
    "ForEachRow",
    "Format",
    "InCheckpoint",
    "MemorySink",
    "NoopSink",
    "Output",
    "ParquetSink",
    "Sink",
    "Target",
    "read_latest",
    "read_output",
]
