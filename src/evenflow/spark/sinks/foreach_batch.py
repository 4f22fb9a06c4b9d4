"""`foreachBatch`: a function of each batch's DataFrame."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from evenflow.engine.output import Output
from evenflow.spark.sinks.frames import output_frame
from evenflow.spark.sinks.protocol import InCheckpoint

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True)
class ForEachBatch(InCheckpoint):
    """Calls `function(df, batch)` with the output of each batch as a DataFrame, as `foreachBatch` does.

    Guarantee: every batch is handed over at least once before it is committed, and not after; a batch
    that is handed over again has the same number and rows, so that a transaction keyed by the number
    makes it exactly once.
    """

    function: Callable[[DataFrame, int], object]

    def deliver(self, output: Output, session: Any) -> None:
        self.function(output_frame(output, session), output.batch)
