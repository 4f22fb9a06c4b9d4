"""Approximate aggregates keep within their error, and are exact where they promise to be."""

import math
import sys

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings

import naive
from evenflow import operators as ops
from evenflow.model import InputError
from evenflow.operators import Aggregates, on_table
from operator_parts import in_merged_parts, values_by_key
from operators.test_aggregates import CUTS, KINDS, NUMBERS, ORDERS, every_way, same, tables

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
