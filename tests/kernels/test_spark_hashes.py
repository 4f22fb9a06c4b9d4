"""murmur3, xxhash64 and spark_partition are Spark's: by live Spark, golden values and twins."""

import json
import random
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import naive
from evenflow.kernels.spark_hashes import murmur3, spark_partition, xxhash64
from evenflow.model import InputError
from spark_columns import ARROW, STRUCT, column, from_json, seeded_columns, values

GOLDEN = json.loads((Path(__file__).parents[1] / "golden" / "spark_hashes.json").read_text())
KINDS = [*ARROW, STRUCT]
TWIN_KINDS = [kind for kind in KINDS if kind not in ("timestamp_ntz", "null")]


@pytest.fixture(scope="module")
def golden_columns():
    return [
        column(case["kind"], [from_json(case["kind"], value) for value in case["values"]])
        for case in GOLDEN["columns"]
    ]


@pytest.mark.parametrize("number", range(len(GOLDEN["columns"])))
def test_column_hashes_equal_golden_spark(golden_columns, number):
    case = GOLDEN["columns"][number]
    assert murmur3(golden_columns[number]).tolist() == case["hash"]
    assert xxhash64(golden_columns[number]).tolist() == case["xxhash64"]


def test_row_hashes_equal_golden_spark(golden_columns):
    assert murmur3(golden_columns).tolist() == GOLDEN["rows"]["hash"]
    assert xxhash64(golden_columns).tolist() == GOLDEN["rows"]["xxhash64"]


def test_golden_columns_are_of_every_kind():
    assert [case["kind"] for case in GOLDEN["columns"]] == KINDS


@pytest.mark.spark
@pytest.mark.parametrize("seed", [11, 12])
def test_hashes_equal_live_spark(spark, seed):
    from pyspark.sql import functions as F

    columns = [column(kind, made) for kind, made in seeded_columns(rows=500, seed=seed)]
    names = [f"c{i}" for i in range(len(columns))]
    pairs = [(i, j) for i in range(len(names)) for j in (i * 5 % len(names), i * 7 % len(names))]
    frame = spark.createDataFrame(pa.table(columns, names))
    hashes = frame.select(
        *(F.hash(name) for name in names),
        *(F.xxhash64(name) for name in names),
        *(F.hash(names[i], names[j]) for i, j in pairs),
        *(F.xxhash64(names[i], names[j]) for i, j in pairs),
        F.hash(*names),
        F.xxhash64(*names),
    )
    # Named by position: Spark names two of these columns alike where i = j.
    expected = iter(hashes.toDF(*(f"h{i}" for i in range(len(hashes.columns)))).toArrow().columns)
    for hashing in (murmur3, xxhash64):
        for kind, one in zip(KINDS, columns, strict=True):
            assert hashing(one).tolist() == next(expected).to_pylist(), kind
    for hashing in (murmur3, xxhash64):
        for i, j in pairs:
            assert hashing([columns[i], columns[j]]).tolist() == next(expected).to_pylist()
    assert murmur3(columns).tolist() == next(expected).to_pylist()
    assert xxhash64(columns).tolist() == next(expected).to_pylist()


@pytest.mark.spark
@pytest.mark.parametrize("n", [1, 7, 200])
def test_partitions_equal_live_spark(spark, n):
    from pyspark.sql import functions as F

    rows = pa.table({"i": range(1000), "s": [f"key {i % 300}" for i in range(1000)]})
    frame = spark.createDataFrame(rows).repartition(n, "s", "i")
    placed = frame.select("i", F.spark_partition_id().alias("p")).toArrow().sort_by("i")
    assert spark_partition([rows["s"], rows["i"]], n).tolist() == placed["p"].to_pylist()


@pytest.mark.parametrize("kind", TWIN_KINDS, ids=str)
def test_hashes_equal_twins(kind):
    made = values(kind, 120, random.Random(5))
    before = values("long", 120, random.Random(6))
    columns = [column("long", before), column(kind, made)]
    stored = columns[1].to_pylist() if kind == "float" else made  # what is left of a float64
    rows = list(zip(before, stored, strict=True))
    assert murmur3(columns).view(np.uint32).tolist() == [
        naive.spark_hash(naive.murmur3, ["long", kind], row) for row in rows
    ]
    assert xxhash64(columns).view(np.uint64).tolist() == [
        naive.spark_hash(naive.xxh64, ["long", kind], row) for row in rows
    ]


@settings(max_examples=60)
@given(st.lists(st.none() | st.binary(max_size=80)), st.integers(-(2**31), 2**31 - 1))
def test_hashes_of_bytes_equal_twins_for_every_seed(made, seed):
    array = pa.array(made, pa.binary())
    rows = [(value,) for value in made]
    expected = [naive.spark_hash(naive.murmur3, ["binary"], row, seed % 2**32) for row in rows]
    assert murmur3(array, seed).view(np.uint32).tolist() == expected
    expected = [naive.spark_hash(naive.xxh64, ["binary"], row, seed % 2**64) for row in rows]
    assert xxhash64(array, seed).view(np.uint64).tolist() == expected


