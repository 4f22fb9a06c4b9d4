"""Route: each source task gives every row a worker. The first step of the loop."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from evenflow.engine.job import FINGERPRINT, WORKER
from evenflow.grouping.protocol import GroupingScheme
from evenflow.grouping.table import TableRouting
from evenflow.model import Feedback, KeyCounts, RoutingTable


@dataclass(frozen=True)
class Route:
    """A `mapInArrow` function that puts worker and fingerprint before the columns of each row.

    Guarantee: where a row goes depends on the rows before it in its partition, the partition's number,
    the batch, the plan and the seed, and on nothing else: a task that Spark runs again sends every row
    where it went before.
    """

    scheme: GroupingScheme
    workers: int
    seed: int
    key: tuple[str, ...]
    hot: KeyCounts
    batch: int = 0
    table: RoutingTable = field(default_factory=RoutingTable)
    buckets: tuple[int, ...] = ()

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        task = TaskContext.get()
        router = Router(self, 0 if task is None else task.partitionId())
        for batch in batches:
            yield router.routed(batch)


class Router:
    """One source's router at work on one batch."""

    def __init__(self, route: Route, partition: int) -> None:
        self.route = route
        # Where ties and round-robins begin differs by batch, too: small batches would otherwise all
        # favour the same workers.
        self.state = route.scheme.start(route.workers, route.seed, partition + (route.batch << 20))
        if isinstance(route.scheme, TableRouting):
            self.state = route.scheme.placed(self.state, route.buckets, route.table)
        elif route.hot.counts:
            route.scheme.observe(self.state, Feedback(hot=route.hot))

    def routed(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The batch, with worker and fingerprint before its columns."""
        fingerprints = fingerprints_of(batch, self.route.key)
        out = np.empty(len(fingerprints), np.int32)
        self.route.scheme.route(self.state, fingerprints, out)
        return pa.record_batch(
            [pa.array(out), pa.array(fingerprints.view(np.int64)), *batch.columns],
            names=[WORKER, FINGERPRINT, *batch.schema.names],
        )


def fingerprints_of(batch: pa.RecordBatch, key: tuple[str, ...]) -> np.ndarray:
    """The fingerprints of the rows' keys: of the column itself, or of all of them together."""
    from evenflow.kernels.fingerprints import fingerprint

    return fingerprint(batch.column(key[0]) if len(key) == 1 else batch.select(list(key)))
