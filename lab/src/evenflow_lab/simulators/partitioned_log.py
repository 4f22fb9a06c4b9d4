"""Messages wait in the partitions of a log; a consumer behind each takes them in order.

A scheme that moves keys has to give their order back, which costs time: messages of a moved key wait at
the new consumer until the old one has processed the last of those that it was sent, and has said so.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from evenflow.grouping import GroupingScheme
from evenflow.kernels.jit import kernel
from evenflow.kernels.mixing import salt
from evenflow.metrics import LatencyHistogram
from evenflow.model.validation import check_not_negative, check_positive, check_whole
from evenflow.simulator.schemes import make_scheme
from evenflow.simulator.workloads.drawing import random_word, unit
from evenflow.simulator.workloads.protocol import U64, Workload
from evenflow_lab.simulators.hand_over import HandOvers
from evenflow_lab.simulators.hot_key_gateway import Smalops

F64 = npt.NDArray[np.float64]
I32 = npt.NDArray[np.int32]
I64 = npt.NDArray[np.int64]

_ARRIVE = 301  #: keeps arrival times apart from other random numbers of the seed
_CHUNK = 1 << 17
_NO_DELAY = 1e-9  #: seconds; the histogram's first bucket is not exactly 0
PERCENTILES = (
    1,
    5,
    10,
    20,
    30,
    40,
    50,
    60,
    70,
    75,
    80,
    85,
    90,
    92,
    94,
    95,
    96,
    97,
    98,
    99,
    99.5,
    99.9,
)


@dataclass(frozen=True)
class PartitionedLog:
    """A log with partitions, each read by a consumer of its own.

    Parameters:
        partitions: how many.
        rate: messages a second, arriving at random moments (Poisson) whatever the consumers do.
        service: seconds that a consumer takes for a message.
        hand_over: seconds from when the old consumer of a moved key is done until the new one knows.
        fixed: seconds that a message takes its consumer besides `service`: to fetch, decode and
            acknowledge it.
    """

    partitions: int
    rate: float
    service: float
    hand_over: float = 0.005
    fixed: float = 0.0

    def __post_init__(self) -> None:
        check_whole("the number of partitions", self.partitions, 1)
        check_positive("the rate", self.rate)
        check_positive("the service time", self.service)
        check_not_negative("the time of a hand-over", self.hand_over)
        check_not_negative("the fixed cost of a message", self.fixed)

    @property
    def taken(self) -> float:
        """Seconds that a message takes its consumer in all."""
        return self.service + self.fixed

    @property
    def utilisation(self) -> float:
        """What part of their time consumers would be busy if all had the same load."""
        return self.rate * self.taken / self.partitions


class Moment(NamedTuple):
    """A stretch of time, by the moment at which messages arrived in it: percentiles of their queuing
    delays, the share of the busiest partition, keys that were hot at its end and moves in it."""

    time: float
    messages: int
    p50: float
    p90: float
    p99: float
    max_load: float
    hot_keys: int
    moves: int


@dataclass(frozen=True)
class LogResult:
    """Queuing delays in seconds: from a message's arrival in the log to the begin of its processing.

    Parameters:
        percentiles: percentile → delay, within 1 %.
        mean, longest: exact.
        held: messages that waited for a hand-over; `held_most`: the most that did so at a time.
        held_seconds: how long those waited for it, on average; `held_longest`: and at most.
        timeline: one entry a slot.
        details: what the scheme tells about itself at the end.
    """

    scheme: str
    symbol: str
    log: PartitionedLog
    messages: int
    percentiles: dict[float, float]
    mean: float
    longest: float
    max_load: float
    held: int
    held_most: int
    held_seconds: float
    held_longest: float
    timeline: tuple[Moment, ...]
    details: dict[str, Any] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers, without percentiles and timeline."""
        return {
            "grouping": self.scheme,
            "symbol": self.symbol,
            "messages": self.messages,
            "utilisation": self.log.utilisation,
            "p50": self.percentiles[50],
            "p90": self.percentiles[90],
            "p95": self.percentiles[95],
            "p99": self.percentiles[99],
            "mean": self.mean,
            "longest": self.longest,
            "max_load": self.max_load,
            "busiest": self.max_load * self.log.partitions * self.log.utilisation,
            "held": self.held,
            "held_most": self.held_most,
            "held_seconds": self.held_seconds,
            "held_longest": self.held_longest,
            "moves": self.details.get("moves", 0),
            "hot_keys_most": self.details.get("hot_keys_most", 0),
            "hot_keys_ever": self.details.get("hot_keys_ever", 0),
        }


