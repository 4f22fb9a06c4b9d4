"""Latencies of messages: quantiles of a stream of any length, in bounded memory."""

from __future__ import annotations

import math

import numpy as np

from evenflow.kernels.jit import kernel
from evenflow.metrics.roster import F64, I64
from evenflow.model import InputError

# A bucket is the exponent and the first six bits of the fraction of a floating point number: 64
# buckets for every doubling, the widest 1/64 of its lower end.
_SHIFT = 46
_FIRST = int(np.array(2.0**-40).view(np.int64)) >> _SHIFT
_BUCKETS = 100 * 64  # up to 2⁶⁰


class LatencyHistogram:
    """Mean, maximum and quantiles of a stream of latencies.

    Guarantee: a quantile is within 1 % of the exact one (latencies are clipped to 2⁻⁴⁰ … 2⁶⁰), in
    50 kB of memory for any length of the stream. Count, mean and maximum are exact. Chunking changes
    nothing.

    Example:
        >>> histogram = LatencyHistogram()
        >>> histogram.update(np.array([1.0, 2.0, 3.0, 1000.0]))
        >>> histogram.mean, histogram.max, 1.98 < histogram.quantile(0.5) < 2.02
        (251.5, 1000.0, True)
    """

    def __init__(self) -> None:
        self._counts: I64 = np.zeros(_BUCKETS, np.int64)
        self._sum_and_max: F64 = np.zeros(2)
        self.count = 0

    def update(self, latencies: F64) -> None:
        """Take the next messages' latencies, which are at least 0."""
        latencies = np.ascontiguousarray(latencies, np.float64)
        _count(latencies, latencies.view(np.int64), self._counts, self._sum_and_max)
        self.count += len(latencies)

    @property
    def sum(self) -> float:
        """The sum of all latencies."""
        return float(self._sum_and_max[0])

    @property
    def mean(self) -> float:
        """The average; 0 of an empty stream."""
        return self.sum / self.count if self.count else 0.0

    @property
    def max(self) -> float:
        """The largest; 0 of an empty stream."""
        return float(self._sum_and_max[1])

    def quantile(self, q: float) -> float:
        """The smallest latency that a share `q` of all messages does not exceed; 0 if none."""
        if not 0 <= q <= 1:
            raise InputError(f"a quantile must lie in 0..1, got {q}")
        if not self.count:
            return 0.0
        rank = max(1, math.ceil(q * self.count))
        bucket = int(np.searchsorted(np.cumsum(self._counts), rank))
        ends = (np.array([bucket, bucket + 1], np.int64) + _FIRST) << _SHIFT
        return min(self.max, float(ends.view(np.float64).mean()))


@kernel
def _count(latencies, bits, counts, sum_and_max):
    total, largest = sum_and_max[0], sum_and_max[1]
    last = len(counts) - 1
    for i in range(len(latencies)):
        total += latencies[i]
        largest = max(largest, latencies[i])
        bucket = min(max((bits[i] >> _SHIFT) - _FIRST, 0), last)
        counts[np.uint64(bucket)] += 1
    sum_and_max[0], sum_and_max[1] = total, largest
