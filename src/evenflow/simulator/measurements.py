"""Measurements at the workers, which all simulations share."""

from __future__ import annotations

from evenflow.grouping import GroupingScheme
from evenflow.metrics import (
    ImbalanceTracker,
    ReplicationTracker,
    WorkerNumbers,
    WorstSlidingWindow,
    WorstWindow,
)
from evenflow.metrics.roster import I32
from evenflow.model import Workers
from evenflow.simulator.result import Result, parameters_of
from evenflow.simulator.sources import Sources
from evenflow.simulator.workloads.protocol import U64, Workload


class Measurements:
    """Tracks the loads and the keys of the workers."""

    def __init__(self, roster: Workers) -> None:
        self._roster = roster
        self._numbers_of = WorkerNumbers(roster)
        self._imbalance = ImbalanceTracker(roster)
        self._replication = ReplicationTracker(roster)
        self._worst_window = WorstWindow(roster)
        self._worst_sliding_window = WorstSlidingWindow(roster)

    def numbers(self, ids: I32) -> I32:
        """The number of each worker id; an unknown id is an error."""
        return self._numbers_of.of(ids)

    def take(self, keys: U64, numbers: I32) -> None:
        """The next messages: key and worker number of each."""
        self._imbalance.update(numbers)
        self._replication.update(keys, numbers)
        self._worst_window.update(numbers)
        self._worst_sliding_window.update(numbers)

    def result(
        self, scheme: GroupingScheme, workload: Workload, sources: Sources, seed: int
    ) -> Result:
        """The result at the end of the stream."""
        loads = self._imbalance.loads
        return Result(
            grouping=type(scheme).name,
            parameters=parameters_of(scheme),
            workers=len(self._roster),
            weights=self._roster.weights,
            sources=len(sources),
            seed=seed,
            workload=workload.describe(),
            messages=sources.messages,
            keys=self._replication.keys,
            imbalance=self._imbalance.current,
            imbalance_mean=self._imbalance.mean,
            replication=self._replication.replication,
            replicas=self._replication.pairs,
            max_load=float(loads.max()) / max(1, sources.messages),
            worst_window=self._worst_window.value,
            worst_sliding_window=self._worst_sliding_window.value,
            loads=tuple(loads.tolist()),
            timeline=tuple(self._imbalance.timeline()),
            details=sources.describe(),
            ns_per_message=sources.nanoseconds / max(1, sources.messages),
        )