def simulate_log(
    scheme: GroupingScheme | str,
    workload: Workload,
    log: PartitionedLog,
    seed: int = 0,
    *,
    slot: float = 5.0,
    since: float = 0.0,
) -> LogResult:
    """Sends a stream through a partitioned log and measures how long messages wait.

    Guarantee: exact but for the quantiles. A key's messages are processed in the order in which they
    came, also while it moves: messages that wait for a hand-over join the new partition's queue when
    it is over, behind all that is there, in their order.

    Parameters:
        scheme: a grouping scheme, or its name; `smalops` moves keys and pays for it, all others do not
            move any, or do not care for order.
        workload: the stream.
        log: the partitions and consumers.
        seed: of the hash functions and of the arrivals.
        slot: seconds of an entry of the timeline.
        since: seconds at the beginning that are left out of the percentiles, the mean and the longest
            delay; they are in the timeline.

    Example:
        >>> from evenflow_lab.workloads import Smalops as Stream
        >>> stream = Stream(messages=200_000, keys=100_000, shift=0)
        >>> log = PartitionedLog(partitions=5, rate=10_000, service=4e-4)
        >>> hashed, moved = (simulate_log(name, stream, log, seed=3) for name in
        ...     ("key", "smalops:window=10000,interval=10000,threshold=0.001"))
        >>> moved.percentiles[99] < 0.5 * hashed.percentiles[99]
        True

    Paper: "Load balancing and generalized split state reconciliation in event driven systems", §II and
    §III, in virtual time.
    """
    chosen = make_scheme(scheme) if isinstance(scheme, str) else scheme
    run = _Run(chosen, log, seed, slot, since)
    for keys in workload.chunks(_CHUNK):
        run.take(keys)
    return run.result()


class _Run:
    """One simulation: everything that changes while the stream goes by."""

    def __init__(
        self, scheme: GroupingScheme, log: PartitionedLog, seed: int, slot: float, since: float
    ) -> None:
        self._scheme, self._log, self._since = scheme, log, since
        self._state = scheme.start(log.partitions, seed)
        self._salt = salt(seed, _ARRIVE)
        self._messages, self._last = 0, 0.0
        self._free: F64 = np.zeros(log.partitions)
        self._loads: I64 = np.zeros(log.partitions, np.int64)
        self._held = HandOvers(log.hand_over)
        self._delays = LatencyHistogram()
        self._timeline = _Timeline(slot, log.partitions)

    def take(self, keys: U64) -> None:
        """The next messages of the stream."""
        times = np.empty(len(keys))
        _poisson(self._salt, self._messages, self._last, 1 / self._log.rate, times)
        out = np.empty(len(keys), np.int32)
        done = 0
        while done < len(keys):
            stop = self._act(len(keys) - done) + done
            piece = slice(done, stop)
            if isinstance(self._scheme, Smalops):
                self._scheme.send(self._state, keys[piece], out[piece])
            else:
                self._scheme.route(self._state, keys[piece], out[piece])
            self._loads += np.bincount(out[piece], minlength=self._log.partitions)
            self._timeline.arrived(times[piece], out[piece])
            self._held.put(keys[piece], out[piece], times[piece])
            self._last = float(times[stop - 1])
            self._process(self._last)
            done = stop
        self._messages += len(keys)

    def _act(self, count: int) -> int:
        """What is due now; how many messages of `count` may go before the scheme acts again."""
        if not isinstance(self._scheme, Smalops):
            return count
        if not self._scheme.quiet(self._state):
            moves = self._scheme.act(self._state)
            for key, source in zip(moves.keys.tolist(), moves.source.tolist(), strict=True):
                self._held.move(key, source, self._last, float(self._free[source]))
            self._timeline.acted(self._last, len(self._state.hot.keys), len(moves))
        return min(count, self._scheme.quiet(self._state))

    def _process(self, until: float) -> None:
        """Let consumers take what joins their queues by then."""
        stop = -np.inf
        while stop < until:
            stop, joined = self._held.joined(until)
            begin = np.empty(len(joined.time))
            _first_come(
                joined.time, joined.partition, joined.work, self._log.taken, self._free, begin
            )
            real = joined.work > 0
            arrived, delays = joined.arrived[real], (begin - joined.arrived)[real]
            self._delays.update(delays[arrived >= self._since] if self._since else delays)
            self._timeline.served(arrived, delays)
            self._held.done(joined, begin)

    def result(self) -> LogResult:
        """What was measured, once everything that still waits has been processed."""
        self._process(np.inf)
        describe = getattr(self._scheme, "describe", None)
        held = self._held
        return LogResult(
            scheme=type(self._scheme).name,
            symbol=type(self._scheme).symbol,
            log=self._log,
            messages=self._messages,
            percentiles={p: _quantile(self._delays, p / 100) for p in PERCENTILES},
            mean=self._delays.mean,
            longest=self._delays.max,
            max_load=float(self._loads.max() / self._loads.sum()),
            held=held.held,
            held_most=held.most,
            held_seconds=held.waited / held.held if held.held else 0.0,
            held_longest=held.longest,
            timeline=self._timeline.moments(),
            details=dict(describe(self._state)) if callable(describe) else {},
        )


