"""A running query."""

from __future__ import annotations

import re
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any, cast

from evenflow.model import EvenflowError
from evenflow.model.plan import AUTO
from evenflow.model.validation import check_not_negative, check_partitions
from evenflow.spark.batch_metrics import metrics_frame
from evenflow.spark.last_batch import LastBatch
from evenflow.spark.stopping import BatchGate
from evenflow.state.journal import request_partitions
from evenflow.state.metrics import read_metrics

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.listener import StreamingQueryProgress
    from pyspark.sql.streaming.query import StreamingQuery as SparkStreamingQuery

    from evenflow.state.checkpoint import Checkpoint
    from evenflow.state.lease import Lease

_ERROR = re.compile(r"(Caused by: )?[\w.$]+(Error|Exception): .")  # not a line of a Java stack
_OURS = (
    "InputError:",
    "DamagedState:",
    "CheckpointError:",
    "AlreadyCommitted:",
    "LostLease:",
    "FunctionFailed:",
    "EvenflowError:",
)
_POLL = 0.1  # seconds
_OTHER_DRIVER = (
    "CONCURRENT_STREAM_LOG_UPDATE",
    "Multiple streaming queries are concurrently using",
)


class QueryFailed(EvenflowError, RuntimeError):
    """A streaming query has ended with an error: the message says which, in one line."""


