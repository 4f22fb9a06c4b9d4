"""Variance and standard deviation are those of exact arithmetic, however the rows are split."""

import math

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

import naive_aggregates
from evenflow import operators as ops
from evenflow.operators import Aggregates, on_table
from operator_parts import at_once, in_batches, in_merged_parts, values_by_key
from operators.test_aggregates import CUTS, NUMBERS, ORDERS, every_way, tables


def close(found, exact, scale=1.0):
    if found is None or exact is None:
        return found is exact
    if math.isnan(exact):
        return math.isnan(found)
    return math.isclose(found, exact, rel_tol=1e-9, abs_tol=1e-9 * scale)


def spread(column="value"):
    return Aggregates(
        v=ops.var_samp(column), vp=ops.var_pop(column), s=ops.std(column), sp=ops.stddev_pop(column)
    )


@settings(max_examples=80)
@given(tables(NUMBERS), CUTS, ORDERS)
def test_variance_and_stddev_are_those_of_exact_arithmetic(table, cut, order):
    expected = values_by_key(table)
    for result in every_way(spread(), table, cut, order):
        assert result.keys() == expected.keys()
        for key, row in result.items():
            numbers = [float(v) for v in naive_aggregates.there(expected[key])]
            scale = max((v * v for v in numbers if math.isfinite(v)), default=1.0) + 1
            sample = naive_aggregates.variance(expected[key], True)
            population = naive_aggregates.variance(expected[key], False)
            # A double holds 16 digits: of large values with a small spread, the digits after those.
            assert close(row["v"], sample, scale * 1e-6)
            assert close(row["vp"], population, scale * 1e-6)
            assert close(row["s"], sample and math.sqrt(sample), math.sqrt(scale) * 1e-3)
            assert close(row["sp"], population and math.sqrt(population), math.sqrt(scale) * 1e-3)


@given(st.lists(st.integers(0, 4), min_size=1, max_size=9), st.integers(0, 99))
def test_variance_is_stable_where_values_are_large_and_close(cut, seed):
    values = 1e9 + np.random.default_rng(seed).random(200)
    table = pa.table({"key": ["k"] * 200, "value": values})
    exact = naive_aggregates.variance(values.tolist(), True)
    for result in every_way(spread(), table, cut, [3, 1, 2]):
        assert math.isclose(result["k"]["v"], exact, rel_tol=1e-6)


def test_one_value_no_value_and_equal_values():
    table = pa.table({"key": ["a", "b", "c", "c", "c"], "value": [3.0, None, 0.1, 0.1, 0.1]})
    assert on_table(spread(), table, "key").to_pylist() == [
        {"key": "a", "v": None, "vp": 0.0, "s": None, "sp": 0.0},
        {"key": "b", "v": None, "vp": None, "s": None, "sp": None},
        {"key": "c", "v": 0.0, "vp": 0.0, "s": 0.0, "sp": 0.0},
    ]


def test_infinite_values_and_overflow_are_those_of_spark():
    rows = [("a", math.inf), ("b", 1.0), ("b", -math.inf), ("c", 1e200), ("c", -1e200)]
    rows += [("d", 1e308), ("d", 1e308)]
    table = pa.table({"key": [k for k, _ in rows], "value": [v for _, v in rows]})
    cut = [0, 1, 0, 1, 0, 1, 0]
    ways = [at_once(spread(), table), in_batches(spread(), table, cut)]
    for result in [*ways, *in_merged_parts(spread(), table, cut, [0])]:
        found = {key: (row["v"], row["vp"]) for key, row in result.items()}
        assert str(found) == str(
            {"a": (None, math.nan), "b": (math.nan,) * 2, "c": (math.inf,) * 2, "d": (0.0, 0.0)}
        )
