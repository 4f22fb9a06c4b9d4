"""A running query."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from evenflow.model.validation import check_whole
from evenflow.state.journal import read_metrics, wish_workers

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming import StreamingQuery


_ERROR = re.compile(r"(Caused by: )?[\w.$]+(Error|Exception): .")  # not a line of a Java stack


# What Spark takes for the end of a batch whose query was stopped, and signs of one in longer accounts.
_STOPPED = "py4j.protocol.Py4JJavaError: An error occurred while calling {}: {}"
_SIGNS_OF_A_STOP = ("SPARK_JOB_CANCELLED", "Interrupted", "ClosedByInterrupt")


class _Lock(Protocol):
    def release(self) -> None: ...


class QueryFailed(RuntimeError):
    """A streaming query that has stopped by itself: the message says why, in a line."""


class Query:
    """A streaming query, under way or ended. A thin hand on Spark's own `StreamingQuery`."""

    def __init__(
        self, spark_query: StreamingQuery, checkpoint: str, lock: _Lock, workers: int
    ) -> None:
        self.spark_query = spark_query  #: Spark's own handle, for all that is not here
        self.checkpoint = checkpoint
        self.workers = workers  #: as many it was started with
        self._lock = lock

    @property
    def active(self) -> bool:
        """Whether it is under way."""
        return bool(self.spark_query.isActive)

    def wait(self, seconds: float | None = None) -> bool:
        """Wait until it ends, or so long; whether it has ended. Raises `QueryFailed` if by an error."""
        from pyspark.errors import StreamingQueryException

        try:
            if seconds is None:
                self.spark_query.awaitTermination()
                ended = True
            else:
                ended = bool(self.spark_query.awaitTermination(seconds))
        except StreamingQueryException as error:
            self._lock.release()
            raise QueryFailed(_reason(str(error))) from error
        if ended:
            self._lock.release()
        return ended

    def process_all_available(self) -> None:
        """Wait until all rows that are there now have been worked on (for tests)."""
        from pyspark.errors import StreamingQueryException

        try:
            self.spark_query.processAllAvailable()
        except StreamingQueryException as error:
            self._lock.release()
            raise QueryFailed(_reason(str(error))) from error

    def stop(self) -> None:
        """End it after what is under way; the next `start` goes on from there."""
        self.spark_query.stop()
        self._lock.release()

    def scale(self, workers: int) -> None:
        """Go on with another number of workers, from the next batch on. State follows the keys; only
        those keys move that must, but for the scheme `key`. The number stays after a restart, unless
        the query is then started with another one than this time."""
        check_whole("workers", workers, least=1)
        wish_workers(Path(self.checkpoint) / "evenflow", workers, self.workers)

    def metrics(self) -> list[dict[str, Any]]:
        """The metrics of every batch so far."""
        return read_metrics(self.checkpoint)

    def __enter__(self) -> Query:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


def stoppable(each: Callable[[DataFrame, int], None]) -> Callable[[DataFrame, int], None]:
    """The same function for `foreachBatch`, for queries that are stopped in the midst of a batch.

    Spark searches the error of a cancelled job by an expression that needs a stack as deep as the text
    is long: more than a thousand letters, and its thread ends with a StackOverflowError on the user's
    screen. So that error is told in short, in the words that Spark looks for; all others stay.
    """
    from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]

    def each_batch(df: DataFrame, batch: int) -> None:
        try:
            each(df, batch)
        except Py4JJavaError as error:
            text = str(error)
            if not any(sign in text for sign in _SIGNS_OF_A_STOP):
                raise
            first = next((line for line in text.splitlines()[1:] if line.strip()), "")
            raise RuntimeError(
                _STOPPED.format(first[:300], "java.lang.InterruptedException")
            ) from None

    return each_batch


def _reason(text: str) -> str:
    """The line of a Python error within Spark's account of it."""
    named = ("InputError:", "DamagedState:", "CheckpointError:", "AlreadyCommitted:")
    for line in reversed(text.splitlines()):
        for name in named:
            if name in line:
                return line.partition(name)[2].strip()
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    errors = [line for line in lines if _ERROR.match(line)]
    return errors[-1] if errors else (lines[0] if lines else "the query has failed")