class StreamingQuery:
    """A streaming query, running or ended, with the methods of Spark's own `StreamingQuery`.

    As a context manager, it is stopped at the end of the block, and at once by Ctrl-C.

    Parameters:
        spark_query: Spark's own.
        spark: the session that it was started from.
        checkpoint: of the query.
        lease: keeps other drivers away from the checkpoint; released when the query has ended.
        partitions: how many it was started with, or "auto".
        gate: lets batches begin; None where they run in another process (Spark Connect).
        last_batch: is run once Spark's query has ended, and belongs to it; None if there is none.
    """

    def __init__(
        self,
        spark_query: SparkStreamingQuery,
        spark: SparkSession,
        checkpoint: Checkpoint,
        lease: Lease,
        partitions: int | str,
        gate: BatchGate | None = None,
        last_batch: LastBatch | None = None,
    ) -> None:
        self.spark_query = spark_query  #: Spark's own handle, for all that is not here
        self.checkpoint = checkpoint.location  #: the checkpoint location
        self.partitions = partitions  #: as many as it was started with, or "auto"
        self._storage = checkpoint.storage
        self._spark, self._lease, self._gate = spark, lease, gate
        self._last = last_batch

    @property
    def name(self) -> str | None:
        """The name that it was given, if any."""
        return self.spark_query.name

    @property
    def id(self) -> str:
        """The same for as long as the checkpoint lasts."""
        return self.spark_query.id

    @property
    def runId(self) -> str:
        """Another one after every start."""
        return self.spark_query.runId

    @property
    def isActive(self) -> bool:
        """Whether it is running."""
        return bool(self.spark_query.isActive) or (self._last is not None and self._last.is_active)

    @property
    def status(self) -> dict[str, Any]:
        """What Spark says it is doing."""
        return self.spark_query.status

    @property
    def lastProgress(self) -> StreamingQueryProgress | None:
        """Spark's account of the last batch; `metrics` has ours."""
        return self.spark_query.lastProgress

    @property
    def recentProgress(self) -> list[StreamingQueryProgress]:
        """Spark's account of the last batches."""
        return self.spark_query.recentProgress

    def exception(self) -> QueryFailed | None:
        """The error that it has ended with, if any."""
        error: Exception | None = self.spark_query.exception()
        if error is None and self._last is not None:
            error = self._last.error
        return None if error is None else self._failure(error)

    def awaitTermination(self, timeout: float | None = None) -> bool:
        """Wait until it ends; whether it has. Raises `QueryFailed` if it has ended with an error.

        Parameters:
            timeout: at most so many seconds; None for as long as it takes.
        """
        from pyspark.errors import StreamingQueryException

        until = None if timeout is None else time.monotonic() + timeout
        try:
            if timeout is None:
                self.spark_query.awaitTermination()
                ended = True
            else:
                ended = bool(self.spark_query.awaitTermination(cast(int, timeout)))
        except StreamingQueryException as error:
            failure = self._failure(error)
            self._lease.release()
            raise failure from error
        if ended and self._last is not None:
            left = None if until is None else max(0.0, until - time.monotonic())
            ended = self._last.wait(left)
        if ended:
            failed = None if self._last is None else self._last.error
            explained = None if failed is None else self._failure(failed)
            self._lease.release()
            if explained is not None:
                raise explained from failed
        return ended

    def processAllAvailable(self) -> None:
        """Wait until all rows that are there now have been processed; for tests. With the trigger
        `availableNow`, until the query has ended."""
        from pyspark.errors import StreamingQueryException

        try:
            self.spark_query.processAllAvailable()
            if self._last is not None:
                self.awaitTermination()
        except StreamingQueryException as error:
            failure = self._failure(error)
            self._lease.release()
            raise failure from error

    def stop(self, timeout: float | None = None) -> None:
        """Stop it after the batch that is in progress; the next start continues from there.

        Called from within a batch, as from `onBatch`, it returns at once, and the query ends after that
        batch. On Spark Connect, a batch that begins at the very moment may be cut; like any batch that
        was cut, it is run again by the next start, and its rows count once.

        Parameters:
            timeout: after so many seconds the batch is cut; 0 for at once; None to wait for it however
                long it takes.
        """
        if timeout is not None:
            check_not_negative("timeout", timeout)
        if self._gate is not None and self._gate.is_inside():
            threading.Thread(target=self.stop, args=(timeout,), daemon=True).start()
            return
        if self._last is not None:
            self._last.cancel()
        if self._gate is not None:
            self._gate.close(timeout)
        else:
            self._wait_for_batch(timeout)
        self.spark_query.stop()
        if self._last is not None:
            self._last.wait(timeout)
        self._lease.release()

    def scale(self, partitions: int | str) -> None:
        """Continue with another number of partitions, from the next batch on.

        State follows the keys; only keys that must move do, except under the scheme "key". The number
        stays after a restart, unless the query is then started with another one than this time.

        Parameters:
            partitions: how many; "auto" for as many as the load calls for, within the limits that the
                query was started with, or at most as many as it was started with.

        """
        if partitions != AUTO:
            check_partitions(partitions)
        request_partitions(self._storage, partitions, self.partitions)

    def metrics(self) -> list[dict[str, Any]]:
        """The metrics of every batch so far, as `evenflow.read_metrics` describes them."""
        return read_metrics(self._storage)

    def metricsDF(self) -> DataFrame:
        """The metrics of every batch so far as a DataFrame, one row per batch."""
        return metrics_frame(self._spark, self.metrics())

    def __enter__(self) -> StreamingQuery:
        return self

    def __exit__(self, error: type[BaseException] | None, *_: object) -> None:
        # Who presses Ctrl-C does not want to wait for a batch.
        self.stop(0 if error is not None and issubclass(error, KeyboardInterrupt) else None)

    def _failure(self, error: Exception) -> QueryFailed:
        """The error in one line. Spark may be the first to notice another driver on the checkpoint."""
        text = str(error)
        with suppress(EvenflowError, OSError):
            concurrent = any(words in text for words in _OTHER_DRIVER)
            if concurrent and (taken := self._lease.taken_over()) is not None:
                return QueryFailed(str(taken))
        return QueryFailed(reason_of(text))

    def _wait_for_batch(self, timeout: float | None) -> None:
        """Wait until Spark says that no batch is in progress, or that another one is."""
        until = None if timeout is None else time.monotonic() + timeout
        first = self._last_batch()
        active = self.spark_query
        while active.isActive and self.status["isTriggerActive"] and self._last_batch() == first:
            if until is not None and time.monotonic() >= until:
                return
            time.sleep(_POLL)

    def _last_batch(self) -> int | None:
        progress = self.lastProgress
        return None if progress is None else progress["batchId"]


def reason_of(text: str) -> str:
    """The one line that says what went wrong, within Spark's account of an error."""
    for line in reversed(text.splitlines()):
        for name in _OURS:
            if name in line:
                return line.partition(name)[2].strip()
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    errors = [line for line in lines if _ERROR.match(line)]
    return errors[-1] if errors else (_raised(text) or "the query has failed")


def _raised(text: str) -> str:
    """The last line of the last Python traceback, which names the error; else the first line."""
    _, found, traceback = text.rpartition("Traceback (most recent call last):\n")
    # Lines of the traceback itself are indented; it ends with the error, before a Java stack.
    named = [line for line in traceback.splitlines() if line.strip() and not line[0].isspace()]
    lines = [line.strip() for line in (named if found else text.splitlines()) if line.strip()]
    return lines[0] if lines else ""
