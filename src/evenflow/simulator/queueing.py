"""The simulation with queues: sources route, workers serve and send signals back."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from evenflow.grouping import GroupingScheme, Scheme
from evenflow.metrics import LatencyHistogram
from evenflow.metrics.roster import F64, I32
from evenflow.model import Feedback, InputError, Workers
from evenflow.model.validation import check_whole
from evenflow.simulator.arrivals import ArrivalCurve
from evenflow.simulator.cluster import CapacityPlan, Cluster
from evenflow.simulator.engine import chunk_for
from evenflow.simulator.measurements import Measurements
from evenflow.simulator.queue_result import QueueResult, Slot
from evenflow.simulator.queues import Queues
from evenflow.simulator.schemes import make_scheme
from evenflow.simulator.signals import Piggyback, signals_of
from evenflow.simulator.sources import Sources
from evenflow.simulator.workloads.protocol import U64, Workload

__all__ = ["Cluster", "QueueResult", "Slot", "simulate_queues"]

_BLOCKS_PER_SLOT = 10
_MESSAGES_PER_BLOCK = 32  #: per source, at least: below it, calls cost more than routing


def simulate_queues(
    scheme: GroupingScheme | str,
    workload: Workload,
    cluster: Cluster,
    sources: int = 1,
    seed: int = 0,
    *,
    block: int | None = None,
    chunk: int | None = None,
    progress: Callable[[int], object] | None = None,
) -> QueueResult:
    """Routes a stream in virtual time to workers with queues, capacities and signals.

    Message i arrives by the cluster's arrival curve at source i mod `sources`, which routes it at once
    (there is no network latency). Workers serve first come, first served. At the end of every time slot
    each worker compares its load with two thresholds and may raise a signal; a source receives it with
    the acknowledgement of one of its own messages to that worker, and `observe`s it at the beginning of
    the next block. So sources are only eventually consistent. The clock that schemes see
    (`Feedback.time`) counts the finished slots.

    Guarantee: queues, finish times, latencies (except quantiles) and signals are exact. The result
    (except the time taken) depends on the scheme, the workload, the cluster, `sources`, `seed` and
    `block`, not on `chunk`. Memory does not grow with the stream nor with the queues.

    Parameters:
        scheme: a grouping scheme, or its name with parameters (`"consistent:virtual=100"`).
        workload: the stream; it is read twice if its length is unknown.
        cluster: the machines, the arrivals, the time slots.
        sources: number of routers that share the stream.
        seed: of the hash functions and of exponential service times; the workload has its own.
        block: messages between two deliveries of signals to the sources, counted from the beginning
            of each slot: the delay of a signal on top of its acknowledgement's. None: a tenth of a slot
            (more if a source would have less than 32 messages in it). No effect on a scheme that does
            not use feedback.
        chunk: messages read at a time; None for a good default.
        progress: called with the number of messages done so far, after every chunk.

    Example:
        Three of ten machines are five times stronger. Consistent grouping finds out:

        >>> from evenflow.simulator.workloads import Zipf
        >>> stream = Zipf(exponent=1.0, messages=200_000, seed=1)
        >>> cluster = Cluster(workers=10, heterogeneity=(3, 5), slots=100)
        >>> uneven = simulate_queues("shuffle", stream, cluster, sources=2)
        >>> evened = simulate_queues("consistent", stream, cluster, sources=2)
        >>> uneven.timeline[-1].queue_max > 10 * evened.timeline[-1].queue_max
        True

    Paper: the model of "Consistent Grouping", §IV, §V-C and §VII.
    """
    chosen = make_scheme(scheme) if isinstance(scheme, str) else scheme
    loop = _Loop(chosen, _length(workload), cluster, sources, seed, block)
    for keys in workload.chunks(chunk_for(sources) if chunk is None else chunk):
        loop.take(keys)
        if progress is not None:
            progress(loop.sources.messages)
    return loop.result(workload)


def _length(workload: Workload) -> int:
    length = workload.length()
    return sum(len(keys) for keys in workload.chunks(1 << 20)) if length is None else length


class _Loop:
    """The changing state of one simulation."""

    def __init__(
        self,
        scheme: GroupingScheme,
        messages: int,
        cluster: Cluster,
        sources: int,
        seed: int,
        block: int | None,
    ) -> None:
        roster = Workers.numbered(cluster.workers)
        self._scheme, self._cluster, self._seed = scheme, cluster, seed
        self.sources = Sources(scheme, roster, sources, seed)
        self._curve = ArrivalCurve(cluster.arrivals, messages)
        self._plan = CapacityPlan(cluster, self._curve)
        self._queues = Queues(self._plan, cluster.service == "exponential", seed)
        self._slots = cluster.slots_for(messages)
        self._slot = self._curve.duration / self._slots
        self._measurements = Measurements(roster)
        self._latencies = LatencyHistogram()
        self._timeline: list[Slot] = []
        self._acks: Piggyback | None = None
        if _uses_feedback(scheme):
            self._acks = Piggyback(cluster.workers, sources, self._slot)
        self._block = _block_size(block, messages // self._slots, sources)
        self._next_block = 0
        self._next_slot = self._first_of_next_slot()
        self._arrived = np.zeros(cluster.workers, np.int64)  #: at each worker
        self._done = 0  #: messages finished by the end of the last slot
        self._moves: int | None = 0  #: None: to be counted again

    def take(self, keys: U64) -> None:
        """The next messages of the stream."""
        start, stop = self.sources.messages, self.sources.messages + len(keys)
        if stop > self._curve.messages:
            raise InputError(
                f"the workload has more messages than the {self._curve.messages} that its length() "
                "reports"
            )
        if start == 0:
            self.sources.warm_up(keys)
        times = self._curve.times(start, stop)
        numbers = np.empty(len(keys), np.int32)
        if self._acks is None:
            numbers[:] = self._measurements.numbers(self.sources.route(keys))
        position = start
        while position < stop:
            end = self._next_end(position, times[position - start], stop)
            piece = slice(position - start, end - start)
            if self._acks is not None:
                numbers[piece] = self._measurements.numbers(self.sources.route(keys[piece]))
            self._serve(position, numbers[piece], times[piece])
            position = end
        self._measurements.take(keys, numbers)

    def _next_end(self, position: int, now: float, stop: int) -> int:
        """Do what is due before the message at `position`; returns where the next such step is due."""
        while position == self._next_slot:
            self._end_slot()
            self._next_slot = self._first_of_next_slot()
            self._next_block = position
        if self._acks is None:
            return min(stop, self._next_slot)
        if position == self._next_block:
            self._deliver_signals(now)
            self._next_block += self._block
        return min(stop, self._next_slot, self._next_block)

    def _serve(self, position: int, numbers: I32, times: F64) -> None:
        finish = self._queues.serve(numbers, times)
        self._latencies.update(finish - times)
        if self._acks is not None:
            self._acks.take(numbers, finish, position % len(self.sources))

    def _deliver_signals(self, now: float) -> None:
        """Deliver the signals that acknowledgements have brought to sources by `now`."""
        assert self._acks is not None
        for source, signals in self._acks.arrived(now).items():
            self.sources.observe(source, Feedback(float(len(self._timeline)), signals))
            self._moves = None

    def _first_of_next_slot(self) -> int:
        ended = len(self._timeline)
        if ended + 1 >= self._slots:  # the last slot ends with the stream
            return self._curve.messages
        return self._curve.first_at((ended + 1) * self._slot)

    def _end_slot(self) -> None:
        """Measure the finished slot; then the workers raise their signals."""
        now = (len(self._timeline) + 1) * self._slot
        if self._acks is not None:
            # Acknowledgements within the slot cannot carry a signal of its end.
            self._deliver_signals(math.nextafter(now, -math.inf))
        lengths = self._queues.lengths(now)
        assigned, latency = self._queues.end_slot()
        capacity = self._plan.work_until(now) - self._plan.work_until(now - self._slot)
        loads, self._arrived = assigned / capacity, self._arrived + assigned
        so_far = self._arrived / self._plan.work_until(now)
        some = assigned > 0
        means = latency[some] / assigned[some]
        most = float(means.max()) if len(means) else None
        least = float(means.min()) if len(means) else None
        arrived = int(self._arrived.sum())
        done = arrived - int(lengths.sum())
        self._timeline.append(
            Slot(
                time=now,
                messages=arrived,
                queue_max=int(lengths.max()),
                queue_min=int(lengths.min()),
                queue_mean=float(lengths.mean()),
                queue_difference=int(lengths.max() - lengths.min()),
                latency_max=most,
                latency_min=least,
                latency_mean=float(latency.sum() / assigned.sum()) if len(means) else None,
                latency_difference=None if most is None or least is None else most - least,
                imbalance=float(loads.max() - loads.mean()),
                cumulative_imbalance=float(so_far.max() - so_far.mean()),
                moves=self._moves_so_far(),
                throughput=(done - self._done) / self._slot,
                **_utilisation(loads),
            )
        )
        self._done = done
        if self._acks is not None:
            if self._cluster.signals == "queue":
                loads = lengths / self._cluster.queue_capacity
            self._acks.raise_signals(signals_of(loads, self._cluster.idle, self._cluster.busy))

    def _moves_so_far(self) -> int:
        if self._moves is None:
            states = (self.sources.describe(source) for source in range(len(self.sources)))
            self._moves = sum(int(state.get("moves", 0)) for state in states)
        return self._moves

    def result(self, workload: Workload) -> QueueResult:
        if self.sources.messages < self._curve.messages:
            raise InputError(
                f"the workload has only {self.sources.messages} messages, but its length() reports "
                f"{self._curve.messages}"
            )
        while len(self._timeline) < self._slots:
            self._end_slot()
        routing = self._measurements.result(self._scheme, workload, self.sources, self._seed)
        loads = np.array(routing.loads) / self._plan.work_until(self._curve.duration)
        latencies, last = self._latencies, self._queues.last_finish
        return QueueResult(
            routing=routing,
            cluster=self._cluster,
            block=self._block,
            timeline=tuple(self._timeline),
            latency_mean=latencies.mean,
            latency_p50=latencies.quantile(0.50),
            latency_p95=latencies.quantile(0.95),
            latency_p99=latencies.quantile(0.99),
            latency_max=latencies.max,
            queue_max=self._queues.longest,
            # Little's law: the time that all messages spend is the area under the queues.
            queue_mean=latencies.sum / (self._cluster.workers * last),
            throughput=routing.messages / last,
            utilisation_imbalance=float(loads.max() - loads.mean()),
            moves=self._moves_so_far(),
            **_utilisation(loads),
        )


def _uses_feedback(scheme: GroupingScheme) -> bool:
    """Whether the scheme overrides `observe`."""
    observe: object = type(scheme).observe
    return observe is not Scheme.observe


def _block_size(block: int | None, slot: int, sources: int) -> int:
    if block is not None:
        check_whole("block", block, least=1)
        return block
    return max(1, min(slot, max(slot // _BLOCKS_PER_SLOT, _MESSAGES_PER_BLOCK * sources)))


def _utilisation(loads: F64) -> dict[str, float]:
    most, least = float(loads.max()), float(loads.min())
    return {
        "utilisation_max": most,
        "utilisation_min": least,
        "utilisation_mean": float(loads.mean()),
        "utilisation_difference": most - least,
    }
