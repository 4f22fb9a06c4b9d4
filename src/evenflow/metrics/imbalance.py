"""How far the busiest worker is above the average."""

from __future__ import annotations

import numpy as np

from evenflow.metrics.blocks import BlockLoads
from evenflow.metrics.roster import F64, I32, I64, fair_shares
from evenflow.model import Workers


def imbalance(loads: I64, shares: F64 | None = None) -> float:
    """The largest load fraction minus the average one, I(t) of the papers; 0 is perfect.

    If workers have weights, each load fraction is first divided by n times the worker's fair share, so
    that a worker with four times the weight may have four times the load.

    Parameters:
        loads: messages of each worker.
        shares: fair share of each worker, adding up to 1; equal if not given.

    Example:
        >>> imbalance(np.array([6, 2]))
        0.25
        >>> imbalance(np.array([6, 2]), shares=np.array([0.75, 0.25]))
        0.0

    Paper: "Load imbalance" in "When two choices are not enough", §II-B; with weights, I(t) over the
    normalized loads in "Consistent grouping", §IV.
    """
    n, total = len(loads), int(loads.sum())
    if total == 0:
        return 0.0
    if shares is None:
        return float(loads.max()) / total - 1 / n
    normalized = loads / (total * n * shares)
    return float(normalized.max() - normalized.mean())


class ImbalanceTracker:
    """Tracks the imbalance of a stream: the loads so far, and I(t) every `every` messages.

    Parameters:
        workers: the roster, or the number of workers.
        every: messages between two samples of I(t).

    Example:
        >>> tracker = ImbalanceTracker(workers=2, every=2)
        >>> tracker.update(np.array([0, 0, 1, 1, 1], np.int32))
        >>> tracker.timeline()
        [(2, 0.5), (4, 0.0), (5, 0.09999999999999998)]
    """

    def __init__(self, workers: Workers | int, every: int = 20_000) -> None:
        roster = Workers.of(workers)
        self._shares = None if roster.weights is None else fair_shares(roster)
        self._blocks = BlockLoads(len(roster), every)
        self._every = every
        self._finished = np.zeros(len(roster), np.int64)
        self._samples: list[tuple[int, float]] = []

    def update(self, numbers: I32) -> None:
        """Take the next messages' worker numbers."""
        for counts in self._blocks.feed(numbers):
            self._finished += counts
            position = (len(self._samples) + 1) * self._every
            self._samples.append((position, imbalance(self._finished, self._shares)))

    @property
    def loads(self) -> I64:
        """Messages of each worker so far."""
        loads: I64 = self._finished + self._blocks.unfinished
        return loads

    @property
    def current(self) -> float:
        """I(t) now."""
        return imbalance(self.loads, self._shares)

    def timeline(self) -> list[tuple[int, float]]:
        """(messages, I(t)) at every sample and at the end of the stream so far."""
        seen = self._blocks.seen
        at_a_sample = seen == 0 or seen % self._every == 0
        return self._samples + ([] if at_a_sample else [(seen, self.current)])

    @property
    def mean(self) -> float:
        """The average of I(t) over the timeline."""
        timeline = self.timeline()
        return sum(value for _, value in timeline) / len(timeline) if timeline else 0.0
