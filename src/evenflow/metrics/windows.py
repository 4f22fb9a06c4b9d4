"""The worst window of a stream: how far a worker was above its fair share.

A stream that is balanced over an hour may overload one worker after another for a minute each. So the
load is also measured per window, after a first one in which a scheme may still be learning the hot
keys.
"""

from __future__ import annotations

import numpy as np

from evenflow.kernels.jit import kernel
from evenflow.metrics.blocks import BlockLoads
from evenflow.metrics.roster import I32, I64, fair_shares
from evenflow.model import Workers

WINDOW = 20_000  #: messages


class WorstWindow:
    """The largest load ÷ fair load of any worker in any *tumbling* window after the first.

    1.0 is perfect. Windows do not overlap: messages 20 000–39 999, 40 000–59 999, …; an unfinished
    window does not count.

    Parameters:
        workers: the roster, or the number of workers.
        window: messages in a window.

    Example:
        >>> worst = WorstWindow(workers=2, window=4)
        >>> worst.update(np.array([0, 0, 0, 0, 0, 1, 1, 1], np.int32))
        >>> worst.value
        1.5
    """

    def __init__(self, workers: Workers | int, window: int = WINDOW) -> None:
        shares = fair_shares(workers)
        self._fair = window * shares
        self._blocks = BlockLoads(len(shares), window)
        self._windows = 0
        self._worst = 0.0

    def update(self, numbers: I32) -> None:
        """Take the next messages' worker numbers."""
        for counts in self._blocks.feed(numbers):
            if self._windows:
                self._worst = max(self._worst, float((counts / self._fair).max()))
            self._windows += 1

    @property
    def value(self) -> float | None:
        """The worst so far; None if the stream is shorter than two windows."""
        return self._worst if self._windows > 1 else None


class WorstSlidingWindow:
    """The same over *all* windows of consecutive messages that begin after the first `window`.

    Constant time per message and `window` numbers of memory. The largest load of any worker at any
    time is the largest of the workers' own peaks, so only each worker's peak is kept.

    Parameters:
        workers: the roster, or the number of workers.
        window: messages in a window.

    Example:
        >>> worst = WorstSlidingWindow(workers=2, window=4)
        >>> worst.update(np.array([0, 0, 0, 0, 0, 1, 1, 1, 1], np.int32))
        >>> worst.value
        2.0
    """

    def __init__(self, workers: Workers | int, window: int = WINDOW) -> None:
        shares = fair_shares(workers)
        self._fair = window * shares
        self._ring = np.zeros(window, np.int32)
        self._loads = np.zeros(len(shares), np.int64)
        self._peaks = np.zeros(len(shares), np.int64)
        self._skip = window
        self._seen = 0

    def update(self, numbers: I32) -> None:
        """Take the next messages' worker numbers."""
        skipped = min(self._skip, len(numbers))
        self._skip -= skipped
        numbers = np.ascontiguousarray(numbers[skipped:], np.int32)
        _slide(self._ring, self._loads, self._peaks, numbers, self._seen)
        self._seen += len(numbers)

    @property
    def value(self) -> float | None:
        """The worst so far; None if the stream is shorter than two windows."""
        if self._seen < len(self._ring):
            return None
        return float((self._peaks / self._fair).max())


@kernel
def _slide(ring: I32, loads: I64, peaks: I64, numbers: I32, seen: int) -> None:
    """Move the window over `numbers`; `ring` holds the last window, `seen` messages went before.

    Peaks are recorded even while the first window fills: they cannot exceed the peak of the full
    window, as nothing leaves before it is full.
    """
    window = len(ring)
    cursor = np.uint64(seen % window)
    filling = min(len(numbers), max(0, window - seen))
    end = np.uint64(window)
    for i in range(len(numbers)):
        if i >= filling:
            loads[np.uint64(ring[cursor])] -= 1
        worker = np.uint64(numbers[i])
        ring[cursor] = numbers[i]
        cursor += np.uint64(1)
        if cursor == end:
            cursor = np.uint64(0)
        load = loads[worker] + 1
        loads[worker] = load
        if load > peaks[worker]:
            peaks[worker] = load
