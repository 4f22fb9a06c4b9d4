"""How load series vary together."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

F64 = npt.NDArray[np.float64]

CONSTANT = 1e-20  #: of the largest mean square: a series of less variance is a constant one


def correlations(series: F64) -> F64:
    """ρ of every pair of rows; 0 where one of them is constant.

    Example:
        >>> series = np.array([[1.0, 2.0, 3.0], [6.0, 4.0, 2.0], [5.0, 5.0, 5.0]])
        >>> correlations(series).round(9).tolist()
        [[1.0, -1.0, 0.0], [-1.0, 1.0, 0.0], [0.0, 0.0, 0.0]]
    """
    directions, _ = unit_series(series)
    correlation: F64 = np.clip(directions @ directions.T, -1.0, 1.0)
    return correlation


def unit_series(series: F64) -> tuple[F64, float]:
    """Each row less its mean and of length 1, so that ρ is a product of rows; a row of zeros where it
    is constant. And the squared length up to which that is so."""
    if not len(series):
        return series.copy(), 0.0
    k = series.shape[1]
    limit = CONSTANT * float((series**2).mean(axis=1).max()) * k
    centred = series - series.mean(axis=1, keepdims=True)
    squared = (centred**2).sum(axis=1)
    varying = squared > limit
    lengths = np.sqrt(np.where(varying, squared, 1.0))
    directions: F64 = np.where(varying[:, None], centred / lengths[:, None], 0.0)
    return directions, limit
