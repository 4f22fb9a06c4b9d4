"""The last k load samples of every operator, with running means and covariances."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from evenflow.model import InputError
from evenflow.model.validation import check_whole

F64 = npt.NDArray[np.float64]


class LoadWindow:
    """A sliding window over load samples, with sums from which means and covariances follow at once.

    A new sample costs one step an operator, and one a pair where pairs are kept; nothing is computed
    from the whole window again, but once in 64 windows to get rid of rounding.

    Guarantee: means and covariances are those of the window from scratch, up to rounding, however
    many samples have gone by.

    Parameters:
        operators: how many there are.
        samples: k, how many samples are kept.
        pairs: whether covariances of all pairs of operators are kept.

    Example:
        >>> window = LoadWindow(2, samples=3, pairs=True)
        >>> for loads in ([9, 9], [1, 3], [2, 2], [3, 1]):
        ...     window.add(np.array(loads))
        >>> window.series().tolist(), window.means().tolist()
        ([[1.0, 2.0, 3.0], [3.0, 2.0, 1.0]], [2.0, 2.0])
        >>> window.covariance().round(6).tolist()
        [[0.666667, -0.666667], [-0.666667, 0.666667]]

    Paper: "Dynamic Load Distribution in the Borealis Stream Processor", §2.3.
    """

    def __init__(self, operators: int, samples: int = 10, pairs: bool = False) -> None:
        check_whole("the number of operators", operators, 0)
        check_whole("the number of samples", samples, 1)
        self._ring: F64 = np.zeros((samples, operators))
        self._sum: F64 = np.zeros(operators)
        self._products: F64 | None = np.zeros((operators, operators)) if pairs else None
        self._added = 0

    def __len__(self) -> int:
        """How many samples are in the window."""
        return min(self._added, len(self._ring))

    def add(self, loads: npt.ArrayLike) -> None:
        """The next sample: the load of every operator in the period that is over."""
        sample = np.asarray(loads, np.float64)
        if sample.shape != self._sum.shape:
            raise InputError(
                f"a sample must have {len(self._sum)} loads, one an operator, got shape "
                f"{sample.shape}"
            )
        if not (np.isfinite(sample).all() and (sample >= 0).all()):
            raise InputError("loads must be finite and not negative")
        place = self._added % len(self._ring)
        left = self._ring[place].copy()
        self._ring[place] = sample
        self._added += 1
        self._sum += sample - left  # before the window is full, what leaves is 0
        if self._products is not None:
            self._products += np.outer(sample, sample)
            self._products -= np.outer(left, left)
        if self._added % (64 * len(self._ring)) == 0:
            self._refresh()

    def series(self) -> F64:
        """The samples of each operator, oldest first: (operators, samples so far)."""
        k = len(self._ring)
        if self._added < k:
            return np.ascontiguousarray(self._ring[: self._added].T)
        return np.ascontiguousarray(np.roll(self._ring, -(self._added % k), axis=0).T)

    def means(self) -> F64:
        """E S of each operator."""
        self._ask()
        return self._sum / len(self)

    def covariance(self) -> F64:
        """cov(S1, S2) of every pair of operators."""
        self._ask()
        if self._products is None:
            raise InputError("this window keeps no pairs; make it with pairs=True")
        means = self.means()
        covariance: F64 = self._products / len(self) - np.outer(means, means)
        return covariance

    def _ask(self) -> None:
        if not self._added:
            raise InputError("the window is empty: add a sample first")

    def _refresh(self) -> None:
        """All sums once more from the samples themselves: differences would wander off by rounding."""
        self._sum = self._ring.sum(axis=0)
        if self._products is not None:
            self._products = self._ring.T @ self._ring
