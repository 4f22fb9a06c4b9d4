"""Lists hold every value, sets every distinct one, however the rows are split."""

import pyarrow as pa
from hypothesis import given, settings

import naive_aggregates
from evenflow import operators as ops
from evenflow.operators import Aggregates, on_table
from naive import spark_order
from operator_parts import at_once, in_batches, in_merged_parts, values_by_key
from operators.test_aggregates import CUTS, KINDS, ORDERS, every_way, same, tables
from operators.test_first_values import batch_by_batch


def all_same(found, expected):
    return all(same(a, b) for a, b in zip(found, expected, strict=True))


@settings(max_examples=80)
@given(tables(KINDS), CUTS, ORDERS)
def test_a_list_has_every_value_in_order_and_earlier_batches_first(table, cut, order):
    operator = Aggregates(all=ops.collect_list("value"))
    ways = [(at_once(operator, table), values_by_key(table))]
    if table.num_rows:
        in_turn = values_by_key(batch_by_batch(table, cut))
        ways.append((in_batches(operator, table, cut), in_turn))
        for result in in_merged_parts(operator, table, cut, order):
            assert result.keys() == in_turn.keys()
            for key, row in result.items():
                values = naive_aggregates.there(in_turn[key])
                # Equal values may differ in type of zero or NaN only, so sort by Spark's order.
                assert all_same(
                    sorted(row["all"], key=spark_order), sorted(values, key=spark_order)
                )
    for result, expected in ways:
        assert result.keys() == expected.keys()
        for key, row in result.items():
            assert all_same(row["all"], naive_aggregates.there(expected[key]))


@settings(max_examples=80)
@given(tables(KINDS), CUTS, ORDERS)
def test_a_set_has_every_distinct_value_once_smallest_first(table, cut, order):
    operator = Aggregates(kinds=ops.collect_set("value"), n=ops.count_distinct("value"))
    expected = values_by_key(table)
    for result in every_way(operator, table, cut, order):
        assert result.keys() == expected.keys()
        for key, row in result.items():
            values = naive_aggregates.collect_set(expected[key])
            assert all_same(row["kinds"], values)
            assert row["n"] == len(values)


def test_values_of_any_type_can_be_listed():
    values = pa.array([[{"x": 1}], None, [], [{"x": None}]])
    table = pa.table({"key": ["k", "k", "k", "l"], "value": values})
    result = on_table(Aggregates(all=ops.collect_list("value")), table, "key")
    assert result.to_pylist() == [
        {"key": "k", "all": [[{"x": 1}], []]},
        {"key": "l", "all": [[{"x": None}]]},
    ]
    assert not result.schema.field("all").type.value_field.nullable
