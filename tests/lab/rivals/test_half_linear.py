"""HLHE: the paper's example digit by digit, and what its Theorem 3 is worth."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenflow.model import InputError
from evenflow_lab.rivals.half_linear import (
    MOST_LEVELS,
    discretized,
    representatives,
    unit_for,
)

COSTS = [8, 6, 3, 2, 2, 1, 1, 1, 1, 1]  # §IV-B
degrees = st.integers(0, 8).map(lambda r: 2**r)
values = st.lists(st.floats(0, 1e6, allow_nan=False), max_size=60)


def naive(costs, degree, rule, levels):
    """φ of costs in descending order, among `levels`, by `rule(δ, x, low, high)`."""
    deviation, out = 0.0, []
    for x in costs:
        low = max((y for y in levels if y <= x), default=0.0)
        high = min((y for y in levels if y > x), default=low)
        out.append(rule(deviation, x, low, high))
        deviation += x - out[-1]
    return out, deviation


def nearest_to_nothing(deviation, x, low, high):
    """ "Chosen so that the total deviation |δ| is minimized"; the smaller one on a tie."""
    return high if x and abs(deviation + x - high) < abs(deviation + x - low) else low


def by_sign(deviation, x, low, high):
    """ "If the current accumulated deviation is positive, by the larger value; otherwise smaller"."""
    return high if deviation > 0 else low


def test_the_papers_example_digit_by_digit():
    assert representatives(8, 4).tolist() == [8, 4, 2, 1]
    rounded = discretized(COSTS, 4)
    assert rounded.values[:3].tolist() == [8, 4, 4]  # k3 = 3 becomes 4: δ was 2
    assert discretized(COSTS[:2], 4).deviation == 2
    assert discretized(COSTS[:3], 4).deviation == 1
    assert rounded.deviation == 0
    assert rounded.values.sum() == sum(COSTS)


def test_the_papers_piecewise_function_deviates_by_3():
    pieces = {1: 2, 2: 2, 3: 2, 4: 5, 5: 5, 6: 5, 7: 8, 8: 8, 9: 8}
    assert abs(sum(c - pieces[c] for c in COSTS)) == 3


def test_the_papers_rule_by_sign_does_not_give_the_papers_example():
    assert naive(COSTS, 4, by_sign, [8, 4, 2, 1])[1] == -1
    assert naive(COSTS, 4, nearest_to_nothing, [8, 4, 2, 1])[1] == 0


def test_theorem_3_is_false_within_its_premise():
    """Its proof needs more keys of small load than of big load, and the smallest value to be 1. Here
    are twice as many; but s = ⌊max / R⌋ gives what lies above y₁ one candidate only, and each small key
    makes good for 1 of the 3 that each big one loses."""
    levels = [4, 2, 1]  # r + ⌊7 / 4⌋ = 3 representatives
    for many in (10, 1000):
        costs = [7] * many + [1] * (2 * many)
        for rule in (by_sign, nearest_to_nothing):
            assert naive(costs, 4, rule, levels)[1] == many  # of 9 · many
        assert abs(discretized(costs, 4).deviation) <= 2


@pytest.mark.parametrize("degree", [2, 8, 64])
def test_theorem_3_holds_for_the_papers_own_costs(degree):
    """Zipf's, as its generator has them: only the few largest keys lie above y₁."""
    costs = np.maximum(np.round(1e4 * np.arange(1, 20_001) ** -0.85), 1).tolist()
    whole = math.floor(max(costs) / degree)
    levels = [*np.arange(whole, 0, -1) * degree, *(2**r for r in range(degree.bit_length() - 1))]
    assert abs(naive(costs[:3], degree, by_sign, levels)[1]) <= 3 * degree
    small = [level for level in levels if level <= 2 * costs[2000]]
    assert abs(naive(costs[2000:], degree, by_sign, small)[1]) <= degree


@given(values, degrees)
def test_guarantee_the_deviation_is_at_most_half_the_degree(numbers, degree):
    rounded = discretized(numbers, degree)
    assert abs(rounded.deviation) <= degree / 2 + 1e-6
    assert math.isclose(
        rounded.deviation, sum(numbers) - rounded.values.sum(), rel_tol=1e-9, abs_tol=1e-3
    )


@given(values, degrees)
def test_guarantee_every_value_becomes_one_of_its_two_neighbours(numbers, degree):
    levels = [*representatives(max(numbers, default=1), degree).tolist(), 0.0]
    for x, y in zip(numbers, discretized(numbers, degree).values, strict=True):
        low = max(level for level in levels if level <= x)
        high = min((level for level in levels if level > x), default=low)
        assert y in (low, high)


@given(st.lists(st.integers(0, 2000), max_size=60), degrees)
def test_twin(numbers, degree):
    numbers = sorted(numbers, reverse=True)
    levels = representatives(max(numbers, default=1), degree).tolist()
    expected, deviation = naive(numbers, degree, nearest_to_nothing, levels)
    rounded = discretized(numbers, degree)
    assert rounded.values.tolist() == expected
    assert rounded.deviation == deviation


def test_whole_numbers_are_kept_at_degree_1():
    numbers = np.random.default_rng(3).integers(0, 1000, 500)
    assert discretized(numbers, 1).values.tolist() == numbers.tolist()


def test_the_unit_is_the_smallest_value_unless_there_are_too_many_representatives():
    rows = np.array([0, 1, 1, 5, 700.0])
    assert unit_for(rows, 4) == 1
    assert unit_for(rows * 0.125, 4) == 0.125
    assert unit_for(np.zeros(3), 4) == 1
    assert unit_for(np.zeros(0), 4) == 1
    assert unit_for(np.array([3.0, 5.0]), 4) == 2
    assert 0 < unit_for(np.array([1e-310]), 4) < 1e-300
    assert unit_for(np.array([1e-310, 1e308]), 4) > 1e290
    seconds = np.random.default_rng(3).lognormal(-7, 2, 100_000)
    unit = unit_for(seconds, 4)
    used = np.unique(np.floor(seconds / (4 * unit)))
    assert unit > seconds.min()
    assert MOST_LEVELS / 4 < len(used) <= MOST_LEVELS


@pytest.mark.parametrize("degree", [0, -4, 3, 6, 2**21, 2.5, True, "4"])
def test_a_degree_that_is_no_power_of_two_is_refused(degree):
    with pytest.raises(InputError, match="power of two"):
        discretized(COSTS, degree)


@pytest.mark.parametrize("wrong", [[-1.0], [math.nan], [math.inf], [2.0**53], [[1.0]]])
def test_values_that_cannot_be_costs_are_refused(wrong):
    with pytest.raises(InputError, match="numbers from 0"):
        discretized(wrong, 4)
