"""Exact aggregates give what a loop over the values gives, however the rows are cut into parts."""

import math
import pickle
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import naive
from evenflow import operators as ops
from evenflow.model import InputError, discovery
from evenflow.operators import Aggregates, Groups, Rows, no_state, on_table, rows_by_key
from evenflow.operators.groups import pairs
from operator_parts import at_once, in_batches, in_merged_parts, values_by_key

BIG = 2**63 - 1
FLOATS = st.floats(-1e6, 1e6, width=32) | st.sampled_from([math.nan, -0.0, 0.0, math.inf])
MOMENTS = st.datetimes(datetime(1600, 1, 1), datetime(2400, 1, 1))

NUMBERS = {
    "int8": (pa.int8(), st.integers(-128, 127)),
    "int32": (pa.int32(), st.integers(-(2**31), 2**31 - 1)),
    "int64": (pa.int64(), st.integers(-(2**59), 2**59)),
    "float": (pa.float32(), FLOATS),
    "double": (pa.float64(), FLOATS),
    "decimal": (pa.decimal128(9, 2), st.decimals("-9999999.99", "9999999.99", places=2)),
    "wide decimal": (
        pa.decimal128(30, 6),
        st.integers(-(10**30) + 1, 10**30 - 1).map(
            lambda n: Decimal(n).scaleb(-6, naive.Context(prec=50))
        ),
    ),
}
OTHERS = {
    "boolean": (pa.bool_(), st.booleans()),
    "string": (pa.string(), st.text(max_size=3) | st.sampled_from(["é", "z", "😀", "\uffff", ""])),
    "large string": (pa.large_string(), st.text("ab", max_size=2)),
    "encoded string": (pa.dictionary(pa.int32(), pa.string()), st.text("ab", max_size=2)),
    "binary": (pa.binary(), st.binary(max_size=2)),
    "date": (pa.date32(), st.dates(date(1600, 1, 1), date(2400, 1, 1))),
    "timestamp": (pa.timestamp("us"), MOMENTS),
    "timestamp with zone": (
        pa.timestamp("us", "UTC"),
        MOMENTS.map(lambda t: t.replace(tzinfo=UTC)),
    ),
    "interval": (pa.duration("us"), st.timedeltas(timedelta(-999), timedelta(999))),
}
KINDS = NUMBERS | OTHERS
KEYS = st.sampled_from(["a", "ß", "😀", "", None])


def tables(kinds):
    """Tables of a key and a value column of one of these types, no row at all among them."""
    return st.sampled_from(sorted(kinds)).flatmap(
        lambda kind: st.lists(st.tuples(KEYS, st.none() | kinds[kind][1]), max_size=30).map(
            lambda rows: pa.table(
                {
                    "key": pa.array([key for key, _ in rows], pa.string()),
                    "value": pa.array([value for _, value in rows], kinds[kind][0]),
                }
            )
        )
    )


CUTS = st.lists(st.integers(0, 4), min_size=1, max_size=12)
ORDERS = st.lists(st.integers(0, 99), min_size=1, max_size=12)


def every_way(operator, table, cut, order):
    yield at_once(operator, table)
    if table.num_rows:
        yield in_batches(operator, table, cut)
        yield from in_merged_parts(operator, table, cut, order)


def same(a, b, tolerance=0.0):
    """Equal by Spark's rules; floats within a tolerance where one is given."""
    if isinstance(a, float) and isinstance(b, float):
        return (math.isnan(a) and math.isnan(b)) or math.isclose(a, b, abs_tol=tolerance, rel_tol=0)
    return a == b and type(a) is type(b)


