"""Approximate aggregates keep within their error, and are exact where they promise to be."""

import math
import sys

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import naive
from evenflow import operators as ops
from evenflow.model import InputError
from evenflow.operators import Aggregates, no_state, on_table
from evenflow.operators.kll_sketch import kll_of, merge_kll
from evenflow.operators.local import rows_by_key
from operator_parts import in_merged_parts, values_by_key
from operators.test_aggregates import CUTS, KINDS, NUMBERS, ORDERS, every_way, same, tables

datasketches = pytest.importorskip("datasketches")

WANTED = [0.0, 0.25, 0.5, 0.99, 1.0]


@settings(max_examples=120)
@given(tables(KINDS), CUTS, ORDERS)
def test_sketches_of_few_values_are_exact_for_every_type(table, cut, order):
    operator = Aggregates(
        kinds=ops.distinct("value", approximate=True), top=ops.top_k("value", 2, approximate=True)
    )
    expected = values_by_key(table)
    for result in every_way(operator, table, cut, order):
        assert result.keys() == expected.keys()
        for key, row in result.items():
            assert row["kinds"] == naive.aggregate_distinct(expected[key])
            top = naive.aggregate_top_k(expected[key], 2)
            assert [item["count"] for item in row["top"]] == [count for _, count in top]
            assert all(same(i["item"], v) for i, (v, _) in zip(row["top"], top, strict=True))


@settings(max_examples=120)
@given(tables(NUMBERS), CUTS, ORDERS)
def test_quantiles_of_few_values_are_exact_and_nan_is_the_largest(table, cut, order):
    operator = Aggregates(several=ops.quantiles("value", WANTED), one=ops.quantiles("value", 0.5))
    expected = values_by_key(table)
    for result in every_way(operator, table, cut, order):
        assert result.keys() == expected.keys()
        for key, row in result.items():
            quantiles = [naive.aggregate_quantile(expected[key], p) for p in WANTED]
            if quantiles[0] is None:
                assert row == {"several": None, "one": None}
                continue
            assert all(same(a, b) for a, b in zip(row["several"], quantiles, strict=True))
            assert same(row["one"], quantiles[2])


def skewed(n):
    """Two keys, with values that come as n/1, n/2, n/3, … times."""
    generator = np.random.default_rng(3)
    values = generator.zipf(1.3, n) % 50_000
    return pa.table({"key": pa.array(generator.integers(0, 2, n).astype(str)), "value": values})


PARTS = [0, 1, 2, 3, 1, 0, 0]


def merged(operator, table):
    """Key → output of four parts, merged at once and round by round."""
    return in_merged_parts(operator, table, PARTS, [3, 1, 2])


def test_an_approximate_distinct_count_is_within_four_standard_errors():
    table = pa.table({"key": ["k"] * 60_000, "value": np.arange(60_000) % 50_000})
    for result in merged(Aggregates(n=ops.distinct("value", approximate=True)), table):
        assert abs(result["k"]["n"] / 50_000 - 1) < 4 * 1.04 / math.sqrt(2**12)
    for result in merged(Aggregates(n=ops.DistinctSketch("value", lg_k=16)), table):
        assert abs(result["k"]["n"] / 50_000 - 1) < 4 * 1.04 / math.sqrt(2**16)


def test_an_approximate_distinct_state_is_bounded():
    table = pa.table({"key": ["k"] * 50_000, "value": np.arange(50_000)})
    aggregate = ops.distinct("value", approximate=True)
    rows = ops.rows_by_key(table, "key")
    assert len(aggregate.partial(table, rows.groups).column("sketch")[0].as_py()) <= 2**12 + 40


def test_the_rank_of_a_quantile_is_within_the_error():
    # 1.33 % holds with 99 % confidence; three times as much leaves no chance to fail by bad luck.
    table = pa.table({"key": ["k"] * 50_000, "value": np.random.default_rng(1).random(50_000)})
    ordered = np.sort(table.column("value").to_numpy())
    for result in merged(Aggregates(q=ops.quantiles("value", WANTED)), table):
        ranks = np.searchsorted(ordered, result["k"]["q"]) / len(ordered)
        assert np.abs(ranks - WANTED).max() < 3 * 0.0133


