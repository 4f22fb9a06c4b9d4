"""`min_by` and `max_by` give the value of a loop over the rows, and the same however they are split."""

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import naive_aggregates
from evenflow import operators as ops
from evenflow.model import InputError
from evenflow.operators import Aggregates
from operators.test_aggregates import CUTS, KEYS, KINDS, ORDERS, every_way, same

# Few values of `ord`, so that many rows tie.
PAIRS = st.tuples(st.sampled_from(sorted(KINDS)), st.sampled_from(sorted(KINDS))).flatmap(
    lambda kinds: st.lists(st.none() | KINDS[kinds[1]][1], min_size=1, max_size=3).flatmap(
        lambda orders: st.lists(
            st.tuples(KEYS, st.none() | KINDS[kinds[0]][1], st.sampled_from(orders)), max_size=25
        ).map(
            lambda rows: pa.table(
                {
                    "key": pa.array([key for key, _, _ in rows], pa.string()),
                    "value": pa.array([value for _, value, _ in rows], KINDS[kinds[0]][0]),
                    "ord": pa.array([order for _, _, order in rows], KINDS[kinds[1]][0]),
                }
            )
        )
    )
)


@settings(max_examples=80)
@given(PAIRS, CUTS, ORDERS)
def test_min_by_and_max_by_are_those_of_a_loop(table, cut, order):
    operator = Aggregates(least=ops.min_by("value", "ord"), most=ops.max_by("value", "ord"))
    expected = {}
    for row in table.to_pylist():
        expected.setdefault(row["key"], []).append((row["value"], row["ord"]))
    for result in every_way(operator, table, cut, order):
        assert result.keys() == expected.keys()
        for key, row in result.items():
            assert same(row["least"], naive_aggregates.extreme_by(expected[key], min))
            assert same(row["most"], naive_aggregates.extreme_by(expected[key], max))


def test_structs_are_whole_rows_and_tie_by_their_fields():
    rows = [(1, 9, "b"), (1, 9, "a"), (1, 8, "z"), (2, None, "c")]
    pair = pa.struct([("n", pa.int64()), ("word", pa.string())])
    table = pa.table(
        {
            "key": ["k"] * 4,
            "value": pa.array([{"n": n, "word": word} for _, n, word in rows], pair),
            "ord": [order for order, _, _ in rows],
        }
    )
    operator = Aggregates(least=ops.min_by("value", "ord"), most=ops.max_by("value", "ord"))
    for cut in ([0], [0, 1], [1, 0, 2]):
        for result in every_way(operator, table, cut, [1, 0]):
            assert result["k"]["least"] == {"n": 8, "word": "z"}
            assert result["k"]["most"] == {"n": None, "word": "c"}


def test_mistakes_are_named():
    with pytest.raises(InputError, match="max_by needs the name of the column to order by, got ''"):
        ops.max_by("value", "")
    with pytest.raises(InputError, match="expected two columns, as in 'min_by:user:time'"):
        ops.parse_aggregate("min_by:user")
    assert ops.parse_aggregate("who=max_by:user:at") == ("who", ops.max_by("user", "at"))
    rows = pa.schema([("v", pa.int64()), ("o", pa.list_(pa.int64()))])
    with pytest.raises(InputError, match="column 'o' is list"):
        ops.min_by("v", "o").state_schema(rows)
