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
  ("always perfectly, |δ| ~ 0") is false: ten keys of cost 7 at R = 4 are ten times 4, and twenty of
  cost 1, as many more as its proof asks for, make good for 20 of the 30 that are lost. On Zipf's
  costs, where few keys are above y₁, it holds. Here s = ⌈max / R⌉, so that every value has a neighbour
  above; then |δ| ≤ R / 2 for every input, and that is what is guaranteed.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from evenflow.kernels.jit import inlined, kernel
from evenflow.model import InputError
from evenflow.planning.protocol import F64

I64 = npt.NDArray[np.int64]

MOST_LEVELS = 4096  #: representatives in the linear part, at most: beyond that units grow
MOST_DEGREE = 1 << 20
_FINEST = 1 << 20  #: linear steps that are looked at when units are chosen
_MOST_UNITS = 1 << 31  #: in the largest value, whatever the degree
_LARGEST = float(1 << 53)
_LEAST_EXPONENT = -1000  #: of a unit, so that there is a number of units in 1
_BIAS = 1023  #: of the exponent in a float64, whose bits 52 to 62 it is


class Discretized(NamedTuple):
    """Values rounded to representatives, and what that did to their sum."""

    values: F64  #: φ(x), in the order of x
    deviation: float  #: δ: the sum of x minus the sum of φ(x)


def check_degree(degree: int) -> None:
    """Refuse a degree of discretization that is not a power of two."""
    whole = isinstance(degree, int) and not isinstance(degree, bool)
    if not (whole and 1 <= degree <= MOST_DEGREE and degree & (degree - 1) == 0):
        raise InputError(
            f"the degree R must be a power of two from 1 to {MOST_DEGREE}, got {degree}"
        )


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
    if given.ndim != 1 or not ((given >= 0) & (given < _LARGEST)).all():
        raise InputError("values to discretize must be a list of numbers from 0 to below 2^53")
    descending = np.argsort(-given, kind="stable")
    bits, out = given.view(np.int64), np.empty(len(given))
    return Discretized(out, float(_discretize(given, bits, descending, exponent_of(degree), out)))


def unit_for(values: F64, degree: int) -> float:
    """What counts as 1: §IV-B wants values whose smallest is at least 1.

    It is the largest power of two that is not above the smallest value (0 apart), unless the linear
    part would then have more than `MOST_LEVELS` representatives in use: seconds, say, of which hardly
    two are equal. Then the unit is doubled until it has not. Values below the unit become 0 or 1, and
    their sum stays right like all others.
    """
    return unit_and_largest(values, degree)[0]


def unit_and_largest(values: F64, degree: int) -> tuple[float, float]:
    """`unit_for`, and the largest of the values."""
    smallest, largest = _extremes(values)
    if largest <= 0:
        return 1.0, 0.0
    steps = min(degree * _FINEST, _MOST_UNITS)
    exponents = math.frexp(smallest)[1], math.frexp(largest / steps)[1] + 1, _LEAST_EXPONENT
    unit = math.ldexp(0.5, max(exponents))
    if largest / (degree * unit) <= MOST_LEVELS:
        return unit, largest
    used = np.zeros(math.ceil(largest / (degree * unit)) + 2, np.bool_)
    _mark_levels(values, 1 / (degree * unit), used)
    while np.count_nonzero(used) > MOST_LEVELS:
        unit *= 2
        used = np.append(used, False) if len(used) % 2 else used
        used = used[::2] | used[1::2]
    return unit, largest


def exponent_of(power_of_two: float) -> int:
    """2 to what is the number?"""
    return math.frexp(power_of_two)[1] - 1


@inlined
def level_of(bits: int, unit: int, degree: int) -> int:
    """In which part a value lies, by its own bits and the exponents of the unit and of R: −1 below 1,
    j from 2^j to 2^(j+1), and r in the linear part. The gaps between representatives are 2^j there."""
    return min(max((bits >> 52) - (unit + _BIAS), -1), degree)


@inlined
def rounded(x: float, level: int, deviation: float) -> np.int64:
    """φ(x) for x in units, where the values before have left `deviation`."""
    gap = np.int64(1) << max(level, 0)
    low = np.int64(x) & ~(gap - 1)
    # A value of 0 costs nothing, and must not be made to cost anything.
    up = (x > 0) & (2 * (deviation + x - low) > gap)
    return low + gap if up else low


@kernel
def _discretize(values: F64, bits: I64, order: I64, degree: int, out: F64) -> float:
    deviation = 0.0
    for i in order:
        out[i] = rounded(values[i], level_of(bits[i], 0, degree), deviation)
        deviation += values[i] - out[i]
    return deviation


@kernel
def _extremes(values: F64) -> tuple[float, float]:
    """The smallest value above 0, and the largest of all."""
    smallest, largest = np.inf, 0.0
    for x in values:
        largest = max(largest, x)
        smallest = min(smallest, x if x > 0 else np.inf)
    return smallest, largest


@kernel
def _mark_levels(values: F64, per_step: float, used: npt.NDArray[np.bool_]) -> None:
    for x in values:
        used[np.int64(x * per_step)] = True
