"""`percentile_approx` is exact for few values, within its error for many, in the column's type."""

from datetime import UTC, datetime

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import naive_aggregates
from evenflow import operators as ops
from evenflow.model import InputError
from evenflow.operators import Aggregates, on_table
from operator_parts import in_merged_parts, values_by_key
from operators.test_aggregates import CUTS, KINDS, NUMBERS, ORDERS, every_way, same, tables

pytest.importorskip("datasketches")

# A double holds the microseconds up to the year 2255.
MOMENTS = st.datetimes(datetime(1700, 1, 1), datetime(2200, 1, 1))
TIMES = {
    "date": KINDS["date"],
    "timestamp": (pa.timestamp("us"), MOMENTS),
    "timestamp with zone": (
        pa.timestamp("us", "UTC"),
        MOMENTS.map(lambda t: t.replace(tzinfo=UTC)),
    ),
    "interval": KINDS["interval"],
}
WANTED = [0.5, 0.0, 1.0, 0.25]
# Of the others, doubles hold every value.
EXACT = {k: v for k, v in (NUMBERS | TIMES).items() if k not in ("int64", "wide decimal")}


@settings(max_examples=80)
@given(tables(EXACT), CUTS, ORDERS)
def test_percentiles_of_few_values_are_exact_and_have_the_type_of_the_column(table, cut, order):
    operator = Aggregates(
        several=ops.percentile_approx("value", WANTED), one=ops.approx_percentile("value", 0.5, 50)
    )
    kind = table.schema.field("value").type
    output = operator.output_schema(table.schema)
    assert output.field("one").type == kind == output.field("several").type.value_type
    expected = values_by_key(table)
    for result in every_way(operator, table, cut, order):
        assert result.keys() == expected.keys()
        for key, row in result.items():
            values = [naive_aggregates.percentile(expected[key], p) for p in WANTED]
            if values[0] is None:
                assert row == {"several": None, "one": None}
                continue
            assert all(same(a, b) for a, b in zip(row["several"], values, strict=True))
            assert same(row["one"], values[0])


def test_whole_numbers_beyond_a_double_are_rounded_as_in_spark():
    values = [2**60 + 1, 2**63 - 1, -(2**63)]
    table = pa.table({"key": ["k"] * 3, "value": values})
    operator = Aggregates(p=ops.percentile_approx("value", [0, 0.5, 1]))
    assert on_table(operator, table, "key").column("p").to_pylist() == [
        [-(2**63), 2**60, 2**63 - 1]
    ]


@pytest.mark.parametrize("accuracy", [20, 100, 1000])
def test_the_rank_is_within_one_over_accuracy(accuracy):
    # That holds with 99 % confidence; twice as much leaves no chance to fail by bad luck.
    table = pa.table({"key": ["k"] * 50_000, "value": np.random.default_rng(1).random(50_000)})
    ordered = np.sort(table.column("value").to_numpy())
    operator = Aggregates(q=ops.percentile_approx("value", WANTED, accuracy))
    for result in in_merged_parts(operator, table, [0, 1, 2, 3, 1, 0, 0], [3, 1, 2]):
        ranks = np.searchsorted(ordered, result["k"]["q"]) / len(ordered)
        assert np.abs(ranks - WANTED).max() < 2 / accuracy


def test_mistakes_are_named():
    with pytest.raises(InputError, match="accuracy must be a whole number of 1 or more, got 0"):
        ops.percentile_approx("value", 0.5, 0)
    with pytest.raises(InputError, match="numbers of 0 … 1"):
        ops.percentile_approx("value", 1.5)
    with pytest.raises(InputError, match=r"column 'v' is string, allowed are .*dates"):
        ops.percentile_approx("v", 0.5).state_schema(pa.schema([("v", pa.string())]))
