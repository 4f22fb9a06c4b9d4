"""Half linear, half exponential: many different values become few, and sums stay right.

HLHE of "Parallel stream processing against workload skewness and variance", §IV-B. Representatives
are the multiples of the degree R = 2^r, and below them the powers of two down to 1. A value goes to
one of its two neighbours among them, whichever keeps the accumulated deviation δ = Σ x − Σ φ(x)
nearer to 0; the smaller one on a tie.

Two of the paper's sentences are read with care, because its own example contradicts them:

- "If the accumulated deviation is positive, x is represented by the larger value": in the example
  (costs 8, 6, 3, 2, 2, 1, 1, 1, 1, 1, R = 4) that ends at |δ| = 1, not at the 0 that Figure 6(b)
  shows. "Chosen so that the total deviation is minimized", the sentence before it, ends at 0.
- "y₁ = s × R with s = ⌊max / R⌋" leaves values above y₁ with a single candidate, so that Theorem 3
  ("always perfectly, |δ| ~ 0") is false: ten keys of cost 7 at R = 4 are ten times 4, a deviation of
  30 out of 70. Here s = ⌈max / R⌉, so that every value has a neighbour above; then |δ| ≤ R / 2 for
  every input, and that is what is guaranteed.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from evenflow.kernels.jit import inlined, kernel
from evenflow.model import InputError
from evenflow.planning.protocol import F64

MOST_LEVELS = 4096  #: representatives in the linear part, at most: beyond that units grow
_FINEST = 1 << 20  #: linear steps that are looked at when units are chosen


class Discretized(NamedTuple):
    """Values rounded to representatives, and what that did to their sum."""

    values: F64  #: φ(x), in the order of x
    deviation: float  #: δ: the sum of x minus the sum of φ(x)


def check_degree(degree: int) -> None:
    """Refuse a degree of discretization that is not a power of two."""
    if isinstance(degree, bool) or not isinstance(degree, int) or degree < 1:
        raise InputError(f"the degree R must be a power of two, 1, 2, 4, …; got {degree}")
    if degree & (degree - 1):
        raise InputError(f"the degree R must be a power of two, 1, 2, 4, …; got {degree}")


def representatives(largest: float, degree: int) -> F64:
    """y₁ > y₂ > …: the values that numbers up to `largest` are rounded to.

    Example:
        >>> representatives(8, 4).tolist()
        [8.0, 4.0, 2.0, 1.0]
    """
    check_degree(degree)
    linear = np.arange(max(math.ceil(largest / degree), 1), 0, -1, dtype=np.float64) * degree
    below = 2.0 ** np.arange(degree.bit_length() - 2, -1, -1)
    return np.concatenate([linear, below])


def discretized(values: npt.ArrayLike, degree: int) -> Discretized:
    """Round values to representatives, largest value first, so that their sum is kept.

    Guarantee: the deviation is at most half the degree, whatever the values. Every value becomes
    one of its two neighbours among the representatives; a value below 1 becomes 0 or 1.

    Parameters:
        values: finite and not negative; §IV-B wants the smallest to be at least 1.
        degree: R, a power of two.

    Example:
        >>> rounded = discretized([8, 6, 3, 2, 2, 1, 1, 1, 1, 1], degree=4)
        >>> rounded.values.tolist(), rounded.deviation
        ([8.0, 4.0, 4.0, 2.0, 2.0, 2.0, 1.0, 1.0, 1.0, 1.0], 0.0)

    Paper: "Parallel stream processing against workload skewness and variance", §IV-B, Figure 6(b).
    """
    check_degree(degree)
    given = np.ascontiguousarray(values, np.float64)
    if given.ndim != 1 or not (np.isfinite(given).all() and (given >= 0).all()):
        raise InputError("values to discretize must be a list of finite numbers of at least 0")
    descending = np.argsort(-given, kind="stable")
    out = np.empty(len(given))
    return Discretized(out, float(_discretize(given, descending, degree, out)))


def unit_for(values: F64, degree: int) -> float:
    """What counts as 1: §IV-B wants values whose smallest is at least 1.

    The smallest value above 0 is the unit, unless the linear part would then have more than
    `MOST_LEVELS` representatives in use: seconds, say, of which hardly two are equal. Then the unit
    is doubled until it has not. Values below the unit become 0 or 1, and their sum stays right like
    all others.
    """
    largest = float(values.max(initial=0.0))
    if largest <= 0:
        return 1.0
    smallest = float(np.min(values, initial=largest, where=values > 0))
    unit = max(smallest, largest / (degree * _FINEST))
    used = np.zeros(math.ceil(largest / (degree * unit)) + 2, np.bool_)
    _mark_levels(values, degree * unit, used)
    while int(used.sum()) > MOST_LEVELS:
        unit *= 2
        used = np.append(used, False) if len(used) % 2 else used
        used = used[::2] | used[1::2]
    return unit


@inlined
def level_of(x: float, degree: float) -> int:
    """In which part x lies: 0 for the linear one, then 1, 2, … down the exponential one. Gaps between
    representatives are alike within a part, and halve from one to the next."""
    if x >= degree:
        return 0
    if x < 1:
        return math.frexp(degree)[1]
    return math.frexp(degree)[1] - math.frexp(x)[1]


@inlined
def rounded(x: float, deviation: float, degree: float) -> float:
    """φ(x), where the values before have left `deviation`."""
    if x >= degree:
        low = math.floor(x / degree) * degree
        high = low + degree
    elif x >= 1:
        low = math.ldexp(0.5, math.frexp(x)[1])
        high = 2 * low
    else:
        low = 0.0
        high = 1.0
    # A value of 0 costs nothing, and must not be made to cost anything.
    return high if x > 0 and 2 * (deviation + x) > low + high else low


@kernel
def _discretize(values: F64, order: npt.NDArray[np.int64], degree: int, out: F64) -> float:
    deviation = 0.0
    for i in order:
        out[i] = rounded(values[i], deviation, float(degree))
        deviation += values[i] - out[i]
    return deviation


@kernel
def _mark_levels(values: F64, width: float, used: npt.NDArray[np.bool_]) -> None:
    for x in values:
        used[int(x / width)] = True
