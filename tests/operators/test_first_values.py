"""`first` and `last` take the rows of a key in the order in which they arrive."""

import pyarrow as pa
from hypothesis import given, settings

import naive_aggregates
from evenflow import operators as ops
from evenflow.operators import Aggregates, on_table
from operator_parts import at_once, in_batches, in_merged_parts, values_by_key
from operators.test_aggregates import CUTS, KINDS, ORDERS, same, tables


def operator():
    return Aggregates(
        f=ops.first("value"),
        l=ops.last("value"),
        fi=ops.first("value", ignorenulls=True),
        li=ops.last("value", ignorenulls=True),
    )


def assert_in_order(result, values_of):
    assert result.keys() == values_of.keys()
    for key, row in result.items():
        values = values_of[key]
        assert same(row["f"], naive_aggregates.first(values, False))
        assert same(row["l"], naive_aggregates.last(values, False))
        assert same(row["fi"], naive_aggregates.first(values, True))
        assert same(row["li"], naive_aggregates.last(values, True))


def batch_by_batch(table, cut):
    """The rows in the order in which `in_batches` hands them over."""
    batch = [cut[i % len(cut)] for i in range(table.num_rows)]
    order = sorted(range(table.num_rows), key=lambda row: batch[row])
    return table.take(pa.array(order, pa.int64()))


@settings(max_examples=80)
@given(tables(KINDS), CUTS, ORDERS)
def test_rows_count_in_order_and_earlier_batches_first(table, cut, order):
    assert_in_order(at_once(operator(), table), values_by_key(table))
    if not table.num_rows:
        return
    in_turn = values_by_key(batch_by_batch(table, cut))
    assert_in_order(in_batches(operator(), table, cut), in_turn)
    for result in in_merged_parts(operator(), table, cut, order):
        for key, row in result.items():
            values = in_turn[key]
            known = naive_aggregates.there(values)
            for name in ("f", "l"):
                assert any(same(row[name], value) for value in values)
            for name in ("fi", "li"):
                assert any(same(row[name], value) for value in known or [None])


def test_parts_of_a_key_count_in_the_order_in_which_they_come():
    table = pa.table({"key": ["k"] * 4, "value": [None, "a", "b", None]})
    for result in in_merged_parts(operator(), table, [0, 1, 2, 3], [0]):
        assert result == {"k": {"f": None, "l": None, "fi": "a", "li": "b"}}
    for result in in_merged_parts(operator(), table, [0, 1, 2, 3], [3, 2, 1, 0]):
        assert result == {"k": {"f": None, "l": None, "fi": "b", "li": "a"}}


def test_values_of_any_type():
    kind = pa.struct([("x", pa.int8()), ("y", pa.list_(pa.int32()))])
    value = {"x": 1, "y": [2]}
    table = pa.table({"key": ["k", "k"], "value": pa.array([value, None], kind)})
    (row,) = on_table(operator(), table, "key").to_pylist()
    assert row == {"key": "k", "f": value, "l": None, "fi": value, "li": value}
