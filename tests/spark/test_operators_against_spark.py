"""The types and the results of aggregates are Spark's own, and Spark reads the sketches."""

import math
from datetime import UTC, date, datetime
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

import naive
from evenflow import operators as ops
from evenflow.operators import Aggregates, no_state, on_table, rows_by_key
from operator_parts import by_key
from operators.test_aggregates import same

pytestmark = pytest.mark.spark

ZONE = pa.timestamp("us", "UTC")
COLUMNS = {
    "tiny": pa.array([1, -128, None, 127, 127, 3, 3], pa.int8()),
    "whole": pa.array([2**40, -5, None, 7, 7, 0, 2**52], pa.int64()),
    "real": pa.array([0.25, math.nan, None, -0.0, 0.0, -math.inf, 2.5], pa.float64()),
    "short": pa.array([0.5, 1.5, None, math.nan, 3.0, -2.0, 0.0], pa.float32()),
    "price": pa.array(
        [Decimal("0.01"), Decimal("1.99"), None, *map(Decimal, "1204")], pa.decimal128(9, 2)
    ),
    "wide": pa.array(
        [Decimal(10**25), Decimal(2), None, *map(Decimal, "7130")], pa.decimal128(38, 3)
    ),
    "word": pa.array(["é", "z", None, "", "😀", "\uffff", "a"], pa.string()),
    "raw": pa.array([b"\xff", b"\x01", None, b"", b"\x7f", b"a", b"aa"], pa.binary()),
    "flag": pa.array([True, False, None, True, True, False, None], pa.bool_()),
    "day": pa.array(
        [date(1, 1, 1), date(2024, 2, 29), None, *[date(1969, 12, 31)] * 4], pa.date32()
    ),
    "moment": pa.array([datetime(1950 + 10 * i, 1, 1, tzinfo=UTC) for i in range(7)], ZONE),
}
NUMBERS = ["tiny", "whole", "real", "short", "price", "wide"]
ROWS = pa.table({"key": ["a", "a", "a", "b", "b", "b", None], **COLUMNS})


@pytest.fixture(scope="module")
def frame(spark):
    return spark.createDataFrame(ROWS)


@pytest.mark.parametrize("column", COLUMNS)
def test_results_and_types_are_sparks(frame, column):
    from pyspark.sql import functions as F

    aggregates = {
        "count": (ops.count(column), F.count(column)),
        "min": (ops.min(column), F.min(column)),
        "max": (ops.max(column), F.max(column)),
        "distinct": (ops.distinct(column), F.count_distinct(column)),
    }
    if column in NUMBERS:
        aggregates["sum"] = (ops.sum(column), F.sum(column))
        aggregates["mean"] = (ops.mean(column), F.avg(column))
        aggregates["half"] = (ops.quantiles(column, 0.5), F.percentile_approx(column, 0.5, 10**6))
    ours = on_table(Aggregates(**{n: a for n, (a, _) in aggregates.items()}), ROWS, "key")
    theirs = frame.groupBy("key").agg(*[f.alias(n) for n, (_, f) in aggregates.items()]).toArrow()
    expected = by_key(theirs.select(["key"]), theirs)
    for key, row in by_key(ours.select(["key"]), ours).items():
        for name in aggregates:
            value = expected[key][name]
            value = float(value) if name == "half" and value is not None else value
            assert same(row[name], value, 1e-12), (key, name)
    for name in set(aggregates) - {"half"}:
        kind, spark_kind = ours.schema.field(name).type, theirs.schema.field(name).type
        if (column, name) == ("wide", "mean"):
            assert (kind.precision, kind.scale) == (38, 7)
        assert kind == spark_kind, name


# Rows with an order in which nothing ties, so that Spark's answers are determined.
ORDERED = ROWS.append_column("serial", pa.array([3, 1, 2, 0, 6, 5, 4]))


def types_of(field):
    kind = field.dataType
    return field.name, kind.simpleString(), getattr(kind, "containsNull", None)