class _Timeline:
    """Measurements by the slot in which messages arrived, or in which the gateway acted."""

    def __init__(self, slot: float, partitions: int) -> None:
        self._slot, self._partitions = slot, partitions
        self._delays: list[LatencyHistogram] = []
        self._loads: list[I64] = []
        self._hot: list[int] = []
        self._moves: list[int] = []

    def _reach(self, last: int) -> None:
        while len(self._delays) <= last:
            self._delays.append(LatencyHistogram())
            self._loads.append(np.zeros(self._partitions, np.int64))
            self._hot.append(self._hot[-1] if self._hot else 0)
            self._moves.append(0)

    def _by_slot(self, times: F64) -> Iterator[tuple[int, npt.NDArray]]:
        numbers = (times / self._slot).astype(np.int64)
        for number in np.unique(numbers).tolist():
            self._reach(number)
            yield number, numbers == number

    def arrived(self, times: F64, partitions: I32) -> None:
        for number, own in self._by_slot(times):
            self._loads[number] += np.bincount(partitions[own], minlength=self._partitions)

    def served(self, arrived: F64, delays: F64) -> None:
        for number, own in self._by_slot(arrived):
            self._delays[number].update(delays[own])

    def acted(self, time: float, hot: int, moves: int) -> None:
        number = int(time / self._slot)
        self._reach(number)
        self._hot[number] = hot
        self._moves[number] += moves

    def moments(self) -> tuple[Moment, ...]:
        """One entry a slot."""
        return tuple(
            Moment(
                time=(i + 1) * self._slot,
                messages=delays.count,
                **{
                    name: _quantile(delays, q)
                    for name, q in (("p50", 0.5), ("p90", 0.9), ("p99", 0.99))
                },
                max_load=float(loads.max() / max(loads.sum(), 1)),
                hot_keys=hot,
                moves=moves,
            )
            for i, (delays, loads, hot, moves) in enumerate(
                zip(self._delays, self._loads, self._hot, self._moves, strict=True)
            )
        )


def _quantile(delays: LatencyHistogram, q: float) -> float:
    found = delays.quantile(q)
    return 0.0 if found < _NO_DELAY else found


@kernel
def _poisson(seed: np.uint64, first: int, last: float, gap: float, out: F64) -> None:
    """Arrival times of messages `first`, `first` + 1, … of which one comes every `gap` on average."""
    for i in range(len(out)):
        last += -np.log1p(-unit(random_word(seed, first + i))) * gap
        out[i] = last


@kernel
def _first_come(
    joined: F64, partitions: I32, work: F64, service: float, free: F64, begin: F64
) -> None:
    """When each begins to be served, if nobody overtakes; `free` says when consumers are idle."""
    for i in range(len(joined)):
        p = partitions[i]
        begin[i] = max(joined[i], free[p])
        free[p] = begin[i] + work[i] * service