@pytest.mark.parametrize(
    ("data", "seed", "expected"),
    [
        (b"", 0, 0),
        (b"", 1, 0x514E28B7),
        (b"test", 0, 0xBA6BD213),
        (b"Hello, world!", 1234, 0xFAF6CDB3),
        (b"The quick brown fox jumps over the lazy dog", 0x9747B28C, 0x2FA826CD),
    ],
)
def test_murmur3_twin_with_the_published_tail_equals_published_values(data, seed, expected):
    assert naive.murmur3(data, seed, sparks_tail=False) == expected


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_slices_and_chunks_hash_like_the_whole(kind):
    whole = column(kind, values(kind, 60, random.Random(7), nulls=0.3))
    hashes = murmur3(whole)
    for start in (1, 7, 8, 13):
        assert murmur3(whole.slice(start, 29)).tolist() == hashes[start : start + 29].tolist()
    chunks = pa.chunked_array([whole[:5], whole[5:5], whole[5:30], whole[30:]], whole.type)
    assert murmur3(chunks).tolist() == hashes.tolist()
    assert xxhash64([chunks]).tolist() == xxhash64(whole).tolist()


@pytest.mark.parametrize(
    ("stored", "in_spark"),
    [
        (pa.large_string(), pa.string()),
        (pa.string_view(), pa.string()),
        (pa.dictionary(pa.int8(), pa.string()), pa.string()),
    ],
    ids=str,
)
def test_every_layout_of_strings_hashes_alike(stored, in_spark):
    made = ["", "a", None, "longer than a view can hold itself", "ünïcödé"]
    assert murmur3(pa.array(made, stored)).tolist() == murmur3(pa.array(made, in_spark)).tolist()


def test_every_width_of_decimals_hashes_alike():
    made = ["0.00", "-1.28", "9999999.99", None]
    decimals = pa.array(made).cast(pa.decimal128(9, 2))
    for type_ in (pa.decimal32(9, 2), pa.decimal64(9, 2), pa.decimal256(9, 2)):
        assert murmur3(decimals.cast(type_)).tolist() == murmur3(decimals).tolist()
    wide = decimals.cast(pa.decimal128(30, 2))
    assert murmur3(wide.cast(pa.decimal256(30, 2))).tolist() == murmur3(wide).tolist()


def test_units_are_converted_to_sparks():
    micros = pa.array([-1, 0, 1_000_000, None], pa.timestamp("us"))
    nanos = pa.array([-999, 999, 1_000_000_001, None], pa.timestamp("ns"))
    assert xxhash64(nanos).tolist() == xxhash64(micros).tolist()
    seconds = pa.array([-1, 5, None], pa.timestamp("s", "Europe/Rome"))
    assert xxhash64(seconds).tolist() == xxhash64(seconds.cast(pa.timestamp("us"))).tolist()
    time = pa.array([0, 86_399_999_999, None], pa.time64("us"))
    assert xxhash64(time).tolist() == xxhash64(time.cast(pa.time64("ns"))).tolist()
    days = pa.array([-1, 0, 20_000, None], pa.date32())
    assert murmur3(days.cast(pa.date64())).tolist() == murmur3(days).tolist()


@settings(max_examples=30)
@given(st.lists(st.none() | st.text()), st.integers(1, 2**31 - 1))
def test_partitions_are_below_n(made, n):
    partitions = spark_partition(pa.array(made, pa.string()), n)
    assert partitions.dtype == np.int32
    assert all(0 <= partition < n for partition in partitions.tolist())


def test_tables_and_empty_columns():
    table = pa.table({"a": [1, 2], "b": ["x", None]})
    assert murmur3(table).tolist() == murmur3([table["a"], table["b"]]).tolist()
    assert murmur3(table.to_batches()[0]).tolist() == murmur3(table).tolist()
    assert murmur3(table[:0]).tolist() == []
    assert xxhash64(pa.chunked_array([], pa.string())).tolist() == []


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (pa.array([[1]]), r"no Spark hash .* type list<.*cast"),
        (pa.array([1], pa.uint64()), "no Spark hash .* type uint64"),
        (pa.array([{"a": [1]}]), "no Spark hash .* type list<"),
        (pa.array([None], pa.decimal256(50, 2)), "38 digits"),
        (pa.array([2**62], pa.timestamp("s")), "range of Spark's microseconds"),
        ([], "at least one column"),
        (pa.table({}), "at least one column"),
        ([pa.array([1]), pa.array([1, 2])], r"one length, got lengths \[1, 2\]"),
        ([1, 2], r"list of these columns, got \[1, 2\]"),
        ("page", "got 'page'"),
    ],
)
def test_bad_columns_are_refused(columns, message):
    with pytest.raises(InputError, match=message):
        murmur3(columns)


@pytest.mark.parametrize("n", [0, -1, 1.5, True, 2**31])
def test_bad_numbers_of_partitions_are_refused(n):
    with pytest.raises(InputError, match=f"got {n} partitions"):
        spark_partition(pa.array([1]), n)
