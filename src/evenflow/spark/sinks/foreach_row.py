"""`foreach`: a function, or a writer with `open`, `process` and `close`, for every row."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from evenflow.engine.output import Output
from evenflow.model import InputError
from evenflow.spark.sinks.frames import output_frame
from evenflow.spark.sinks.protocol import InCheckpoint

if TYPE_CHECKING:
    from pyspark.sql import Row


@dataclass(frozen=True)
class ForEachRow(InCheckpoint):
    """Hands every row of the output to a function, in Spark's tasks, as `foreach` does.

    Guarantee: at least once: tasks are run again if they fail, and a batch if it was not committed.

    Parameters:
        writer: a function of a row; or an object with `process(row)` and, if it likes,
            `open(partition_id, batch_id)`, which returns whether it wants the rows, and `close(error)`.
    """

    writer: Any

    def __post_init__(self) -> None:
        if not callable(self.writer) and not callable(getattr(self.writer, "process", None)):
            raise InputError(
                "foreach takes a function of a row, or an object with the method process(row), got "
                f"{self.writer!r}"
            )

    def deliver(self, output: Output, session: Any) -> None:
        output_frame(output, session).foreachPartition(_in_partition(self.writer, output.batch))


def _in_partition(writer: Any, batch: int) -> Callable[[Iterator[Row]], None]:
    def work(rows: Iterator[Row]) -> None:
        from pyspark import TaskContext

        task = TaskContext.get()
        partition = 0 if task is None else int(task.partitionId())
        process = getattr(writer, "process", writer)
        error: Exception | None = None
        wanted = not hasattr(writer, "open") or writer.open(partition, batch)
        try:
            for row in rows if wanted else ():
                process(row)
        except Exception as failure:
            error = failure
            raise
        finally:
            if hasattr(writer, "close"):
                writer.close(error)

    return work
