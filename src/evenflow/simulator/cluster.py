"""The machines of the workers: their capacities, and when these change."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from evenflow.metrics.roster import F64
from evenflow.model import InputError
from evenflow.model.validation import check_positive, check_share, check_whole
from evenflow.simulator.arrivals import ArrivalCurve, rates_of

Heterogeneity = tuple[int, float]  #: (y, z): y machines are z times stronger than the others

SERVICES = ("deterministic", "exponential")
SIGNALS = ("utilisation", "queue")
_MESSAGES_PER_SLOT = 1_000  #: per worker, on average: enough to distinguish 0.75 from 0.85


@dataclass(frozen=True)
class Cluster:
    """n machines, one per worker, and what a worker reports about its load.

    Capacities are set so that shuffle on n equal machines would run at `utilisation`; the sum of all
    capacities is the same for every heterogeneity, before and after every change.

    Parameters:
        workers: number of machines.
        utilisation: messages ÷ capacity of the whole cluster, on average over the stream.
        heterogeneity: (y, z): machines 0 … y − 1 are z times stronger than the others; None: all
            are equal.
        changes: (messages, (y, z)) pairs: the heterogeneity from the arrival of that message on.
        slots: time slots over the stream; None for one per 1 000 messages per worker.
        arrivals: a curve's name, or rates; see `ArrivalCurve`.
        service: "deterministic", or "exponential" with the same mean.
        signals: what a worker compares with `idle` and `busy` at the end of a slot: "utilisation",
            its messages ÷ its capacity in the slot, or "queue", its queue ÷ `queue_capacity`.
        idle: below it a worker requests more work; `busy`: above it, less.
        queue_capacity: of a worker's input queue; only a scale, no message is dropped.

    Example:
        >>> cluster = Cluster(workers=4, utilisation=0.8, heterogeneity=(1, 2))
        >>> cluster.capacities(cluster.heterogeneity).tolist()
        [0.5, 0.25, 0.25, 0.25]
        >>> cluster.capacities(None).tolist()
        [0.3125, 0.3125, 0.3125, 0.3125]

    Paper: "Consistent Grouping", §IV, "Monitoring Performance" in §VII-A, and §VII-B.
    """

    workers: int
    utilisation: float = 0.8
    heterogeneity: Heterogeneity | None = None
    changes: tuple[tuple[int, Heterogeneity | None], ...] = ()
    slots: int | None = None
    arrivals: str | tuple[float, ...] = "constant"
    service: str = "deterministic"
    signals: str = "utilisation"
    idle: float = 0.75
    busy: float = 0.85
    queue_capacity: int = 1_024

    def __post_init__(self) -> None:
        check_whole("the number of workers", self.workers, least=1)
        check_positive("utilisation", self.utilisation)
        object.__setattr__(self, "heterogeneity", self._pair(self.heterogeneity))
        object.__setattr__(self, "changes", tuple(self._change(c) for c in self.changes))
        after = [messages for messages, _ in self.changes]
        if after != sorted(set(after)):
            raise InputError(f"changes must be in order of their messages, got after {after}")
        if self.slots is not None:
            check_whole("slots", self.slots, least=1)
        if not isinstance(self.arrivals, str):
            object.__setattr__(self, "arrivals", tuple(self.arrivals))
        rates_of(self.arrivals)
        _check_one_of("service", self.service, SERVICES)
        _check_one_of("signals", self.signals, SIGNALS)
        check_share("idle", self.idle)
        check_positive("busy", self.busy)
        if self.busy < self.idle:
            raise InputError(f"busy must be at least idle, got {self.busy} and {self.idle}")
        check_whole("queue_capacity", self.queue_capacity, least=1)

    def _pair(self, given: Sequence[float] | None) -> Heterogeneity | None:
        if given is None:
            return None
        if isinstance(given, str) or not isinstance(given, Sequence) or len(given) != 2:
            raise InputError(
                f"heterogeneity must be two numbers, (machines, times stronger), got {given!r}"
            )
        strong, times = given
        check_whole("the number of stronger machines", strong, least=0)
        check_positive("how many times stronger machines are", times)
        if strong > self.workers:
            raise InputError(
                f"{strong} machines cannot be stronger than the others: there are {self.workers}"
            )
        return int(strong), float(times)

    def _change(self, given: Any) -> tuple[int, Heterogeneity | None]:
        try:
            after, pair = given
        except (TypeError, ValueError):
            raise InputError(
                f"a change must be (messages, (machines, times stronger)), got {given!r}"
            ) from None
        check_whole("the messages before a change", after, least=0)
        return int(after), self._pair(pair)

    @classmethod
    def from_dict(cls, given: Mapping[str, Any], workers: int | None = None) -> Cluster:
        """A cluster from plain values, as JSON or TOML hold them.

        Parameters:
            given: the fields by name; those left out have their defaults.
            workers: the number of machines, if `given` has none.

        Example:
            >>> Cluster.from_dict({"changes": [[600, [5, 4]]]}, workers=10).changes
            ((600, (5, 4.0)),)
        """
        names = [field.name for field in dataclasses.fields(cls)]
        unknown = sorted(given.keys() - set(names))
        if unknown:
            raise InputError(f"a cluster has no {unknown[0]!r}; it has {', '.join(names)}")
        fields = {"workers": workers, **given}
        if fields["workers"] is None:
            raise InputError("a cluster needs a number of workers")
        return cls(**fields)

    def to_dict(self) -> dict[str, Any]:
        """The fields by name; `from_dict` makes the same cluster of them."""
        return dataclasses.asdict(self)

    def capacities(self, heterogeneity: Heterogeneity | None) -> F64:
        """Messages per unit of time that each machine can serve."""
        strong, times = heterogeneity or (0, 1.0)
        relative = np.where(np.arange(self.workers) < strong, times, 1.0)
        capacities: F64 = relative / (relative.sum() * self.utilisation)
        return capacities

    def slots_for(self, messages: int) -> int:
        """The number of time slots of a stream."""
        slots = self.slots or max(1, messages // (_MESSAGES_PER_SLOT * self.workers))
        if slots > messages:
            raise InputError(
                f"got {slots} slots for {messages} messages; at most one per message is possible"
            )
        return slots


class CapacityPlan:
    """The capacity of every machine over time, in eras between changes.

    Attributes:
        capacities: one row per era, one column per machine.
        until: when each era ends; the last never does.

    Example:
        >>> cluster = Cluster(workers=2, utilisation=0.5, changes=((3, (1, 3)),))
        >>> plan = CapacityPlan(cluster, ArrivalCurve("constant", messages=10))
        >>> plan.capacities.tolist(), plan.until.tolist()
        ([[1.0, 1.0], [1.5, 0.5]], [3.0, inf])
        >>> plan.work_until(5.0).tolist()
        [6.0, 4.0]
    """

    def __init__(self, cluster: Cluster, curve: ArrivalCurve) -> None:
        for after, _ in cluster.changes:
            if after >= curve.messages:
                raise InputError(
                    f"a change after {after} messages is beyond the stream's {curve.messages}; "
                    "remove it or move it forward"
                )
        pairs = [cluster.heterogeneity, *(pair for _, pair in cluster.changes)]
        self.capacities: F64 = np.array([cluster.capacities(pair) for pair in pairs])
        changes = [float(curve.times(after, after + 1)[0]) for after, _ in cluster.changes]
        self._since = np.array([0.0, *changes])
        self.until: F64 = np.array([*changes, math.inf])

    def work_until(self, time: float) -> F64:
        """The messages that each machine could have served by then."""
        lengths = np.clip(np.minimum(self.until, time) - self._since, 0.0, None)
        work: F64 = lengths @ self.capacities
        return work


def _check_one_of(what: str, value: str, known: tuple[str, ...]) -> None:
    if value not in known:
        raise InputError(f"{what} must be one of {', '.join(known)}, got {value!r}")
