"""What a sketch is compared with: the true counts, and a few keys that never came."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from evenflow.checks.outcome import CheckFailed
from evenflow.checks.streams import U64, Stream
from evenflow.sketches.protocol import I64, Sketch

# Counts are halved as real numbers. After many halvings a float64 is off by less than this, which
# is far below the smallest step of a bound.
_ROUNDING = 1e-6


class ExactCounts:
    """The real-valued counts of every key of a stream, halved when the sketch's are.

    A sketch that ages by itself says so by an attribute `half_life`: counts are halved before
    message number half_life, 2·half_life, … (from 0) is counted.
    """

    def __init__(self, stream: Stream, sketch: Sketch) -> None:
        strangers = np.array([3, 2**40 + 1, 0xDEADBEEF12345678], np.uint64)
        self.stream = stream
        self.strangers: U64 = np.setdiff1d(strangers, stream.keys)
        self.keys, self._number = np.unique(stream.keys, return_inverse=True)
        self.counts: npt.NDArray[np.float64] = np.zeros(len(self.keys))
        self.seen = 0
        self._half_life: int | None = getattr(sketch, "half_life", None)

    def count_to(self, end: int) -> None:
        """Count the stream's messages up to `end`."""
        while self.seen < end:
            stop = end
            if self._half_life is not None:
                if self.seen and self.seen % self._half_life == 0:
                    self.age()
                stop = min(end, (self.seen // self._half_life + 1) * self._half_life)
            self.counts += np.bincount(self._number[self.seen : stop], minlength=len(self.keys))
            self.seen = stop

    def age(self) -> None:
        self.counts /= 2

    @property
    def total(self) -> float:
        return float(self.counts.sum())

    def require_bounds(self, sketch: Sketch, state: Any, when: str) -> None:
        """Fail at the first key whose true count lies outside of the sketch's bounds."""
        self._require_between(sketch, *_bounds(sketch, state, self.keys), when)
        lower, _ = _bounds(sketch, state, self.strangers)
        if lower.any():
            at = int(np.flatnonzero(lower)[0])
            raise CheckFailed(
                f"{sketch.name} on {self.stream}, {when}: key {self.strangers[at]} never came, and "
                f"its lower bound is {lower[at]}"
            )

    def _require_between(self, sketch: Sketch, lower: I64, upper: I64, when: str) -> None:
        wrong = (lower > self.counts + _ROUNDING) | (upper < self.counts - _ROUNDING)
        if wrong.any():
            at = int(np.flatnonzero(wrong)[0])
            raise CheckFailed(
                f"{sketch.name} on {self.stream}, {when}: key {self.keys[at]} counts "
                f"{self.counts[at]:g}, outside of its bounds {lower[at]} … {upper[at]}"
            )

    def require_total(self, sketch: Sketch, state: Any, when: str) -> None:
        """Fail unless the sketch's total is the true one, rounded up."""
        expected, got = int(np.ceil(self.total - _ROUNDING)), sketch.total(state)
        if got != expected:
            raise CheckFailed(
                f"{sketch.name} on {self.stream}, {when}: total is {got}, expected {expected}"
            )

    def require_hot(self, sketch: Sketch, state: Any, share: float, when: str) -> None:
        """Fail at the first key that `hot` should list and does not, or lists and should not."""
        hot = sketch.hot(state, share)
        threshold = share * sketch.total(state)
        where = f"{sketch.name} on {self.stream}, {when}, share {share}"
        if len(np.unique(hot.keys)) != len(hot.keys):
            raise CheckFailed(f"{where}: a key is listed twice among {hot.keys.tolist()}")
        # A sketch cannot list keys that it does not track; how much such a key may count, it says
        # by the bound of a key that never came.
        untracked = int(_bounds(sketch, state, self.strangers)[1].max())
        due = (self.counts >= threshold) & (self.counts > untracked + _ROUNDING)
        missed = np.flatnonzero(due & ~np.isin(self.keys, hot.keys))
        if len(missed):
            at = int(missed[0])
            raise CheckFailed(
                f"{where}: key {self.keys[at]} counts {self.counts[at]:g} of {self.total:g} and is "
                f"not listed; untracked keys are said to count {untracked} at most"
            )
        cold = np.flatnonzero(hot.upper < threshold)
        if len(cold):
            at = int(cold[0])
            raise CheckFailed(
                f"{where}: key {hot.keys[at]} is listed with upper bound {hot.upper[at]}, below "
                f"{threshold:g}"
            )
        lower, upper = _bounds(sketch, state, hot.keys)
        if not (np.array_equal(lower, hot.lower) and np.array_equal(upper, hot.upper)):
            raise CheckFailed(f"{where}: hot and bounds do not agree on the bounds of listed keys")
        if not np.array_equal(np.lexsort((hot.keys, -hot.upper)), np.arange(len(hot.keys))):
            raise CheckFailed(f"{where}: hot is not sorted by upper bound, then by key")


def _bounds(sketch: Sketch, state: Any, keys: U64) -> tuple[I64, I64]:
    lower, upper = sketch.bounds(state, keys)
    for what, bound in (("lower", lower), ("upper", upper)):
        if len(bound) != len(keys) or bound.dtype != np.int64:
            raise CheckFailed(
                f"{sketch.name}: {what} bounds of {len(keys)} keys must be as many int64, got "
                f"{len(bound)} of {bound.dtype}"
            )
    return lower, upper
