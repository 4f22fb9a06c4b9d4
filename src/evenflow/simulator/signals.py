"""Workers' signals, and the acknowledgements that carry them back to the sources."""

from __future__ import annotations

import math

import numpy as np

from evenflow.kernels.jit import kernel
from evenflow.metrics.roster import F64, I32, I64
from evenflow.model import Signal


def signals_of(loads: F64, idle: float, busy: float) -> I64:
    """What each worker requests at the end of a slot, as a `Signal`.

    Parameters:
        loads: each worker's load relative to its capacity.
        idle: below it, more work; `busy`: above it, less.

    Example:
        >>> signals_of(np.array([0.5, 0.8, 0.9]), idle=0.75, busy=0.85).tolist()
        [1, 0, -1]

    Paper: worker delegation in "Consistent Grouping", §V-C; thresholds in §VII-A.
    """
    return np.where(loads < idle, Signal.INCREASE, np.where(loads > busy, Signal.DECREASE, 0))


class Piggyback:
    """Delivers workers' signals on the acknowledgements of the sources' own messages.

    A worker raises its signal at the end of a time slot. Every later acknowledgement carries its
    latest signal, or none, so a source learns of it when the first of its own messages to that worker
    is done, and never if it has none there. A source receives the signal of each slot once; that a
    worker has no signal any more it receives once, too.

    Guarantee: memory and work for at most one acknowledgement per worker, source and slot: later ones
    carry nothing new.

    Parameters:
        workers, sources: their numbers.
        slot: length of a time slot.

    Example:
        >>> acks = Piggyback(workers=2, sources=1, slot=10.0)
        >>> acks.take(np.array([0, 1, 0], np.int32), finish=np.array([9.0, 11.0, 12.0]), first=0)
        >>> acks.arrived(10.0)
        {}
        >>> acks.raise_signals(np.array([-1, 1]))
        >>> acks.arrived(11.5)
        {0: {1: <Signal.INCREASE: 1>}}
        >>> acks.arrived(12.5)
        {0: {0: <Signal.DECREASE: -1>}}
        >>> acks.raise_signals(np.array([0, 0]))
        >>> acks.take(np.array([0], np.int32), finish=np.array([21.0]), first=0)
        >>> acks.arrived(21.5)
        {0: {0: <Signal.NEITHER: 0>}}

    Paper: piggybacking in "Consistent Grouping", §V-C.
    """

    def __init__(self, workers: int, sources: int, slot: float) -> None:
        self._slot = slot
        #: No acknowledgement before this time has news about the worker for the source.
        self._news_at: F64 = np.full((workers, sources), slot)
        self._latest: I64 = np.zeros(workers, np.int64)
        #: The slot at whose end a source last received something of a worker, and what.
        self._heard: I64 = np.zeros((workers, sources), np.int64)
        self._known: I64 = np.zeros((workers, sources), np.int64)
        self._slots = 0
        self._times: F64 = np.empty(0)
        self._pairs: I64 = np.empty((0, 2), np.int64)  #: (worker, source) behind each of `_times`
        self._next = math.inf

    def take(self, numbers: I32, finish: F64, first: int) -> None:
        """The next messages: worker number and finish of each; the first belongs to source `first`."""
        times, pairs = np.empty(len(finish)), np.empty((len(finish), 2), np.int64)
        noted = int(_note(numbers, finish, first, self._slot, self._news_at, times, pairs))
        if noted:
            self._times = np.concatenate((self._times, times[:noted]))
            self._pairs = np.concatenate((self._pairs, pairs[:noted]))
            self._next = float(self._times.min())

    def raise_signals(self, signals: I64) -> None:
        """The end of a slot: each worker's `Signal`. Call `arrived` up to its end first."""
        self._slots += 1
        self._latest[:] = signals

    def arrived(self, now: float) -> dict[int, dict[int, Signal]]:
        """Source → worker → signal of the new signals that have arrived by `now`, in order."""
        if self._next > now:
            return {}
        due = self._times <= now
        times, pairs = self._times[due], self._pairs[due]
        self._times, self._pairs = self._times[~due], self._pairs[~due]
        self._next = float(self._times.min(initial=math.inf))
        workers, sources = pairs[np.argsort(times, kind="stable")].T
        signals = self._latest[workers]
        news = (signals != 0) | (self._known[workers, sources] != 0)
        news &= self._heard[workers, sources] < self._slots
        received: dict[int, dict[int, Signal]] = {}
        for worker, source in zip(workers[news].tolist(), sources[news].tolist(), strict=True):
            self._heard[worker, source] = self._slots
            self._known[worker, source] = self._latest[worker]
            received.setdefault(source, {})[worker] = Signal(int(self._latest[worker]))
        return received


@kernel
def _note(
    numbers: I32, finish: F64, first: int, slot: float, news_at: F64, times: F64, pairs: I64
) -> np.uint64:
    """Record the acknowledgements that may carry news; returns their number."""
    sources = np.uint64(news_at.shape[1])
    source, noted = np.uint64(first), np.uint64(0)
    for i in range(len(numbers)):
        w, done = np.uint64(numbers[i]), finish[i]
        if done >= news_at[w, source]:
            ended = np.floor(done / slot)
            # Division may round up beyond the end of a slot; the multiples are exact.
            if ended * slot > done:
                ended -= 1.0
            news_at[w, source] = (ended + 1.0) * slot
            times[noted], pairs[noted, 0], pairs[noted, 1] = done, w, source
            noted += np.uint64(1)
        source += np.uint64(1)
        if source == sources:
            source = np.uint64(0)
    return noted
