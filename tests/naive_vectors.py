"""The slow, obvious twin of the compact representation: a dictionary of vectors."""

from collections import defaultdict
from fractions import Fraction


def neighbours(x, degree):
    """The representatives next to x: itself or below, and above."""
    if x >= degree:
        return x // degree * degree, x // degree * degree + degree
    low = 0
    for power in range(degree.bit_length()):
        if 2**power <= x:
            low = 2**power
    return low, max(2 * low, 1)


def vectors_of(costs, states, worker, home, degree):
    """Of costs and states whose unit is 1: {(d, d_h, cost below, state below): its keys}."""
    vectors = defaultdict(list)
    for k, (c, s, d, h) in enumerate(zip(costs, states, worker, home, strict=True)):
        vectors[d, h, neighbours(c, degree)[0], neighbours(s, degree)[0]].append(k)
    return vectors


def mean(values):
    return Fraction(sum(values)) / len(values)


def rounded_greedily(keys, values, worker, degree):
    """φ of each value: by ascending key, each worker and each width of a gap for itself."""
    deviation, out = defaultdict(int), {}
    for key, x, d in sorted(zip(keys, values, worker, strict=True)):
        low, high = neighbours(x, degree)
        part = d, 0 if x < 1 else high - low
        up = x > 0 and 2 * (deviation[part] + x - low) > high - low
        out[key] = high if up else low
        deviation[part] += x - out[key]
    return [out[key] for key in keys]