@settings(max_examples=150)
@given(tables(KINDS), CUTS, ORDERS)
def test_count_min_max_distinct_and_top_k_are_those_of_a_loop_for_every_type(table, cut, order):
    operator = Aggregates(
        rows=ops.count(),
        values=ops.count("value"),
        least=ops.min("value"),
        most=ops.max("value"),
        kinds=ops.distinct("value"),
        top=ops.top_k("value", 2),
    )
    expected = values_by_key(table)
    for result in every_way(operator, table, cut, order):
        assert result.keys() == expected.keys()
        for key, row in result.items():
            values = expected[key]
            assert row["rows"] == len(values)
            assert row["values"] == naive.aggregate_count(values)
            assert same(row["least"], naive.aggregate_min(values))
            assert same(row["most"], naive.aggregate_max(values))
            assert row["kinds"] == naive.aggregate_distinct(values)
            top = naive.aggregate_top_k(values, 2)
            assert [item["count"] for item in row["top"]] == [count for _, count in top]
            assert all(same(i["item"], v) for i, (v, _) in zip(row["top"], top, strict=True))


@settings(max_examples=150)
@given(tables(NUMBERS), CUTS, ORDERS)
def test_sum_and_mean_are_those_of_a_loop_for_every_number(table, cut, order):
    operator = Aggregates(sum=ops.sum("value"), mean=ops.mean("value"))
    mean = operator.output_schema(table.schema).field("mean").type
    scale = mean.scale if pa.types.is_decimal(mean) else None
    expected = values_by_key(table)
    for result in every_way(operator, table, cut, order):
        assert result.keys() == expected.keys()
        for key, row in result.items():
            assert same(row["sum"], naive.aggregate_sum(expected[key]), 1e-6)
            average = naive.aggregate_mean(expected[key], scale)
            if pa.types.is_integer(table.schema.field("value").type) and average is not None:
                assert math.isclose(row["mean"], average, rel_tol=1e-12, abs_tol=1e3)
            else:
                assert same(row["mean"], average, 1e-6)


def test_minus_zero_is_zero_and_nan_is_one_value():
    other_nan = np.array([0x7FF8000000000123], np.uint64).view(np.float64)[0]
    table = pa.table({"key": ["k"] * 4, "value": [-0.0, 0.0, math.nan, other_nan]})
    operator = Aggregates(
        n=ops.distinct("value"), about=ops.distinct("value", approximate=True), low=ops.min("value")
    )
    (row,) = on_table(operator, table, "key").to_pylist()
    assert (row["n"], row["about"]) == (2, 2)
    assert math.copysign(1, row["low"]) == 1


@pytest.mark.parametrize("values", [[BIG, 1], [-BIG, -2], [BIG, BIG, BIG]])
def test_an_integer_sum_that_does_not_fit_is_an_error(values):
    table = pa.table({"key": ["k"] * len(values), "value": values})
    with pytest.raises(InputError, match=r"sum\('value'\).*does not fit in bigint.*decimal"):
        on_table(Aggregates(s=ops.sum("value")), table, "key")


def test_an_integer_sum_that_does_not_fit_is_an_error_when_parts_are_merged():
    table = pa.table({"key": ["k", "k"], "value": [BIG, 1]})
    with pytest.raises(InputError, match="does not fit in bigint"):
        in_merged_parts(Aggregates(s=ops.sum("value")), table, [0, 1], [0])


@given(st.lists(st.integers(-BIG - 1, BIG), min_size=1, max_size=8))
def test_an_integer_sum_is_exact_or_refused(values):
    table = pa.table({"key": ["k"] * len(values), "value": pa.array(values, pa.int64())})
    operator = Aggregates(s=ops.sum("value"))
    if -BIG - 1 <= sum(values) <= BIG:
        assert on_table(operator, table, "key").column("s").to_pylist() == [sum(values)]
    else:
        with pytest.raises(InputError, match="does not fit"):
            on_table(operator, table, "key")


def test_a_decimal_sum_that_does_not_fit_is_an_error():
    large = Decimal("9" * 38)
    for values in ([large, Decimal(1)], [large] * 40):
        table = pa.table(
            {"key": ["k"] * len(values), "value": pa.array(values, pa.decimal128(38, 0))}
        )
        for aggregate in (ops.sum("value"), ops.mean("value")):
            with pytest.raises(InputError, match="does not fit in decimal"):
                on_table(Aggregates(s=aggregate), table, "key")


