"""When messages arrive: a curve of rates over the stream, one message per unit of time on average."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from evenflow.model import InputError
from evenflow.simulator.workloads.hourly import HOURLY

F64 = npt.NDArray[np.float64]
I64 = npt.NDArray[np.int64]

# Fifty bursts at twice the average rate, each followed by a silence of the same length.
_BURSTS = (2.0, 0.0) * 50

CURVES: dict[str, tuple[float, ...]] = {"constant": (1.0,), "hourly": HOURLY, "bursts": _BURSTS}


def rates_of(arrivals: str | Sequence[float]) -> tuple[float, ...]:
    """The rates of a curve by its name, or those that are given, checked."""
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
    """The arrival time of every message of a stream of `messages`, which takes as many units of time.

    The time of the stream is cut into as many equal stretches as there are rates; within each of
    them messages come at equal distances, as many as the rate's part of all rates. Only proportions
    count: (1, 3) puts three quarters of the stream into the second half of its time.

    Guarantee: times never decrease, and message i's depends on i alone. Nothing is kept per message.

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
            raise InputError(f"a stream needs at least 1 message to have a time, got {messages}")
        rates = np.array(rates_of(arrivals))
        self.messages = messages
        # In this order whole numbers come out whole: the first message of a burst is not its last.
        counts = np.concatenate(([0.0], np.cumsum(rates))) * messages / rates.sum()
        times = np.arange(len(rates) + 1) * (messages / len(rates))
        # In a stretch of rate 0 nothing arrives: the next message is the first of a later stretch.
        some = np.flatnonzero(rates > 0)
        self._counts, self._starts, self._ends = counts[some], times[some], times[some + 1]
        self._distances = (times[some + 1] - times[some]) / (counts[some + 1] - counts[some])
        self._firsts: I64 = np.ceil(self._counts).astype(np.int64)

    @property
    def duration(self) -> float:
        """The time that the stream takes: one unit per message, whatever the curve."""
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
            # Not even by rounding into the next stretch: times never decrease.
            np.minimum(piece, self._ends[k], out=piece)
            start, k = last, k + 1
        return times

    def first_at(self, time: float) -> int:
        """The number of the first message that arrives at `time` or later; `messages` if none does."""
        k = max(0, int(np.searchsorted(self._starts, time, side="right")) - 1)
        within = min(time, self._ends[k]) - self._starts[k]
        guess = math.ceil(self._counts[k] + within / self._distances[k])
        first: int = min(max(guess, 0), self.messages)
        # The guess may be one off by rounding; what `times` says is what counts.
        while first > 0 and self.times(first - 1, first)[0] >= time:
            first -= 1
        while first < self.messages and self.times(first, first + 1)[0] < time:
            first += 1
        return first
