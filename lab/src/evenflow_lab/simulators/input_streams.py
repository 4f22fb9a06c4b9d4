"""Input streams whose rates go up and down, and when their tuples arrive."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from evenflow.model import InputError
from evenflow.model.validation import check_positive, check_whole

F64 = npt.NDArray[np.float64]
I32 = npt.NDArray[np.int32]


@dataclass(frozen=True)
class InputStreams:
    """Rates that are constant for a while and then change, of each stream.

    Parameters:
        ends: of each stream, when each of its stretches ends; they begin at 0.
        rates: tuples a second in each of them.
        even: tuples come at equal distances, and not at random (exponential) ones.

    Example:
        >>> streams = InputStreams((np.array([1.0, 2.0]),), (np.array([4.0, 0.0]),), even=True)
        >>> times, stream = streams.arrivals(2.0, seed=1)
        >>> len(times), bool((times < 1).all()), streams.averages(2.0).tolist()
        (4, True, [2.0])

    Paper: "Dynamic Load Distribution in the Borealis Stream Processor", §5.1.2.
    """

    ends: tuple[F64, ...]
    rates: tuple[F64, ...]
    even: bool = False

    def __len__(self) -> int:
        return len(self.ends)

    def counts(self, stream: int, until: float) -> tuple[F64, F64]:
        """The tuples to expect of a stream until some moments, between which the rate is constant."""
        ends = np.minimum(self.ends[stream], until)
        moments = np.concatenate(([0.0], ends))
        expected = np.concatenate(([0.0], np.cumsum(np.diff(moments) * self.rates[stream])))
        return moments, expected

    def averages(self, until: float) -> F64:
        """The average rate of each stream from 0 to `until`."""
        return np.array([self.counts(s, until)[1][-1] for s in range(len(self))]) / until

    def scaled(self, factors: npt.ArrayLike) -> InputStreams:
        """With every stream's rates multiplied by its factor, or all by one."""
        each = np.broadcast_to(np.asarray(factors, np.float64), len(self))
        return replace(self, rates=tuple(r * f for r, f in zip(self.rates, each, strict=True)))

    def then(self, later: InputStreams, at: float) -> InputStreams:
        """These streams until `at`, and the later ones, whose time is the same, from then on."""
        ends, rates = [], []
        for s in range(len(self)):
            before, after = self.ends[s] < at, later.ends[s] > at
            last = self.rates[s][min(int(before.sum()), len(self.rates[s]) - 1)]
            ends.append(np.concatenate((self.ends[s][before], [at], later.ends[s][after])))
            rates.append(np.concatenate((self.rates[s][before], [last], later.rates[s][after])))
        return replace(self, ends=tuple(ends), rates=tuple(rates))

    def arrivals(self, until: float, seed: int) -> tuple[F64, I32]:
        """When tuples arrive before `until`, in order, and on which stream each."""
        random = np.random.default_rng(seed)
        times, streams = [], []
        for s in range(len(self)):
            moments, expected = self.counts(s, until)
            total = float(expected[-1])
            if self.even:
                marks = np.arange(random.uniform(), total)
            else:
                drawn = random.exponential(size=int(total + 10 * total**0.5 + 20))
                marks = np.cumsum(drawn)
                marks = marks[marks < total]
            arrived = np.interp(marks, expected, moments)
            times.append(arrived)
            streams.append(np.full(len(arrived), s, np.int32))
        order = np.argsort(np.concatenate(times), kind="stable")
        return np.concatenate(times)[order], np.concatenate(streams)[order]


