"""Replanning between batches: the engine itself, in this process, on a simulated stream.

The code is the same as on Spark: routing, tasks, state, controller. Only Spark's shuffle and processes
are missing, so plans, moves and decisions are those of a query.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from evenflow.engine.in_process import run_stream
from evenflow.engine.job import Job
from evenflow.engine.keyed_states import KeyedStates
from evenflow.grouping import make
from evenflow.model.validation import check_whole
from evenflow.operators import Aggregates, count
from evenflow.planning.controller import Replanning
from evenflow.simulator.workloads.protocol import Workload
from evenflow.storage.memory import MemoryStorage

_ROWS = pa.schema([("key", pa.int64())])


@dataclass(frozen=True)
class Interval:
    """One batch: its balance, and the decision after it.

    Parameters:
        batch: its number.
        rows: how many messages it had.
        max_over_average: the fullest partition, as a multiple of the average.
        table_size: entries of the routing table in use.
        moved_keys: keys that moved to another partition with it, with their state.
        moved_bytes: bytes of that state.
        changed: whether the table was replanned after it.
        reason: why, or why not.
    """

    batch: int
    rows: int
    max_over_average: float
    table_size: int
    moved_keys: int
    moved_bytes: int
    changed: bool
    reason: str

    @classmethod
    def of(cls, metrics: dict[str, Any]) -> Interval:
        decision = metrics["planning"]
        return cls(
            batch=metrics["batch"],
            rows=metrics["rows"],
            max_over_average=metrics["max_over_average"],
            table_size=metrics["table_size"],
            moved_keys=metrics["migrated_keys"],
            moved_bytes=metrics["migrated_bytes"],
            changed=decision["changed"],
            reason=decision["reason"],
        )


def simulate_replanning(
    workload: Workload,
    partitions: int,
    messages: int,
    replanning: Replanning | None = None,
    *,
    limit: int = 3000,
    seed: int = 0,
) -> Iterator[Interval]:
    """Count a stream by key under a routing table that is replanned between batches.

    Parameters:
        workload: the stream.
        partitions: their number.
        messages: messages per batch.
        replanning: planner, threshold and budget.
        limit: maximum number of table entries.
        seed: of the hash functions; the workload has its own.

    Example:
        >>> from evenflow.simulator.workloads import Zipf
        >>> stream = Zipf(exponent=1.0, keys=1000, messages=60_000)
        >>> loads = [i.max_over_average for i in simulate_replanning(stream, 4, 20_000)]
        >>> loads[0] > 1.15 > loads[-1]
        True
    """
    check_whole("messages", messages, least=1)
    job = Job(
        ("key",),
        _ROWS,
        KeyedStates(Aggregates(n=count())),
        make("table", limit=limit),
        partitions,
        seed,
        replanning,
    )
    storage = MemoryStorage()
    try:
        for metrics in run_stream(job, storage, _tables(workload, messages)):
            yield Interval.of(dict(metrics))
    finally:
        storage.clear()


def _tables(workload: Workload, messages: int) -> Iterator[pa.Table]:
    for keys in workload.chunks(messages):
        yield pa.table([pa.array(np.asarray(keys).view(np.int64))], schema=_ROWS)