def test_a_decimal_mean_that_does_not_fit_is_an_error():
    table = pa.table({"key": ["k"], "value": pa.array([Decimal("9" * 38)], pa.decimal128(38, 0))})
    with pytest.raises(InputError, match="mean of a key does not fit"):
        on_table(Aggregates(m=ops.mean("value")), table, "key")


@pytest.mark.parametrize(
    ("kind", "total", "mean"),
    [
        (pa.int16(), pa.int64(), pa.float64()),
        (pa.float32(), pa.float64(), pa.float64()),
        (pa.decimal128(10, 2), pa.decimal128(20, 2), pa.decimal128(14, 6)),
        (pa.decimal128(30, 2), pa.decimal128(38, 2), pa.decimal128(38, 6)),
        (pa.decimal128(38, 36), pa.decimal128(38, 36), pa.decimal128(38, 38)),
    ],
)
def test_results_have_sparks_types(kind, total, mean):
    rows = pa.schema([("value", kind)])
    assert ops.sum("value").output_schema(rows).field(0).type == total
    assert ops.mean("value").output_schema(rows).field(0).type == mean
    assert ops.min("value").output_schema(rows).field(0).type == kind
    assert ops.count("value").output_schema(rows).field(0).type == pa.int64()


def test_all_keys_distinct_and_one_key_only():
    n = 1000
    operator = Aggregates(n=ops.count(), s=ops.sum("value"), d=ops.distinct("value"))
    apart = pa.table({"key": np.arange(n), "value": np.arange(n)})
    assert on_table(operator, apart, "key").column("s").to_pylist() == list(range(n))
    together = pa.table({"key": np.zeros(n, np.int64), "value": np.arange(n)})
    assert on_table(operator, together, "key").to_pylist() == [
        {"key": 0, "n": n, "s": n * (n - 1) // 2, "d": n}
    ]


def test_several_key_columns():
    table = pa.table({"a": ["x", "x", None], "b": [1, 1, 2], "value": [1, 2, 3]})
    result = on_table(Aggregates(s=ops.sum("value")), table, ["a", "b"])
    assert result.to_pylist() == [{"a": "x", "b": 1, "s": 3}, {"a": None, "b": 2, "s": 3}]


@pytest.mark.parametrize("name", sorted(ops.known_aggregates()))
def test_every_aggregate_names_its_state_columns_and_can_be_pickled(name):
    tail = {
        **dict.fromkeys(["quantiles", "percentile_approx"], ":0.5,0.9"),
        **dict.fromkeys(["top_k", "approx_top_k"], ":3"),
        **dict.fromkeys(["min_by", "max_by"], ":value"),
    }.get(name, "")
    output, aggregate = ops.parse_aggregate(f"{name}:value{tail}")
    assert output == "_".join([name, *aggregate.columns()])
    assert set(aggregate.columns()) == {"value"}
    assert pickle.loads(pickle.dumps(aggregate)) == aggregate
    assert hash(pickle.loads(pickle.dumps(aggregate))) == hash(aggregate)
    boolean = name in ("count_if", "bool_and", "bool_or")
    rows = pa.schema([("value", pa.bool_() if boolean else pa.int32())])
    assert tuple(aggregate.state_schema(rows).names) == aggregate.state_columns
    assert len(aggregate.output_schema(rows)) == 1
    with pytest.raises(
        InputError, match=r"no column 'value'; did you mean 'valeu'\? columns: key, valeu"
    ):
        aggregate.state_schema(pa.schema([("key", pa.int32()), ("valeu", pa.int32())]))


@pytest.mark.parametrize("aggregate", [ops.sum("v"), ops.mean("v"), ops.quantiles("v", 0.5)])
@pytest.mark.parametrize("kind", [pa.string(), pa.bool_(), pa.date32(), pa.list_(pa.int64())])
def test_what_is_not_a_number_is_refused(aggregate, kind):
    with pytest.raises(InputError, match=r"column 'v' is .*, allowed are integers, float"):
        aggregate.output_schema(pa.schema([("v", kind)]))


@pytest.mark.parametrize(
    "aggregate",
    [
        ops.min("v"),
        ops.max("v"),
        ops.distinct("v"),
        ops.distinct("v", approximate=True),
        ops.top_k("v", 2),
        ops.top_k("v", 2, approximate=True),
    ],
)
def test_nested_values_are_refused(aggregate):
    with pytest.raises(InputError, match=r"column 'v' is list.*, allowed are numbers, booleans"):
        aggregate.state_schema(pa.schema([("v", pa.list_(pa.int64()))]))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ops.sum(""), "sum needs the name of a column, got ''"),
        (lambda: ops.quantiles("v", [0.5, 1.5]), "numbers of 0 … 1"),
        (lambda: ops.quantiles("v", []), "numbers of 0 … 1"),
        (lambda: ops.quantiles("v", 0.5, k=1), "k must be"),
        (lambda: ops.top_k("v", 0), "k must be a whole number of 1 or more, got 0"),
        (lambda: ops.top_k("v", 1000, approximate=True), "raise lg_size"),
        (lambda: ops.DistinctSketch("v", lg_k=3), "lg_k must be"),
        (lambda: ops.TopKSketch("v", 2, lg_size=30), "lg_size must be"),
        (lambda: Aggregates(), "no aggregate was given"),
        (lambda: Aggregates(hits="count"), "hits='count' is not an aggregate"),
        (
            lambda: ops.parse_aggregate("meen:ms"),
            "no aggregate is called 'meen'; did you mean 'mean'",
        ),
        (lambda: ops.parse_aggregate("mean"), "'mean' needs a column: write 'mean:COLUMN'"),
        (lambda: ops.parse_aggregate("mean:"), "expected NAME=mean:COLUMN"),
        (lambda: ops.parse_aggregate("=mean:ms"), "expected NAME=mean:COLUMN"),
        (lambda: ops.parse_aggregate("top_k:user"), "expected a column and a number"),
        (lambda: ops.parse_aggregate("quantiles:ms"), "as in 'quantiles:ms:0.5,0.99'"),
        (lambda: ops.parse_aggregate("quantiles:ms:high"), "as in 'quantiles:ms:0.5,0.99'"),
    ],
)
def test_mistakes_are_named(make, message):
    with pytest.raises(InputError, match=message):
        make()


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ("count", ("count", ops.count())),
        ("count:ms", ("count_ms", ops.count("ms"))),
        ("distinct:user", ("distinct_user", ops.distinct("user"))),
        ("quantiles:ms:0.5,0.99", ("quantiles_ms", ops.quantiles("ms", [0.5, 0.99]))),
        ("top_k:user:3", ("top_k_user", ops.top_k("user", 3))),
        ("best=approx_top_k:user:3", ("best", ops.top_k("user", 3, approximate=True))),
        ("max:a:b", ("max_a:b", ops.max("a:b"))),
    ],
)
def test_aggregates_as_the_command_line_writes_them(spec, expected):
    assert ops.parse_aggregate(spec) == expected


