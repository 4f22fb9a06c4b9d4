"""Names that users give: columns, queries and checkpoints may have any characters."""

from __future__ import annotations

import os
from datetime import datetime

import pytest

import evenflow as ef
from evenflow.spark.query import reason_of

pytestmark = pytest.mark.spark

ODD = ["a.b", "a`b", "*", "${env:PATH}", "k0", "`", "a b.*"]


def rows_of(df):
    return sorted((tuple(row) for row in df.collect()), key=str)


@pytest.fixture(scope="module")
def numbers(spark):
    return spark.createDataFrame([(1, 2), (1, 3), (2, 5)], "k int, v int")


@pytest.mark.parametrize("scheme", ["key", "d-choices", "auto"])
def test_columns_may_have_any_name(numbers, scheme):
    key, value, result = ODD[0], ODD[1], ODD[2]
    for key, value, result in [ODD[:3], ODD[3:6], ODD[4:]]:
        df = numbers.toDF(key, value)
        ours = ef.keyed(df, key).balance(scheme, partitions=2).agg(**{result: ef.sum(value)})
        assert ours.columns == [key, result]
        assert rows_of(ours) == rows_of(numbers.groupBy("k").sum("v"))


def test_a_stream_may_have_columns_of_any_name(spark, numbers, tmp_path):
    names = ["a.b", "*"]
    numbers.toDF(*names).write.parquet(str(tmp_path / "in"))
    stream = spark.readStream.schema(numbers.toDF(*names).schema).parquet(str(tmp_path / "in"))
    result = ef.keyed(stream, "a.b").balance("d-choices", partitions=2).agg(**{"`": ef.sum("*")})
    query = (
        result.writeStream.queryName("odd_names")
        .format("memory")
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    found = spark.table("odd_names")
    assert found.columns == ["a.b", "`"]
    assert rows_of(found) == rows_of(numbers.groupBy("k").sum("v"))


@pytest.mark.parametrize(
    "name", ["__fingerprint", "__evenflow_partition", "__EVENFLOW_right", "__evenflow_right"]
)
def test_names_of_our_own_columns_are_refused_up_front(numbers, name):
    with pytest.raises(ef.InputError, match=r"withColumnRenamed"):
        ef.keyed(numbers.toDF(name, "v"), name).agg(n=ef.count())
    with pytest.raises(ef.InputError, match=r"withColumnRenamed"):
        ef.keyed(numbers.toDF("k", name), "k").agg(n=ef.sum(name))


@pytest.mark.parametrize("names", [("__evenflow_right", "t"), ("k", "t", "__evenflow_right")])
def test_names_of_our_own_columns_are_refused_in_joins(spark, names):
    moment = datetime(2024, 1, 1)
    left = spark.createDataFrame([(1, moment, 2)[: len(names)]], list(names))
    right = spark.createDataFrame([(1, moment)], ["k", "t"])
    with pytest.raises(ef.InputError, match="withColumnRenamed"):
        ef.keyed(left, names[0]).intervalJoin(
            ef.keyed(right, "k"), time="t", within="1 second", prefixes=("", "r_")
        )


def test_output_columns_that_differ_by_case_alone_are_refused(numbers):
    with pytest.raises(ef.InputError, match=r"'k' and 'K'.*case"):
        ef.keyed(numbers, "k").agg(K=ef.count())
    with pytest.raises(ef.InputError, match=r"'n' and 'N'.*case"):
        ef.keyed(numbers, "k").agg(n=ef.count(), N=ef.sum("v"))


@pytest.mark.parametrize("name", ["batch", "Batch"])
@pytest.mark.parametrize("format", ["parquet", "memory"])
def test_an_output_column_called_batch_is_refused_where_that_is_the_batchs_number(
    spark, numbers, tmp_path, name, format
):
    numbers.toDF(name, "v").write.mode("overwrite").parquet(str(tmp_path / "in"))
    stream = spark.readStream.schema(numbers.toDF(name, "v").schema).parquet(str(tmp_path / "in"))
    writer = ef.keyed(stream, name).agg(n=ef.count()).writeStream.format(format).queryName("b")
    writer = writer.option("checkpointLocation", tmp_path / "c")
    with pytest.raises(ef.InputError, match=r"batch.*\.alias\("):
        writer.start(tmp_path / "out")


def test_a_query_name_is_not_expanded(spark, numbers, tmp_path):
    """Spark replaces `${env:X}` in a view's name, which then shows what the variable holds."""
    numbers.write.parquet(str(tmp_path / "in"))
    stream = spark.readStream.schema(numbers.schema).parquet(str(tmp_path / "in"))
    writer = ef.keyed(stream, "k").agg(n=ef.count()).writeStream.format("memory")
    with pytest.raises(ef.InputError, match="queryName"):
        writer.queryName("${env:HOME}").start()


def test_no_text_for_spark_sql_holds_a_name_that_a_user_gave(spark, numbers, monkeypatch):
    """The gateway builds its queries as text: users' columns are renamed before."""
    from pyspark.sql import SparkSession

    from evenflow.kafka.gateway_query import Selection
    from evenflow.kafka.gateway_rows import Rows, own_rows, placed

    texts = []
    sql = SparkSession.sql
    monkeypatch.setattr(
        SparkSession,
        "sql",
        lambda self, text, *a, **k: texts.append(text) or sql(self, text, *a, **k),
    )
    names = ["${env:PATH}", "v`${env:PATH}", "${spark.app.name}"]
    df = numbers.selectExpr("string(k)", "string(v)", "v").toDF(*names)
    rows = own_rows(Selection.of(Rows(*names[:2], (names[2],)).selected(df)), 2, 0, 1)
    placed(rows, None, 4, 1).df().collect()
    assert texts
    assert all("$" not in text for text in texts)
    assert os.environ["PATH"] not in str(texts)


@pytest.mark.parametrize("folder", ["a[b]", "a{b,c}", "a*b", "a b%20#?ü$\\"])
def test_a_checkpoint_may_have_any_path(spark, numbers, tmp_path, folder):
    numbers.write.parquet(str(tmp_path / "in"))
    stream = spark.readStream.schema(numbers.schema).parquet(str(tmp_path / "in"))
    got = []
    query = (
        ef.keyed(stream, "k")
        .balance("key", partitions=2)
        .agg(n=ef.sum("v"))
        .writeStream.foreachBatch(lambda df, batch: got.extend(rows_of(df)))
        .option("checkpointLocation", tmp_path / folder)
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    assert sorted(got) == rows_of(numbers.groupBy("k").sum("v"))
    assert (tmp_path / folder).is_dir()


def test_partitions_have_a_limit(numbers):
    with pytest.raises(ef.InputError, match=r"partitions.*at most 10,000"):
        ef.keyed(numbers, "k").balance("key", partitions=10**6)


def test_a_failed_query_says_what_went_wrong_in_its_task():
    text = """[STREAM_FAILED] Query terminated
An exception was thrown from the Python worker:
Traceback (most recent call last):
  File "worker.py", line 1, in main
    raise Poison
mine.Poison

\tat org.apache.spark.Some.method(Some.scala:1)
"""
    assert reason_of(text) == "mine.Poison"
    bare = "thrown from the Python worker:\nTraceback (most recent call last):\nKeyError"
    assert reason_of(bare) == "KeyError"
    assert reason_of(bare + ": 'x'\n\n") == "KeyError: 'x'"
