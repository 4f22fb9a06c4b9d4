"""Work that serves: it takes its time for every message, or for every pair of a join."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar
from uuid import uuid4

import pyarrow as pa

from evenflow.operators import Aggregates, Operator, Rows, count
from evenflow.operators.groups import I64

_COUNT = Aggregates(n=count())


@dataclass(frozen=True)
class Serving(Operator):
    """Counts messages, and sleeps so many seconds for each.

    Parameters:
        seconds: for one message.
        log: a directory to which every call adds a file: when it began and ended, for how many
            messages.
    """

    name: ClassVar[str] = "serving"

    seconds: float
    log: str

    def columns(self) -> Sequence[str]:
        return ()

    def state_schema(self, rows: pa.Schema) -> pa.Schema:
        return _COUNT.state_schema(rows)

    def output_schema(self, rows: pa.Schema) -> pa.Schema:
        return _COUNT.output_schema(rows)

    def update(self, rows: Rows, state: pa.Table) -> pa.Table:
        _serve(len(rows), self.seconds, self.log)
        return _COUNT.update(rows, state)

    def merge(self, a: pa.Table, b: pa.Table) -> pa.Table:
        return _COUNT.merge(a, b)

    def merge_groups(self, states: pa.Table, group: I64, n: int) -> pa.Table:
        return _COUNT.merge_groups(states, group, n)

    def emit(self, keys: pa.Table, state: pa.Table) -> pa.Table:
        return _COUNT.emit(keys, state)


@dataclass(frozen=True)
class ServingPairs:
    """Takes every pair of a window join, and sleeps so many seconds for each.

    Parameters are those of `Serving`, of pairs.
    """

    seconds: float
    log: str

    def __call__(self, pairs: pa.Table) -> pa.Array:
        _serve(pairs.num_rows, self.seconds, self.log)
        return pa.repeat(True, pairs.num_rows)


def _serve(rows: int, seconds: float, log: str) -> None:
    began = time.time()
    time.sleep(rows * seconds)
    served = {"began": began, "ended": time.time(), "rows": rows}
    (Path(log) / f"{uuid4().hex}.json").write_text(json.dumps(served))