def periodic(
    rates: npt.ArrayLike, offsets: npt.ArrayLike, period: float, ratio: float, until: float
) -> InputStreams:
    """Streams that alternate between a high and a low rate, each for half of the period.

    Parameters:
        rates: the average of each.
        offsets: how far each is in its period at 0, as a part of it: below ½ the rate is high.
        period: seconds.
        ratio: high rate over low rate.
        until: how long they go on.

    Example:
        >>> streams = periodic([30.0], [0.0], period=10.0, ratio=2.0, until=20.0)
        >>> streams.ends[0].tolist(), streams.rates[0].tolist()
        ([5.0, 10.0, 15.0, 20.0], [40.0, 20.0, 40.0, 20.0])
    """
    check_positive("the period", period)
    check_positive("the ratio of rates", ratio)
    high, low = 2 * ratio / (1 + ratio), 2 / (1 + ratio)
    all_ends, all_rates = [], []
    for rate, offset in zip(np.asarray(rates), np.asarray(offsets), strict=True):
        halves = np.arange(np.floor(2 * offset) + 1, 2 * (until / period + offset) + 1)
        all_ends.append((halves / 2 - offset) * period)
        all_rates.append(rate * np.where(halves % 2 == 1, high, low))
    return InputStreams(tuple(all_ends), tuple(all_rates))


def on_off(
    rates: npt.ArrayLike, active: float, idle: float, independent: int, until: float, seed: int
) -> InputStreams:
    """Bursty streams: active and idle periods of exponential lengths; tuples come evenly in the former.

    Some streams are drawn independently; each of the others is the opposite of one of them, or the
    same beginning elsewhere.

    Parameters:
        rates: the average of each over a long time.
        active, idle: average lengths of the periods, seconds.
        independent: how many are drawn independently, the first ones.
        until: how long they go on.
        seed: of the draws.

    Example:
        >>> streams = on_off([10.0, 10.0], 5.0, 5.0, independent=1, until=100.0, seed=4)
        >>> sorted(set(streams.rates[0].tolist()))
        [0.0, 20.0]
    """
    check_positive("the active time", active)
    check_positive("the idle time", idle)
    each = np.asarray(rates, np.float64)
    check_whole("the number of independent streams", independent, 1)
    if independent > len(each):
        raise InputError(f"{independent} independent streams, but there are {len(each)} in all")
    random = np.random.default_rng(seed)
    patterns: list[tuple[F64, bool]] = []
    for s in range(len(each)):
        if s < independent:
            patterns.append((_periods(random, active, idle, until), bool(random.integers(2))))
            continue
        ends, first = patterns[int(random.integers(independent))]
        if random.integers(2):
            patterns.append((ends, not first))
        else:
            shift = float(random.uniform(0, until))
            patterns.append(_shifted(ends, first, shift, until))
    all_rates = []
    for rate, (ends, first) in zip(each, patterns, strict=True):
        turn = (np.arange(len(ends)) % 2 == 0) == first
        all_rates.append(np.where(turn, rate * (active + idle) / active, 0.0))
    return InputStreams(tuple(ends for ends, _ in patterns), tuple(all_rates), even=True)


def _periods(random: np.random.Generator, active: float, idle: float, until: float) -> F64:
    """When periods end, alternating; twice as long as needed, so that they can be shifted."""
    ends: list[float] = [0.0]
    turn = 0
    while ends[-1] < 2 * until:
        ends.append(ends[-1] + float(random.exponential((active, idle)[turn % 2])))
        turn += 1
    return np.array(ends[1:])


def _shifted(ends: F64, first: bool, by: float, until: float) -> tuple[F64, bool]:
    gone = int((ends <= by).sum())
    return ends[gone:] - by, first == (gone % 2 == 0)


def spread_offsets(streams: int, seed: int) -> F64:
    """A different offset for each stream: evenly spread over the period, dealt out at random.

    Example:
        >>> sorted(spread_offsets(4, seed=1).tolist())
        [0.0, 0.25, 0.5, 0.75]
    """
    return np.random.default_rng(seed).permutation(streams) / streams


def at_level(
    streams: InputStreams, loads: Sequence[float] | F64, nodes: int, level: float, until: float
) -> InputStreams:
    """Scaled so that `nodes` processors are busy for `level` of the time up to `until`.

    Parameters:
        streams: with rates in any unit.
        loads: processor time that a tuple of each stream takes in all.

    Example:
        >>> one = InputStreams((np.array([10.0]),), (np.array([1.0]),))
        >>> at_level(one, [0.01], nodes=2, level=0.5, until=10.0).rates[0].tolist()
        [100.0]

    Paper: "Dynamic Load Distribution in the Borealis Stream Processor", §5.1.4.
    """
    work = float(np.dot(streams.averages(until), loads))
    return streams.scaled(level * nodes / work)
