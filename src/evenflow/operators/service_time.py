"""Another operator, with a service time per row."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyarrow as pa

from evenflow.model import InputError
from evenflow.operators.groups import I64
from evenflow.operators.protocol import F64, Operator, Rows


@dataclass(frozen=True)
class ServiceTime(Operator):
    """Runs another operator as slowly as if each row kept its worker busy for a while.

    The worker sleeps, so that a few cores can stand in for many machines: for demonstrations and
    measurements, not for production.

    Guarantee: the same states and output as those of `operator`; `update` takes at least `seconds` per
    row.

    Parameters:
        operator: the wrapped operator.
        seconds: the service time of a row, including the time of `operator` itself.
        sleep: the function that waits; replaced in tests.

    Example:
        >>> from evenflow.operators import Aggregates, count, on_table
        >>> slow = ServiceTime(Aggregates(hits=count()), 0.001)
        >>> on_table(slow, pa.table({"page": ["a", "b", "a"]}), "page").to_pylist()
        [{'page': 'a', 'hits': 2}, {'page': 'b', 'hits': 1}]
    """

    name: ClassVar[str] = "service-time"

    operator: Operator
    seconds: float
    sleep: Callable[[float], object] = time.sleep

    def __post_init__(self) -> None:
        if not (math.isfinite(self.seconds) and self.seconds >= 0):
            raise InputError(
                f"the service time must be a finite number of seconds, got {self.seconds}"
            )
        if self.operator.ends:
            raise InputError("a service time cannot be given to an operator with a ttl or timers")

    def columns(self) -> Sequence[str] | None:
        return self.operator.columns()

    def state_schema(self, rows: pa.Schema) -> pa.Schema:
        return self.operator.state_schema(rows)

    def output_schema(self, rows: pa.Schema) -> pa.Schema:
        return self.operator.output_schema(rows)

    def update(self, rows: Rows, state: pa.Table) -> pa.Table:
        return self.measured(rows, state)[0]

    def measured(self, rows: Rows, state: pa.Table) -> tuple[pa.Table, F64]:
        """The states, and the service time of each key's rows."""
        began = time.perf_counter()
        after = self.operator.update(rows, state)
        self.sleep(max(0.0, len(rows) * self.seconds - (time.perf_counter() - began)))
        counts = np.bincount(rows.group, minlength=rows.n_keys)
        return after, counts.astype(np.float64) * self.seconds

    def merge(self, a: pa.Table, b: pa.Table) -> pa.Table:
        return self.operator.merge(a, b)

    def merge_groups(self, states: pa.Table, group: I64, n: int) -> pa.Table:
        return self.operator.merge_groups(states, group, n)

    def emit(self, keys: pa.Table, state: pa.Table) -> pa.Table:
        return self.operator.emit(keys, state)

    def emitted(self, keys: pa.Table, state: pa.Table) -> tuple[pa.Table, I64 | None]:
        return self.operator.emitted(keys, state)

    @property
    def whole_keys(self) -> bool:
        return self.operator.whole_keys

    @property
    def mergeable(self) -> bool:
        return self.operator.mergeable

    @property
    def identity(self) -> str:
        """That of the wrapped operator: the service time does not change the state."""
        return self.operator.identity

    def parameters(self) -> str:
        return self.operator.parameters()
