"""The mode is that of a loop over the values, however they are split."""

from hypothesis import given, settings

import naive_aggregates
from evenflow import operators as ops
from evenflow.operators import Aggregates
from operator_parts import values_by_key
from operators.test_aggregates import CUTS, KINDS, ORDERS, every_way, same, tables


@settings(max_examples=80)
@given(tables(KINDS), CUTS, ORDERS)
def test_mode_is_the_most_frequent_value_and_the_smallest_of_several(table, cut, order):
    expected = values_by_key(table)
    for result in every_way(Aggregates(mode=ops.mode("value")), table, cut, order):
        assert result.keys() == expected.keys()
        for key, row in result.items():
            assert same(row["mode"], naive_aggregates.mode(expected[key]))
