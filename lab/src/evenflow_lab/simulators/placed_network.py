"""A network of operators on nodes, in virtual time: tuples queue, statistics are taken, operators move.

warm-up ─▶ the global algorithm, once ─▶ every period: the pair-wise algorithm
             (from the last k samples)        (from the last k samples)
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from evenflow.model import InputError
from evenflow.model.validation import check_not_negative, check_positive, check_whole
from evenflow.placement.board import Board
from evenflow.placement.protocol import (
    Nodes,
    Observed,
    Placer,
    Proposal,
    average_correlation,
    least_variance,
)
from evenflow.placement.ranking import by_load
from evenflow_lab.simulators.input_streams import InputStreams
from evenflow_lab.simulators.operator_networks import OperatorNetwork
from evenflow_lab.simulators.operator_queues import LATENCY, TUPLES, WORK, OperatorQueues

F64 = npt.NDArray[np.float64]
I32 = npt.NDArray[np.int32]


@dataclass(frozen=True)
class Schedule:
    """When what happens; all times in seconds.

    Parameters:
        warm_up: statistics are collected, and only overloaded nodes give load away.
        duration: how long it goes on after that.
        window: the statistics window, of which the last one counts.
        samples: k, samples in a window.
        period: between two calls of the pair-wise algorithm.
        migration: how long an operator that moves is suspended.
        pairwise_from: when the pair-wise algorithm begins; after the warm-up if not given.
        measured_from: from when on latencies count; after the warm-up if not given.

    Example:
        >>> Schedule(window=10.0, samples=5).sample
        2.0

    Paper: "Dynamic Load Distribution in the Borealis Stream Processor", Table 2.
    """

    warm_up: float = 20.0
    duration: float = 100.0
    window: float = 10.0
    samples: int = 10
    period: float = 1.0
    migration: float = 0.2
    pairwise_from: float | None = None
    measured_from: float | None = None

    def __post_init__(self) -> None:
        for name in ("duration", "window", "period"):
            check_positive(f"the {name}", getattr(self, name))
        check_not_negative("the migration time", self.migration)
        check_whole("the number of samples", self.samples, 1)
        if not self.warm_up >= self.window:
            raise InputError(
                f"a warm-up of {self.warm_up:g} s is shorter than the statistics window of "
                f"{self.window:g} s: the first decision would have nothing to go by"
            )

    @property
    def sample(self) -> float:
        """How long one sample is."""
        return self.window / self.samples

    @property
    def end(self) -> float:
        """When it is over."""
        return self.warm_up + self.duration


class Tick(NamedTuple):
    """One period.

    Parameters:
        time: when it ended, counted from the end of the warm-up.
        latency_ratio: of the tuples that left in it; None if none did.
        deviation: standard deviation of the nodes' loads in the last window, by the plan at its end;
            the average over the nodes.
        minimum: the least that it could be, by Theorem 1.
        correlation: average load correlation of the nodes, likewise.
        load_moved: since the warm-up.
        waiting: tuples in the network.
    """

    time: float
    latency_ratio: float | None
    deviation: float
    minimum: float
    correlation: float
    load_moved: float
    waiting: int


@dataclass(frozen=True)
class NetworkResult:
    """What came of it.

    Parameters:
        latency: average seconds from a tuple's arrival until what it led to left the network.
        latency_ratio: that over the average time of service in it.
        tuples: that left while it was measured.
        level: busy time of all nodes over all time, while it was measured.
        load_moved: loads of operators each time they moved, after the warm-up.
        moves: how often operators moved, after the warm-up.
        growth: tuples by which the queues grew while it was measured, by a straight line through their
            lengths, for each tuple that left. Where it stays above 0 queues grow without bound, and
            latencies measure how long the run was.
        deviation: standard deviation of a node's load from sample to sample (of one second) while it
            was measured; the average over the nodes.
        minimum: the least that it could be: that of all load, over the number of nodes.
        correlation: average load correlation of the nodes while it was measured.
        timeline: period by period.
        where: the node of each operator at the end.
    """

    latency: float | None
    latency_ratio: float | None
    tuples: int
    level: float
    load_moved: float
    moves: int
    growth: float
    deviation: float
    minimum: float
    correlation: float
    timeline: tuple[Tick, ...]
    where: I32

    def to_dict(self, timeline: bool = False) -> dict[str, Any]:
        """Plain values; the long `timeline` on demand."""
        names = ("latency", "latency_ratio", "tuples", "level", "load_moved", "moves", "growth")
        found: dict[str, Any] = {
            name: getattr(self, name) for name in (*names, "deviation", "minimum", "correlation")
        }
        if timeline:
            found["timeline"] = [tick._asdict() for tick in self.timeline]
        return found


def run_network(
    network: OperatorNetwork,
    streams: InputStreams,
    nodes: Nodes,
    start: npt.ArrayLike,
    initial: Placer | None = None,
    pairwise: Placer | None = None,
    schedule: Schedule | None = None,
    seed: int = 0,
) -> NetworkResult:
    """Tuples through a network whose operators are placed by algorithms.

    Loads are the ideal ones of §2.2: what the tuples that have arrived on the input streams cost each
    operator, going by selectivities, whether or not they have got through. An operator that is being
    moved stays where it is going. In the warm-up, once the window is full, a node above its capacity
    gives operators to the node it is paired with, the largest load first.

    Guarantee: the result depends on the arguments alone. Queues and latencies are exact.

    Parameters:
        network, streams, nodes: what runs where.
        start: the node of each operator at the beginning.
        initial: the algorithm that places all operators when the warm-up is over.
        pairwise: the algorithm that is asked in every period after that.
        schedule: when what happens; the paper's own times if not given.
        seed: of arrivals and of how many tuples operators emit.

    Example:
        Two chains that burst in turn: placed apart, their bursts make up for each other.

        >>> from evenflow.placement import make_placer
        >>> from evenflow_lab.simulators.input_streams import at_level, periodic
        >>> network = OperatorNetwork.chains(2, length=2, cost=0.01, selectivity=(1.0, 1.0))
        >>> streams = periodic([1.0, 1.0], [0.0, 0.5], period=10.0, ratio=2.0, until=120.0)
        >>> streams = at_level(streams, [0.02, 0.02], nodes=2, level=0.8, until=120.0)
        >>> connected = run_network(network, streams, Nodes(2), [0, 0, 1, 1])
        >>> cut = run_network(network, streams, Nodes(2), [0, 0, 1, 1], make_placer("cor-glb"))
        >>> sorted(cut.where[:2].tolist()), cut.latency_ratio < connected.latency_ratio / 2
        ([0, 1], True)

    Paper: "Dynamic Load Distribution in the Borealis Stream Processor", §5.1.
    """
    return _Run(
        network, streams, nodes, start, initial, pairwise, schedule or Schedule(), seed
    ).result()


class _Run:
    """Everything that changes while time goes by."""

    def __init__(
        self,
        network: OperatorNetwork,
        streams: InputStreams,
        nodes: Nodes,
        start: npt.ArrayLike,
        initial: Placer | None,
        pairwise: Placer | None,
        schedule: Schedule,
        seed: int,
    ) -> None:
        if len(streams) != len(network.inputs):
            raise InputError(
                f"the network has {len(network.inputs)} inputs, but there are {len(streams)} streams"
            )
        self._nodes, self._schedule = nodes, schedule
        self._initial, self._pairwise = initial, pairwise
        times, stream = streams.arrivals(schedule.end, seed)
        self._queues = OperatorQueues(network, start, nodes.speeds(), seed)
        if len(self._queues.where) != len(network):
            raise InputError(f"{len(network)} operators, but {len(self._queues.where)} nodes given")
        self._queues.arrive(times, stream)
        self._loads = _sampled(network, times, stream, schedule.sample, schedule.end)
        self._seconds = _sampled(network, times, stream, 1.0, schedule.end)
        self._resuming: deque[tuple[float, I32]] = deque()
        self._plans: list[tuple[float, I32]] = [(0.0, self._queues.where.copy())]
        self._timeline: list[Tick] = []
        self._moved = 0.0
        self._moves = 0

    def result(self) -> NetworkResult:
        schedule = self._schedule
        begin = schedule.warm_up if schedule.measured_from is None else schedule.measured_from
        total, busy_before = np.zeros(3), np.zeros(len(self._nodes))
        ticks = round(schedule.end / schedule.period)
        for i in range(1, ticks + 1):
            now = i * schedule.period
            self._run(now)
            sums = self._queues.take_sums()
            if now <= begin + 1e-9:
                busy_before = self._queues.busy.copy()
            else:
                total += sums
            self._decide(now)
            self._note(now, sums)
        measured = ticks * schedule.period - begin
        series = self._node_series(begin)
        tuples = int(total[TUPLES])
        return NetworkResult(
            latency=float(total[LATENCY] / tuples) if tuples else None,
            latency_ratio=float(total[LATENCY] / total[WORK]) if tuples else None,
            tuples=tuples,
            level=float((self._queues.busy - busy_before).sum() / measured / len(self._nodes)),
            load_moved=self._moved,
            moves=self._moves,
            growth=_growth(self._timeline[round(begin / schedule.period) :]) / max(tuples, 1),
            deviation=float(series.std(axis=1).mean()),
            minimum=float(np.sqrt(least_variance(series, len(self._nodes)))),
            correlation=average_correlation(series),
            timeline=tuple(self._timeline),
            where=self._queues.where.copy(),
        )

    def _run(self, until: float) -> None:
        while self._resuming and self._resuming[0][0] <= until + 1e-9:
            time, operators = self._resuming.popleft()
            self._queues.run(time)
            self._queues.resume(operators, time)
        self._queues.run(until)

    def _observed(self, now: float) -> Observed | None:
        """The last k samples that are complete; None while there are fewer."""
        done = int(now / self._schedule.sample + 1e-9)
        if done < self._schedule.samples:
            return None
        series = np.ascontiguousarray(self._loads[:, done - self._schedule.samples : done])
        return Observed(
            series, self._queues.where.copy(), ~self._queues.suspended, len(self._timeline)
        )

    def _decide(self, now: float) -> None:
        schedule, observed = self._schedule, self._observed(now)
        if observed is None or now >= schedule.end - 1e-9:
            return
        pairwise_from = (
            schedule.warm_up if schedule.pairwise_from is None else schedule.pairwise_from
        )
        first = abs(now - schedule.warm_up) < schedule.period / 2
        if now < schedule.warm_up - schedule.period / 2:
            self._move(_offload(observed, self._nodes), now, counted=False)
        elif first and self._initial is not None:
            self._move(self._initial.propose(observed, self._nodes), now)
        elif self._pairwise is not None and now >= pairwise_from - 1e-9:
            self._move(self._pairwise.propose(observed, self._nodes), now)

    def _move(self, proposal: Proposal, now: float, counted: bool = True) -> None:
        rows = np.flatnonzero(proposal.moved()).astype(np.int32)
        if not len(rows):
            return
        self._queues.suspend(rows, proposal.node[rows])
        self._resuming.append((now + self._schedule.migration, rows))
        self._plans.append((now, self._queues.where.copy()))
        if counted:
            self._moved += proposal.load_moved()
            self._moves += len(rows)

    def _note(self, now: float, sums: F64) -> None:
        observed = self._observed(now)
        plan = None if observed is None else Proposal(observed, self._nodes, observed.node)
        series = np.zeros((len(self._nodes), 1)) if plan is None else plan.series()
        self._timeline.append(
            Tick(
                time=now - self._schedule.warm_up,
                latency_ratio=float(sums[LATENCY] / sums[WORK]) if sums[TUPLES] else None,
                deviation=float(series.std(axis=1).mean()),
                minimum=float(np.sqrt(least_variance(series, len(self._nodes)))),
                correlation=average_correlation(series),
                load_moved=self._moved,
                waiting=self._queues.waiting(),
            )
        )

    def _node_series(self, begin: float) -> F64:
        """The load of each node in each second that was measured, by the plan of that second."""
        first, last = int(np.ceil(begin - 1e-9)), self._seconds.shape[1]
        starts = [time for time, _ in self._plans]
        series = np.zeros((len(self._nodes), last - first))
        for second in range(first, last):
            at = int(np.searchsorted(starts, second + 1e-9, side="right")) - 1
            where = self._plans[at][1]
            series[:, second - first] = np.bincount(
                where, self._seconds[:, second], len(self._nodes)
            )
        loads: F64 = series / self._nodes.speeds()[:, None]
        return loads


def _growth(ticks: Sequence[Tick]) -> float:
    """By how many tuples the queues grew in these periods, by the line of least squares.

    Example:
        >>> ticks = [Tick(float(t), None, 0, 0, 0, 0, 40 + 3 * t) for t in range(10)]
        >>> round(_growth(ticks), 6)
        27.0
    """
    if len(ticks) < 2:
        return 0.0
    times = np.array([tick.time for tick in ticks])
    slope = np.polyfit(times - times[0], [tick.waiting for tick in ticks], 1)[0]
    return float(slope * (times[-1] - times[0]))


def _sampled(network: OperatorNetwork, times: F64, stream: I32, length: float, end: float) -> F64:
    """The ideal load of each operator in each sample."""
    samples = int(end / length + 1e-9)
    number = np.minimum((times / length).astype(np.int64), samples)
    counts = np.bincount(
        stream * (samples + 1) + number, minlength=len(network.inputs) * (samples + 1)
    )
    rates = counts.reshape(len(network.inputs), samples + 1)[:, :samples] / length
    return network.loads(rates)


def _offload(observed: Observed, nodes: Nodes) -> Proposal:
    """Nodes above their capacity give load to the nodes that they are paired with."""
    board = Board(observed, nodes, rank=by_load(observed))
    busy = board.busy()
    for a, b in board.pairs():
        if busy[a] > 1:
            board.one_way(a, b)
    return board.proposal("offload")
