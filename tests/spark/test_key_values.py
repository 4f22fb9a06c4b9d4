"""Keys of odd values: the groups, and the keys put out, are those of Spark's `groupBy`."""

from __future__ import annotations

import struct

import pytest

import evenflow as ef

F = pytest.importorskip("pyspark.sql.functions")

pytestmark = pytest.mark.spark

SCHEMES = ["key", "d-choices", "auto"]


def bits(value):
    """A value by its bits: −0.0 is not 0.0 here."""
    if isinstance(value, float):
        return struct.pack(">d", value)
    return tuple(map(bits, value)) if isinstance(value, tuple) else value


def rows_of(df):
    return sorted((bits(tuple(row)) for row in df.collect()), key=str)


@pytest.fixture(scope="module")
def floats(spark):
    """NaN with different bits, and both zeros, as Spark itself makes them."""
    x = F.element_at(
        F.array(
            F.sqrt(
                -F.col("id") - 1.0
            ),  # by the processor: its NaN has the sign that Java's has not
            F.lit("NaN").cast("double"),
            F.col("id") * -0.0,
            F.lit(0.0),
            F.lit(None).cast("double"),
        ),
        (F.col("id") % 5 + 1).cast("int"),
    )
    return spark.range(0, 40, numPartitions=3).select(
        x.alias("x"),
        x.cast("float").alias("f"),
        F.struct(x.alias("x")).alias("s"),
        F.lit(1).alias("k"),
    )


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("key", ["x", "f", "s"])
def test_nan_and_zero_are_one_key_each_as_in_spark(floats, scheme, key):
    ours = ef.keyed(floats, key).balance(scheme, partitions=3).agg(n=ef.count())
    assert rows_of(ours) == rows_of(floats.groupBy(key).count())


def test_nan_and_zero_are_one_distinct_value_each_as_in_spark(floats):
    ours = ef.keyed(floats, "k").balance("d-choices", partitions=3)
    ours = ours.agg(a=ef.distinct("x"), b=ef.distinct("f"))
    assert rows_of(ours) == rows_of(
        floats.groupBy("k").agg(F.count_distinct("x"), F.count_distinct("f"))
    )


@pytest.mark.parametrize("collation", ["UTF8_LCASE", "UTF8_BINARY_RTRIM", "UNICODE_CI"])
def test_collated_strings_are_refused_with_what_to_write(spark, collation):
    df = spark.createDataFrame([("a", 1), ("A", 1)], "w string, k int")
    df = df.withColumn("w", F.collate("w", collation)).withColumn("s", F.struct("w"))
    for attempt in (
        lambda: ef.keyed(df, "w"),
        lambda: ef.keyed(df, "s"),
        lambda: ef.keyed(df, F.upper("w")),
        lambda: ef.keyed(df, "k").agg(n=ef.distinct("w")),
        lambda: ef.keyed(df, "k").agg(n=ef.max(F.concat("w", "w"))),
        lambda: ef.keyed(df, "k").agg(n=ef.top_k("w", 2)),
    ):
        with pytest.raises(ef.InputError, match=f"collation {collation}.*F.collate"):
            attempt()
    plain = F.collate("w", "UTF8_BINARY").alias("plain")
    assert ef.keyed(df, plain).agg(n=ef.count("w")).count() == 2


def test_a_stream_may_have_keys_that_python_has_no_value_for(spark, tmp_path):
    """Dates outside the years 1 to 9999, and strings that are not UTF-8."""
    df = spark.range(0, 20).select(
        F.when(F.col("id") % 2 == 0, F.unhex(F.lit("636166E9")).cast("string")).alias("text"),
        F.date_from_unix_date(F.lit(4_000_000)).alias("day"),
    )
    df.write.parquet(str(tmp_path / "in"))
    stream = spark.readStream.schema(df.schema).parquet(str(tmp_path / "in"))
    query = (
        ef.keyed(stream, "text", "day")
        .balance("d-choices", partitions=2)
        .agg(n=ef.count())
        .writeStream.option("checkpointLocation", tmp_path / "c")
        .trigger(availableNow=True)
        .start(tmp_path / "out")
    )
    query.awaitTermination()
    found = spark.read.parquet(str(tmp_path / "out"))
    found = found.select(F.hex("text"), F.unix_date("day"), "n")
    theirs = df.groupBy("text", "day").count().select(F.hex("text"), F.unix_date("day"), "count")
    assert rows_of(found) == rows_of(theirs)
    assert query.metrics()[-1]["rows"] == 20


def test_the_window_of_the_first_moment_is_an_error_as_in_spark(spark):
    df = spark.range(1).select(F.timestamp_micros(F.lit(-(2**63))).alias("ts"), "id")
    with pytest.raises(Exception, match="overflow"):
        df.groupBy(F.window("ts", "1 second")).count().collect()
    with pytest.raises(Exception, match="outside the range of timestamps"):
        ef.keyed(df, "id").window("ts", "1 second").agg(n=ef.count()).collect()
