"""What `agg` and `apply` return: a DataFrame; of a stream, something to write with `writeStream`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from evenflow.model import InputError
from evenflow.spark.stream_writer import StreamWriter

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

    from evenflow.spark.stream_writer import Start


class NotForStreams(InputError, AttributeError):
    """A method of a batch DataFrame was called on the result of a stream."""


class BalancedStream:
    """The result of keyed work on a streaming DataFrame, ready to be written.

    It has a schema and `writeStream`. Unlike Spark's own streaming DataFrames, it cannot be transformed
    further: read what it writes, or use `foreachBatch`, whose function gets a DataFrame per batch.

    Parameters:
        schema: of the output.
        start: starts the query.
    """

    isStreaming = True

    def __init__(self, schema: Callable[[], StructType], start: Start) -> None:
        self._schema, self._start = schema, start

    @property
    def writeStream(self) -> StreamWriter:
        """Where and how the output is written; `start()` starts the query."""
        return StreamWriter(self._start)

    @property
    def schema(self) -> StructType:
        """The schema of the output."""
        return self._schema()

    @property
    def columns(self) -> list[str]:
        """The names of the output's columns."""
        return self.schema.names

    @property
    def dtypes(self) -> list[tuple[str, str]]:
        """The names and types of the output's columns."""
        return [(field.name, field.dataType.simpleString()) for field in self.schema.fields]

    def printSchema(self) -> None:
        """Print the schema of the output."""
        print(self.schema.treeString())

    def __repr__(self) -> str:
        return f"BalancedStream[{', '.join(f'{name}: {kind}' for name, kind in self.dtypes)}]"

    def __getattr__(self, name: str) -> Any:
        from pyspark.sql import DataFrame

        if name.startswith("_") or not hasattr(DataFrame, name):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        raise NotForStreams(
            f"{name} is not available on the result of a stream; start it with "
            ".writeStream.format(…).start(), or call it on each batch's DataFrame in "
            "writeStream.foreachBatch(function)"
        )


if TYPE_CHECKING:

    class BalancedDataFrame(DataFrame):
        """What `agg`, `apply` and `intervalJoin` return, for editors and type checkers.

        At run time, a plain DataFrame where the input was a batch DataFrame, and a `BalancedStream`
        where it was a streaming one.
        """

        @property
        def writeStream(self) -> StreamWriter:  # type: ignore[override]
            """Where and how the output of a stream is written; `start()` starts the query."""

else:
    BalancedDataFrame = BalancedStream
