"""When messages arrive: a curve of rates over the stream, one message per unit of time on average."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

import numpy as np

from evenflow.metrics.roster import F64, I64
from evenflow.model import InputError

HOURLY: Final[tuple[float, ...]] = (
    *(0.90, 0.84, 0.78, 0.74, 0.71, 0.70, 0.72, 0.77),
    *(0.85, 0.94, 1.02, 1.09, 1.14, 1.18, 1.20, 1.21),
    *(1.22, 1.23, 1.24, 1.23, 1.19, 1.13, 1.04, 0.93),
)
"""The rate of each hour of a day, relative to the day's mean.

A stand-in for Figure 5 of "Consistent Grouping" (messages per hour of WP and TW), whose numbers are
lost: a quiet night and a busy evening, as on a web site. The busiest hour has 1.24 times the mean, so
a cluster with an average utilisation of 80 % is never overloaded as a whole.
"""

# Fifty bursts at twice the average rate, each followed by a silence of the same length.
_BURSTS = (2.0, 0.0) * 50

CURVES: dict[str, tuple[float, ...]] = {"constant": (1.0,), "hourly": HOURLY, "bursts": _BURSTS}


def rates_of(arrivals: str | Sequence[float]) -> tuple[float, ...]:
    """The rates of a named curve, or the given ones, checked."""
    if isinstance(arrivals, str):
        if arrivals not in CURVES:
            raise InputError(
                f"no arrival curve is called {arrivals!r}; known: {', '.join(CURVES)}, or give a "
                "list of rates"
            )
        return CURVES[arrivals]
    rates = tuple(float(rate) for rate in arrivals)
    if not all(0 <= rate < math.inf for rate in rates) or sum(rates) <= 0:
        raise InputError(
            f"arrival rates must be finite, at least 0 and not all 0, got {list(rates)!r:.80}"
        )
    return rates


class ArrivalCurve:
    """The arrival time of every message of a stream, which takes one unit of time per message.

    The time of the stream is divided into one equal stretch per rate; within a stretch, messages
    arrive at equal distances, in proportion to its rate. Only proportions matter: (1, 3) puts three
    quarters of the stream into the second half of its time.

    Guarantee: times never decrease, and message i's depends on i alone. Nothing is stored per message.

    Parameters:
        arrivals: "constant" (message i at time i), "hourly" (a day of 24 hours), "bursts" (on and
            off), or a sequence of rates.
        messages: length of the stream.

    Example:
        >>> ArrivalCurve((1, 3), messages=8).times(0, 8).round(2).tolist()
        [0.0, 2.0, 4.0, 4.67, 5.33, 6.0, 6.67, 7.33]
        >>> ArrivalCurve("constant", messages=8).first_at(2.5)
        3

    Paper: Figure 5 and "one message arrives per unit of time" in "Consistent Grouping", §IV and §VII-A.
    """

    def __init__(self, arrivals: str | Sequence[float], messages: int) -> None:
        if messages < 1:
            raise InputError(f"a stream needs at least 1 message, got {messages}")
        rates = np.array(rates_of(arrivals))
        self.messages = messages
        # Multiply before dividing, so that whole numbers stay whole.
        counts = np.concatenate(([0.0], np.cumsum(rates))) * messages / rates.sum()
        times = np.arange(len(rates) + 1) * (messages / len(rates))
        # In a stretch of rate 0 nothing arrives: the next message is the first of a later stretch.
        some = np.flatnonzero(rates > 0)
        self._counts, self._starts, self._ends = counts[some], times[some], times[some + 1]
        self._distances = (times[some + 1] - times[some]) / (counts[some + 1] - counts[some])
        self._firsts: I64 = np.ceil(self._counts).astype(np.int64)

    @property
    def duration(self) -> float:
        """The time that the stream takes: one unit per message, for every curve."""
        return float(self.messages)

    def times(self, start: int, stop: int) -> F64:
        """The arrival times of messages `start` … `stop − 1`."""
        times = np.empty(stop - start)
        k = int(np.searchsorted(self._firsts, start, side="right")) - 1
        while start < stop:
            last = stop if k + 1 == len(self._firsts) else min(stop, int(self._firsts[k + 1]))
            piece = times[len(times) - (stop - start) :][: last - start]
            piece[:] = np.arange(start, last)
            piece -= self._counts[k]
            piece *= self._distances[k]
            piece += self._starts[k]
            # Rounding must not reach into the next stretch: times never decrease.
            np.minimum(piece, self._ends[k], out=piece)
            start, k = last, k + 1
        return times

    def first_at(self, time: float) -> int:
        """The number of the first message that arrives at `time` or later; `messages` if none does."""
        k = max(0, int(np.searchsorted(self._starts, time, side="right")) - 1)
        within = min(time, self._ends[k]) - self._starts[k]
        guess = math.ceil(self._counts[k] + within / self._distances[k])
        first: int = min(max(guess, 0), self.messages)
        # The guess may be off by one; `times` decides.
        while first > 0 and self.times(first - 1, first)[0] >= time:
            first -= 1
        while first < self.messages and self.times(first, first + 1)[0] < time:
            first += 1
        return first
