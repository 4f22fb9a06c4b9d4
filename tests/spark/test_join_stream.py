"""Joins of a stream with a batch DataFrame: Spark's rows, and hot keys on several tasks."""

from collections import Counter
from contextlib import redirect_stdout
from dataclasses import replace
from io import StringIO
from itertools import count

import pytest

import evenflow as ef
from evenflow.model import InputError
from evenflow.spark.join import checked_join, with_past
from evenflow.spark.join_survey import survey_join
from evenflow.spark.salting import CELL

F = pytest.importorskip("pyspark.sql.functions")

pytestmark = pytest.mark.spark

HOT = "CASE WHEN id % 10 < 3 THEN -1 WHEN id % 10 = 3 THEN NULL ELSE id % 3000 END"
_names = (f"joined{n}" for n in count())


@pytest.fixture(autouse=True)
def no_broadcast(spark):
    """Small sides would otherwise be broadcast, and the join be Spark's own."""
    spark.conf.set("spark.sql.autoBroadcastJoinThreshold", "-1")
    yield
    spark.conf.unset("spark.sql.autoBroadcastJoinThreshold")


@pytest.fixture(scope="module")
def clicks(spark, tmp_path_factory):
    """The stream, in two micro-batches, and the same rows as a batch DataFrame."""
    path = str(tmp_path_factory.mktemp("clicks"))
    rows = spark.range(0, 12_000, 1, 2).selectExpr(f"CAST({HOT} AS BIGINT) k", "id x")
    rows.write.mode("overwrite").parquet(path)
    reader = spark.readStream.schema("k long, x long").option("maxFilesPerTrigger", 1)
    return reader.parquet(path), spark.read.parquet(path)


@pytest.fixture(scope="module")
def pages(spark):
    """Every key once, but the hot one twice and every third not at all."""
    keys = spark.range(0, 3000).where("id % 3 != 0")
    hot = spark.createDataFrame([(-1,), (-1,)], "id long")
    return keys.union(hot).selectExpr("id k", "id * 2 y")


def rows_of(df):
    """The rows of a DataFrame; of a stream, of all its micro-batches."""
    if df.isStreaming:
        name = next(_names)
        writer = df.writeStream.format("memory").queryName(name).trigger(availableNow=True)
        writer.start().awaitTermination()
        df = df.sparkSession.table(name)
    return Counter(df.collect())


def plan_of(df):
    with redirect_stdout(StringIO()) as printed:
        df.explain()
    return printed.getvalue()


@pytest.mark.parametrize("how", ["inner", "left", "semi", "anti"])
def test_a_stream_on_the_left_has_the_rows_and_columns_of_sparks_join(clicks, pages, how):
    stream, batch = clicks
    ours = ef.keyed(stream, "k").balance(partitions=5).join(pages, how=how, like=batch)
    assert CELL in plan_of(ours)
    theirs = batch.join(pages, "k", how)
    assert ours.dtypes == theirs.dtypes
    assert rows_of(ours) == rows_of(theirs)


@pytest.mark.parametrize("how", ["inner", "right"])
def test_a_stream_on_the_right_has_the_rows_and_columns_of_sparks_join(clicks, pages, how):
    stream, batch = clicks
    known = pages.withColumnRenamed("k", "page")
    ours = ef.keyed(known, "page").balance(partitions=5)
    ours = ours.join(ef.keyed(stream, "k"), how=how, like=batch.where("k is not null"))
    assert CELL in plan_of(ours)
    theirs = known.join(batch, known.page == batch.k, how)
    assert ours.columns == theirs.columns
    assert rows_of(ours) == rows_of(theirs)


@pytest.mark.parametrize("how", ["inner", "left"])
def test_the_fullest_task_of_a_stream_has_at_most_1_3_times_the_average(clicks, pages, how):
    stream, batch = clicks

    def fullest(joined):
        rows = rows_of(joined.select(F.spark_partition_id()))
        return max(rows.values()) * 8 / rows.total()

    ours = ef.keyed(stream, "k").balance(partitions=8).join(pages, how=how, like=batch)
    assert fullest(ours) <= 1.3


def test_a_row_of_an_outer_stream_is_not_lost_if_the_table_has_changed(spark, clicks):
    # Both sides of the key are hot, so that an inner join would copy rows of the stream.
    stream, batch = clicks
    many = spark.range(8000).selectExpr("-1L k", "id y")
    keyed = ef.keyed(stream, "k")
    for how in ("left", "inner"):
        join = checked_join(keyed, ef.keyed(many, "k"), how)
        join = with_past(join, keyed, ef.keyed(many, "k"), ef.keyed(batch, "k"))
        plan = survey_join(join.sides(), 6, 0)
        (grid,) = plan.grids.values()
        assert (grid.columns == 1) == (how == "left")
        now = replace(join, right=many.where("k = 0")).planned(plan, 0)
        assert rows_of(now) == rows_of(batch.join(many.where("k = 0"), "k", how))


def test_a_table_that_spark_broadcasts_is_left_to_spark(clicks, pages):
    joined = ef.keyed(clicks[0], "k").join(F.broadcast(pages), like=clicks[1])
    assert CELL not in plan_of(joined)
    assert "BroadcastHashJoin" in plan_of(joined)


def test_a_stream_of_which_nothing_is_known_is_joined_by_spark(clicks, pages):
    joined = ef.keyed(clicks[0], "k").join(pages, how="left")
    assert CELL not in plan_of(joined)
    assert "Join" in plan_of(joined)


def test_joins_of_streams_that_cannot_be_are_refused_with_what_to_do(spark, clicks, pages):
    stream, batch = (ef.keyed(df, "k") for df in clicks)
    known = ef.keyed(pages, "k")
    for refused, message in (
        (lambda: stream.join(stream), "with intervalJoin"),
        (lambda: stream.join(known, how="full"), "how takes inner, left, left_semi, left_anti"),
        (lambda: stream.join(known, how="right"), "join in foreachBatch"),
        (lambda: known.join(stream, how="left"), "how takes inner, right"),
        (lambda: known.join(stream, how="semi"), "how takes inner, right"),
        (lambda: batch.join(known, like=batch), "leave it out"),
        (lambda: stream.join(known, like=stream), "got a stream"),
        (lambda: stream.join(known, like=ef.keyed(clicks[1], "k", "x")), "like has 2 key columns"),
        (lambda: stream.join(known, like=clicks[1].selectExpr("int(k) k")), "k int in like"),
        (lambda: stream.join(known, like=pages.drop("k")), "there is no column 'k'"),
    ):
        with pytest.raises(InputError, match=message):
            refused()