def test_a_file_adds_an_aggregate(tmp_path, monkeypatch):
    (tmp_path / "first_letters.py").write_text(
        "from dataclasses import dataclass\n"
        "from typing import ClassVar\n"
        "from evenflow.operators.aggregate import ColumnAggregate\n\n"
        "@dataclass(frozen=True)\n"
        "class FirstLetters(ColumnAggregate):\n"
        '    name: ClassVar[str] = "first_letters"\n'
    )
    monkeypatch.setattr(ops, "__path__", [*ops.__path__, str(tmp_path)])
    discovery._found.cache_clear()
    try:
        name, aggregate = ops.parse_aggregate("first_letters:word")
    finally:
        monkeypatch.undo()
        discovery._found.cache_clear()
    assert name == "first_letters_word"
    assert aggregate.columns() == ("word",)


def test_names_that_would_share_a_state_column_are_refused():
    class Odd(ops.Count):
        state_columns = ("b__count",)

        def state_schema(self, rows):
            return pa.schema([("b__count", pa.int64())])

    operator = Aggregates(a=Odd(), a__b=ops.count())
    with pytest.raises(InputError, match="'a__b__count'; rename one"):
        operator.state_schema(pa.schema([]))


def test_a_name_may_begin_with_another_name():
    table = pa.table({"key": ["k", "k"], "v": [1, 2]})
    operator = Aggregates(a=ops.count(), a__b=ops.sum("v"), a__count=ops.mean("v"))
    assert on_table(operator, table, "key").to_pylist() == [
        {"key": "k", "a": 2, "a__b": 3, "a__count": 1.5}
    ]


