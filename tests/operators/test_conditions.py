"""Conditions are counted, and true in all rows or in any, as a loop over the rows finds."""

import pyarrow as pa
import pytest
from hypothesis import given

import naive_aggregates
from evenflow import operators as ops
from evenflow.model import InputError
from evenflow.operators import Aggregates
from operator_parts import values_by_key
from operators.test_aggregates import CUTS, KINDS, ORDERS, every_way, tables


@given(tables({"boolean": KINDS["boolean"]}), CUTS, ORDERS)
def test_conditions_are_those_of_a_loop(table, cut, order):
    operator = Aggregates(n=ops.count_if("value"), a=ops.every("value"), o=ops.some("value"))
    expected = values_by_key(table)
    for result in every_way(operator, table, cut, order):
        assert result.keys() == expected.keys()
        for key, row in result.items():
            values = expected[key]
            assert row == {
                "n": naive_aggregates.count_if(values),
                "a": naive_aggregates.bool_and(values),
                "o": naive_aggregates.bool_or(values),
            }


@pytest.mark.parametrize("function", [ops.count_if, ops.bool_and, ops.bool_or])
def test_what_is_not_a_condition_is_refused(function):
    with pytest.raises(
        InputError, match=r"'ms' is int64, expected booleans; .*F.col\(\"ms\"\) > 0"
    ):
        function("ms").state_schema(pa.schema([("ms", pa.int64())]))