@pytest.mark.parametrize("column", COLUMNS)
def test_the_aggregates_of_pyspark_have_its_results_and_types(spark, column):
    from pyspark.sql import functions as F

    import evenflow as ef

    frame = spark.createDataFrame(ORDERED).coalesce(1)
    calls = {
        "collect_list": (column,),
        "collect_set": (column,),
        "count_distinct": (column,),
        "countDistinct": (column,),
        "approx_count_distinct": (column,),
        "first": (column,),
        "last": (column, True),
        "min_by": (column, "serial"),
        "max_by": (column, "serial"),
        "mode": (column, True),
    }
    # With NaN, Spark's percentiles depend on the order of the rows: of NaN and 0.25 it finds NaN alone.
    if column not in ("word", "raw", "flag", "real", "short"):
        calls["percentile_approx"] = (column, 0.5)
        calls["approx_percentile"] = (column, [0.25, 1.0], 100)
    if column == "real" and spark.version < "4.2":
        del calls["mode"]  # Spark 4.1 counts 0.0 and −0.0 there as two values; 4.2 and we as one
    if column in NUMBERS:
        for name in (
            "variance",
            "var_samp",
            "var_pop",
            "stddev",
            "stddev_samp",
            "stddev_pop",
            "std",
        ):
            calls[name] = (column,)
    if column == "flag":
        for name in ("count_if", "bool_and", "bool_or", "every", "some"):
            calls[name] = (column,)
    mine = {name: getattr(ef, name)(*arguments) for name, arguments in calls.items()}
    theirs = [getattr(F, name)(*arguments).alias(name) for name, arguments in calls.items()]
    ours = ef.keyed(frame, "key").balance("key", partitions=2).agg(**mine)
    expected = frame.groupBy("key").agg(*theirs)
    assert [types_of(field) for field in ours.schema] == [types_of(f) for f in expected.schema]
    table, truth = ours.toArrow(), expected.toArrow()
    truth = by_key(truth.select(["key"]), truth)
    for key, row in by_key(table.select(["key"]), table).items():
        for name in calls:
            value = truth[key][name]
            if name == "collect_set":
                value = sorted(value, key=naive.spark_order)
            if isinstance(value, list):
                assert len(row[name]) == len(value), (key, name)
                assert all(same(a, b) for a, b in zip(row[name], value, strict=True)), (key, name)
            else:
                near = 1e-9 * abs(value) if isinstance(value, float) else 0.0
                assert same(row[name], value, near), (key, name)


def test_structs_lists_and_maps_are_kept_as_they_are(spark):
    from pyspark.sql import functions as F

    import evenflow as ef

    frame = spark.createDataFrame(ORDERED.select(["key", "serial", "word", "day"])).coalesce(1)
    values = {
        "struct": F.struct("word", "day"),
        "list": F.array("word"),
        "map": F.create_map("serial", "word"),
    }
    functions = {"max_by": ("serial",), "min_by": ("serial",), "first": (), "collect_list": ()}
    calls = {
        f"{name} of {kind}": (name, value, *more)
        for name, more in functions.items()
        for kind, value in values.items()
    }
    mine = {name: getattr(ef, call[0])(*call[1:]) for name, call in calls.items()}
    theirs = [getattr(F, call[0])(*call[1:]).alias(name) for name, call in calls.items()]
    expected = sorted(map(str, frame.groupBy("key").agg(*theirs).collect()))
    for scheme in ("key", "w-choices"):
        ours = ef.keyed(frame, "key").balance(scheme, partitions=2).agg(**mine)
        if scheme == "w-choices":  # three rows of a key, which may arrive in any order
            ours = ours.drop(*(name for name in calls if name.startswith(("first", "collect"))))
            kept = [column for column in theirs if "by" in str(column)]
            expected = sorted(map(str, frame.groupBy("key").agg(*kept).collect()))
        assert sorted(map(str, ours.collect())) == expected


def test_an_approximate_distinct_count_is_as_near_as_sparks(spark):
    from pyspark.sql import functions as F

    n = 30_000
    table = pa.table(
        {"key": np.arange(n) % 3, "number": np.arange(n), "word": np.arange(n).astype(str)}
    )
    for rsd in (0.05, 0.02):
        wanted = {name: ops.approx_count_distinct(name, rsd) for name in ("number", "word")}
        ours = on_table(Aggregates(**wanted), table, "key").to_pylist()
        theirs = spark.createDataFrame(table).groupBy("key")
        truth = theirs.agg(*[F.approx_count_distinct(name, rsd).alias(name) for name in wanted])
        for row in [*ours, *(row.asDict() for row in truth.collect())]:
            for name in wanted:
                assert abs(row[name] / (n / 3) - 1) < 3 * rsd


def test_spark_estimates_and_unites_the_distinct_sketches(spark):
    from pyspark.sql import functions as F

    values = np.arange(20_000)
    table = pa.table({"key": ["k"] * len(values), "number": values, "word": values.astype(str)})
    operator = Aggregates(
        number=ops.distinct("number", approximate=True), word=ops.distinct("word", approximate=True)
    )
    rows = rows_by_key(table, "key")
    state = operator.update(rows, no_state(operator.state_schema(table.schema), 1))
    ours = operator.emit(rows.keys, state).to_pylist()[0]
    own = spark.createDataFrame(table).agg(
        F.hll_sketch_agg("number").alias("own_number"), F.hll_sketch_agg("word").alias("own_word")
    )
    read = own.crossJoin(spark.createDataFrame(state)).select(
        F.hll_sketch_estimate("number__sketch").alias("number"),
        F.hll_sketch_estimate("word__sketch").alias("word"),
        F.hll_sketch_estimate(F.hll_union("number__sketch", "own_number")).alias("both_numbers"),
        F.hll_sketch_estimate(F.hll_union("word__sketch", "own_word")).alias("both_words"),
    )
    row = read.first().asDict()
    assert (row["number"], row["word"]) == (ours["number"], ours["word"])
    # The same values in both sketches: their union is no larger than either.
    assert abs(row["both_numbers"] / 20_000 - 1) < 0.065
    assert abs(row["both_words"] / 20_000 - 1) < 0.065