def test_state_columns_that_come_back_with_other_inner_names_are_still_merged():
    """Spark calls the items of a list `element`, Arrow calls them `item`."""
    table = pa.table({"key": ["k", "l"], "v": ["x", "y"]})
    operator = Aggregates(d=ops.distinct("v"), t=ops.top_k("v", 1))
    rows = rows_by_key(table, "key")
    schema = operator.state_schema(table.schema)
    renamed = pa.schema(
        [(f.name, pa.list_(pa.field("element", f.type.value_type))) for f in schema]
    )
    state = operator.update(rows, no_state(schema, 2)).cast(renamed)
    merged = operator.merge_groups(state, np.array([0, 0]), 1)
    assert operator.emit(rows.keys.slice(0, 1), merged).column("d").to_pylist() == [2]
    updated = operator.update(rows, state)
    assert operator.emit(rows.keys, updated).column("d").to_pylist() == [1, 1]


def test_an_aggregates_operator_is_a_value():
    a, b = Aggregates(n=ops.count(), m=ops.mean("x")), Aggregates(n=ops.count(), m=ops.mean("x"))
    assert a == b
    assert hash(a) == hash(b)
    assert a != Aggregates(m=ops.mean("x"), n=ops.count())
    assert a.signature() == b.signature() == pickle.loads(pickle.dumps(a)).signature()
    assert a.mergeable
    assert a.columns() == ["x"]


def test_an_operator_of_ones_own_is_merged_round_by_round():
    class Concatenated(ops.Operator):
        def merge(self, a, b):
            joined = zip(a["s"].to_pylist(), b["s"].to_pylist(), strict=True)
            return pa.table({"s": [x + y for x, y in joined]})

    states = pa.table({"s": ["a", "b", "c", "d", "e"]})
    merged = Concatenated().merge_groups(states, np.array([1, 0, 1, 1, 0]), 2)
    assert merged["s"].to_pylist() == ["be", "acd"]
    assert not ops.Operator().mergeable


@given(st.lists(st.integers(0, 6), max_size=40))
def test_groups_are_sorted_stably_and_reduced_group_by_group(group):
    groups = Groups(np.array(group, np.int64), 8)
    assert groups.order.tolist() == sorted(range(len(group)), key=lambda row: group[row])
    values = np.arange(len(group)) * 7 % 11
    expected = [
        max((v for g, v in zip(group, values, strict=True) if g == k), default=0) for k in range(8)
    ]
    assert groups.reduce(np.maximum, values).tolist() == expected
    assert groups.empty.tolist() == [k not in group for k in range(8)]


def test_groups_too_many_to_pack_with_the_row_are_sorted_all_the_same():
    groups = Groups(np.array([5, 2**61, 5, 0]), 2**61 + 1)
    assert groups.order.tolist() == [3, 0, 2, 1]
    assert pairs(2).group.tolist() == [0, 1, 0, 1]


def test_rows_of_a_worker_are_sorted_once():
    rows = Rows(pa.table({"v": [1, 2]}), np.array([1, 0]), pa.table({"key": ["a", "b"]}))
    assert rows.groups is rows.groups
    assert (len(rows), rows.n_keys) == (2, 2)


def test_aggregates_say_which_columns_they_compare():
    kept = [ops.count("v"), ops.first("v"), ops.last("v"), ops.collect_list("v")]
    assert [aggregate.compared() for aggregate in kept] == [()] * 4
    assert ops.max_by("v", "at").compared() == ("v", "at")
    assert ops.collect_set("v").compared() == ops.approx_count_distinct("v").compared() == ("v",)


def test_several_columns_are_refused_in_a_distinct_count():
    with pytest.raises(InputError, match="count_distinct takes one column, got 2"):
        ops.count_distinct("a", "b")
