"""The batch without rows at the end of `availableNow`: what event time has passed is put out.

Spark runs one where a plan of its own has windows in append mode. To Spark, evenflow's plans have none,
so this one is run here, once Spark's query has ended.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_POLL = 0.2  # seconds
_SWITCH = "spark.sql.streaming.noDataMicroBatches.enabled"  # Spark's own


def closes_at_end(spark: SparkSession) -> bool:
    """Whether Spark's setting allows batches without rows."""
    return str(spark.conf.get(_SWITCH, "true")).lower() == "true"


class LastBatch:
    """Runs the last batch when Spark's query has ended by itself, and not if it was stopped or failed.

    Parameters:
        spark_query: Spark's own.
        run: the last batch.
    """

    def __init__(self, spark_query: Any, run: Callable[[], object]) -> None:
        self._query, self._run = spark_query, run
        self._cancelled = False
        self.error: Exception | None = None
        self._thread = threading.Thread(target=self._watch, name="evenflow-last-batch", daemon=True)
        self._thread.start()

    @property
    def is_active(self) -> bool:
        """Whether it is still to come, or in progress."""
        return self._thread.is_alive()

    def cancel(self) -> None:
        """Do not run it, if it has not begun."""
        self._cancelled = True

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until it is done; whether it is. Called from within it, as from `onBatch`, it does not
        wait."""
        if threading.current_thread() is self._thread:
            return False
        self._thread.join(timeout)
        return not self._thread.is_alive()

    def _watch(self) -> None:
        try:
            with suppress(Exception):  # a query that fails says so to whoever asks it
                self._query.awaitTermination()
            while self._query.isActive:  # on Spark Connect, waiting may have been cut
                time.sleep(_POLL)
            if self._cancelled or self._query.exception() is not None:
                return
            self._run()
        except Exception as error:
            self.error = error
