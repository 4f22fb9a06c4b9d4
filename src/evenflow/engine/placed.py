"""Rows for work outside the engine's own tasks: only where they go is planned here."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from evenflow.engine.task import Task
from evenflow.engine.work import Result, Work


@dataclass(frozen=True)
class Placed(Work):
    """Rows that are brought to their partitions, for whatever follows.

    Parameters:
        name: of what follows, for messages.
        mergeable: whether the rows of a key may be in several partitions.
        in_key_order: whether partitions should follow the order of keys, as far as they can.
    """

    name: str
    mergeable: bool = False
    in_key_order: bool = False

    def describe(self) -> str:
        return self.name

    def signature(self) -> dict[str, Any]:
        return {"operator": self.name}

    def columns(self) -> Sequence[str]:
        return ()

    def state_schema(self, rows: pa.Schema) -> pa.Schema:
        return pa.schema([])

    def output_schema(self, rows: pa.Schema) -> pa.Schema:
        return pa.schema([])

    def run(self, task: Task, batches: Iterator[pa.RecordBatch]) -> Result:
        raise NotImplementedError(f"{self.name} has no tasks of the engine")
