"""How a query ends: after the batch that is in progress, unless it must be at once."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from evenflow.engine.failures import FunctionFailed

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    EachBatch = Callable[[DataFrame, int], None]

# What Spark takes for the end of a batch whose query was stopped, and signs of one in longer texts.
_STOPPED = "py4j.protocol.Py4JJavaError: An error occurred while calling {}: {}"
_SIGNS_OF_A_STOP = ("SPARK_JOB_CANCELLED", "Interrupted", "ClosedByInterrupt")
_FAILURE = FunctionFailed.__name__
_POLL = 0.05  # seconds


class _Active(Protocol):
    @property
    def isActive(self) -> bool: ...


class BatchGate:
    """Lets batches in until it is closed; whoever closes it waits for the one that is inside.

    Guarantee: once `close` has returned True, no batch is in progress and none begins.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._closed = False
        self._inside: int | None = None  # the thread of the batch in progress

    def enter(self) -> bool:
        """Whether a batch may begin; if so, `leave` must follow."""
        with self._changed:
            if self._closed:
                return False
            self._inside = threading.get_ident()
            return True

    def leave(self) -> None:
        """The batch is over."""
        with self._changed:
            self._inside = None
            self._changed.notify_all()

    def close(self, timeout: float | None = None) -> bool:
        """Let no further batch in, and wait for the one in progress; whether it has ended.

        Parameters:
            timeout: at most so many seconds; None for as long as it takes.
        """
        with self._changed:
            self._closed = True
            return self._changed.wait_for(lambda: self._inside is None, timeout)

    def is_inside(self) -> bool:
        """Whether this very thread is the one of the batch in progress."""
        return self._inside == threading.get_ident()


def stoppable(
    each: EachBatch,
    gate: BatchGate | None = None,
    query: Callable[[], _Active | None] | None = None,
) -> EachBatch:
    """The same function for `foreachBatch`, for queries that are stopped between or within batches.

    A batch that meets a closed gate waits until Spark's query is stopping and ends as one that was cut;
    it has done nothing, and the next start begins with it.

    Spark searches the error of a cancelled job by an expression that needs a stack as deep as the text
    is long: more than a thousand letters, and its thread ends with a StackOverflowError on the user's
    screen. So that error is shortened to the words that Spark looks for; all others stay as they are.

    Parameters:
        gate: closed by `StreamingQuery.stop`; None on Spark Connect, where batches run in another
            process.
        query: gives Spark's query, once it has started.
    """
    from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]

    def each_batch(df: DataFrame, batch: int) -> None:
        if gate is not None and not gate.enter():
            _wait_until_stopped(query)
            raise RuntimeError(_STOPPED.format("stop", "java.lang.InterruptedException"))
        try:
            each(df, batch)
        except Py4JJavaError as error:
            text = str(error)
            # The words of a user's own error may be among the signs.
            if _FAILURE in text or not any(sign in text for sign in _SIGNS_OF_A_STOP):
                raise
            first = next((line for line in text.splitlines()[1:] if line.strip()), "")
            raise RuntimeError(
                _STOPPED.format(first[:300], "java.lang.InterruptedException")
            ) from None
        finally:
            if gate is not None:
                gate.leave()

    return each_batch


def _wait_until_stopped(query: Callable[[], _Active | None] | None) -> None:
    """Spark takes an error for the end of a query, and not for a failure, only once it is stopping."""
    found = None if query is None else query()
    while found is not None and found.isActive:
        time.sleep(_POLL)
