"""`approx_count_distinct` keeps within its error and depends on the values alone."""

import math

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings

import naive
from evenflow import operators as ops
from evenflow.model import InputError
from evenflow.operators import Aggregates, on_table
from operator_parts import values_by_key
from operators.test_aggregates import CUTS, KINDS, ORDERS, every_way, tables


@settings(max_examples=80)
@given(tables(KINDS), CUTS, ORDERS)
def test_few_values_are_counted_exactly_in_any_order_and_parts(table, cut, order):
    # With 2²⁰ registers, thirty values do not meet in one.
    operator = Aggregates(fine=ops.approx_count_distinct("value", 0.0011))
    coarse = Aggregates(coarse=ops.approx_count_distinct("value"))
    expected = values_by_key(table)
    for result in every_way(operator, table, cut, order):
        assert result.keys() == expected.keys()
        for key, row in result.items():
            assert row["fine"] == naive.aggregate_distinct(expected[key])
    at_once, *others = every_way(coarse, table, cut, order)
    assert all(other == at_once for other in others)


@pytest.mark.parametrize("rsd", [0.05, 0.01])
@pytest.mark.parametrize("n", [1, 10, 300, 3_000, 100_000])
def test_the_standard_error_is_at_most_rsd(rsd, n):
    keys, m = 40, 2 ** math.ceil(2 * math.log2(1.106 / rsd))
    values = np.arange(keys * n)
    if n > 10_000:
        keys = 12
        values = values[: keys * n]
    table = pa.table({"key": np.repeat(np.arange(keys), n), "value": values})
    operator = Aggregates(n=ops.approx_count_distinct("value", rsd))
    errors = on_table(operator, table, "key").column("n").to_numpy() / n - 1
    error = 1.04 / math.sqrt(m)
    assert error <= rsd
    # Two values that share a register count as one, which is much where there are ten.
    assert np.abs(errors).max() < 4 * error + 1 / n
    assert np.sqrt((errors**2).mean()) < 1.5 * error + 0.3 / n
    assert abs(errors.mean()) < 4 * error / math.sqrt(keys)


def test_a_state_is_bounded():
    table = pa.table({"key": ["k"] * 50_000, "value": np.arange(50_000)})
    aggregate = ops.approx_count_distinct("value")
    state = aggregate.partial(table, ops.rows_by_key(table, "key").groups)
    assert len(state.column("registers")[0]) <= 512


@pytest.mark.parametrize("rsd", [0, 0.001, 0.4, "0.05"])
def test_an_rsd_that_no_number_of_registers_has_is_refused(rsd):
    with pytest.raises(InputError, match=r"rsd must be a number from 0.0011 to 0.39, got"):
        ops.approx_count_distinct("value", rsd)
