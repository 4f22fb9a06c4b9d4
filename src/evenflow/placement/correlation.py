"""The correlation of load series."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

F64 = npt.NDArray[np.float64]

CONSTANT = 1e-20  #: of the largest mean square: a series with less variance counts as constant


def correlations(series: F64) -> F64:
    """ρ of every pair of rows; 0 if one of them is constant.

    Example:
        >>> series = np.array([[1.0, 2.0, 3.0], [6.0, 4.0, 2.0], [5.0, 5.0, 5.0]])
        >>> correlations(series).round(9).tolist()
        [[1.0, -1.0, 0.0], [-1.0, 1.0, 0.0], [0.0, 0.0, 0.0]]
    """
    directions, _ = unit_series(series)
    correlation: F64 = np.clip(directions @ directions.T, -1.0, 1.0)
    return correlation


def unit_series(series: F64) -> tuple[F64, float]:
    """Each row minus its mean, scaled to length 1, so that ρ is a dot product of rows; zeros for a
    constant row. Also the squared length up to which a row counts as constant."""
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