@pytest.mark.parametrize("n", [200, 201, 1000])
def test_quantiles_are_exact_up_to_k_values(n):
    table = pa.table({"key": ["k"] * n, "value": np.random.default_rng(n).permutation(n)})
    (row,) = on_table(Aggregates(q=ops.quantiles("value", WANTED)), table, "key").to_pylist()
    exact = [max(1, math.ceil(p * n)) - 1 for p in WANTED]
    if n <= 200:
        assert row["q"] == exact
    else:
        assert np.abs(np.array(row["q"]) - exact).max() <= 3 * 0.0133 * n


def test_a_frequent_items_count_is_never_too_small_nor_too_large_by_more_than_the_error():
    table = skewed(40_000)
    error = 3.5 / 2**7
    exact = values_by_key(table)
    for result in merged(Aggregates(top=ops.TopKSketch("value", 8, lg_size=7)), table):
        for key, row in result.items():
            n = len(exact[key])
            every = dict(naive.aggregate_top_k(exact[key], n))
            counts = [item["count"] for item in row["top"]]
            assert counts == sorted(counts, reverse=True)
            for item in row["top"]:
                assert 0 <= item["count"] - every[item["item"]] <= error * n
            eighth = naive.aggregate_top_k(exact[key], 8)[-1][1]
            certain = {value for value, count in every.items() if count > eighth + error * n}
            assert certain
            assert certain <= {item["item"] for item in row["top"]}


def test_without_the_library_the_error_says_how_to_get_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "datasketches", None)
    table = pa.table({"key": ["k"], "value": [1]})
    with pytest.raises(InputError, match=r"pip install 'evenflow\[spark\]'"):
        on_table(Aggregates(n=ops.distinct("value", approximate=True)), table, "key")


@pytest.mark.parametrize("n", [1, 2, 200, 201, 5_000, 200_000])
def test_quantile_sketches_of_the_same_rows_are_the_same(n):
    """In any order, and however often: the library's own coin is tossed anew in every process."""
    values = np.random.default_rng(n).normal(size=n)
    operator = Aggregates(q=ops.quantiles("value", WANTED))
    seen = set()
    for seed in range(3):
        rows = pa.table({"key": [1] * n, "value": np.random.default_rng(seed).permutation(values)})
        local = rows_by_key(rows, "key")
        state = no_state(operator.state_schema(rows.schema), 1)
        state = operator.update(local, state)
        seen.add(state.column("q__sketch")[0].as_py())
    assert len(seen) == 1


def test_merged_quantile_sketches_are_the_same_in_any_order():
    values = np.random.default_rng(1).normal(size=30_000)
    parts = [kll_of(part, 200) for part in np.array_split(values, 7)]
    merged_once = {merge_kll(parts), merge_kll(parts[::-1]), merge_kll(parts[3:] + parts[:3])}
    assert len(merged_once) == 1
    sketch = datasketches.kll_doubles_sketch.deserialize(merged_once.pop())
    assert sketch.n == len(values)
    assert sketch.get_min_value() == values.min()
    assert sketch.get_max_value() == values.max()


@given(
    st.lists(st.integers(0, 3000), min_size=1, max_size=6),
    st.sampled_from([8, 9, 64, 200]),
    st.integers(0, 99),
)
def test_quantile_sketches_are_read_by_the_library_within_the_error(sizes, k, seed):
    rng = np.random.default_rng(seed)
    parts = [rng.integers(0, 10_000, size).astype(float) for size in sizes if size]
    if not parts:
        return
    values = np.sort(np.concatenate(parts))
    sketch = datasketches.kll_doubles_sketch.deserialize(merge_kll([kll_of(p, k) for p in parts]))
    assert sketch.n == len(values)
    # Four times the error of 99 % of all sketches, which none of these seeded ones may exceed.
    bound = 4 * sketch.normalized_rank_error(False) + 1 / len(values)
    for p in (0.1, 0.5, 0.9):
        found = sketch.get_quantile(p, True)
        low, high = np.searchsorted(values, found, "left"), np.searchsorted(values, found, "right")
        assert low / len(values) - bound <= p <= high / len(values) + bound
