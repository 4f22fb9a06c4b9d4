"""Messages per worker in blocks of equal length."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from evenflow.metrics.roster import I32, I64


class BlockLoads:
    """Counts the messages of each worker, block by block, however the stream is chunked.

    Parameters:
        workers: how many workers there are.
        size: messages in a block.

    Attributes:
        seen: messages fed so far.
        unfinished: the counts of the current block.

    Example:
        >>> blocks = BlockLoads(workers=2, size=3)
        >>> [counts.tolist() for counts in blocks.feed(np.array([0, 0, 1, 1], np.int32))]
        [[2, 1]]
        >>> blocks.unfinished.tolist()
        [0, 1]
    """

    def __init__(self, workers: int, size: int) -> None:
        self._workers = workers
        self._size = size
        self.seen = 0
        self.unfinished: I64 = np.zeros(workers, np.int64)

    def feed(self, numbers: I32) -> Iterator[I64]:
        """Yields the counts of each block that `numbers` completes; exhaust it before feeding again."""
        start = 0
        while start < len(numbers):
            stop = min(len(numbers), start + self._size - self.seen % self._size)
            self.unfinished += np.bincount(numbers[start:stop], minlength=self._workers)
            self.seen += stop - start
            start = stop
            if self.seen % self._size == 0:
                finished, self.unfinished = self.unfinished, np.zeros_like(self.unfinished)
                yield finished
