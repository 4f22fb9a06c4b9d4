"""Keys that Spark counts before rows are placed, beside those that the engine's own tasks count."""

import datetime

import pytest

import evenflow as ef
from evenflow.engine.key_list import MOST
from evenflow.spark.grouped_functions import placing_job
from evenflow.spark.surveying import counted_keys, surveyed_keys

pytestmark = pytest.mark.spark

SCHEMA = "text string, whole bigint, real double, at timestamp, pair struct<a: int, b: string>"


@pytest.fixture(scope="module")
def rows(spark):
    """Null, NaN, zeros of both signs, strings with a zero byte."""
    texts = ["a", None, "", "ä", "a\0b"]
    reals = [0.0, -0.0, float("nan"), None, 1.5]
    times = [datetime.datetime(2024, 7, 1), None, datetime.datetime(1969, 12, 31, 23)]
    data = [
        (texts[i * i % 5], i % 7, reals[i % 5], times[i % 3], None if i % 4 else (i % 3, "x"))
        for i in range(200)
    ]
    return spark.createDataFrame(data, SCHEMA).repartition(3).cache()


@pytest.mark.parametrize("keys", [("text",), ("real",), ("at",), ("pair",), ("whole", "text")])
def test_spark_counts_the_keys_that_a_survey_counts(rows, keys):
    job = placing_job(ef.keyed(rows, *keys).balance(partitions=3), rows, keys, "applyInPandas")
    hot, listed = counted_keys(rows, job)
    assert hot == surveyed_keys(rows, job)
    order = rows.select(*keys).distinct().orderBy(*keys).toArrow()
    assert repr(listed.to_pylist()) == repr(order.to_pylist())


def test_many_keys_are_not_listed_and_only_the_most_frequent_are_remembered(spark):
    many = spark.range(MOST + 1).selectExpr("id AS k").union(spark.sql("SELECT 7L AS k"))
    job = placing_job(ef.keyed(many, "k").balance(partitions=3), many, ("k",), "applyInPandas")
    hot, listed = counted_keys(many, job)
    assert listed is None
    assert (len(hot.counts), hot.total, max(hot.counts.values())) == (MOST, MOST + 2, 2)
    hot, listed = counted_keys(many.where("k < 0"), job)
    assert (hot.counts, hot.total, listed) == ({}, 0, None)


def test_the_keys_are_not_read_for_one_partition_or_by_hash(spark):
    failing = spark.range(1).selectExpr("CAST(raise_error('read') AS int) AS k", "id")
    for scheme, partitions in (("auto", 1), ("key", 3)):
        keyed = ef.keyed(failing, "k").balance(scheme, partitions=partitions)
        keyed.applyInPandas(lambda rows: rows, "k int, id bigint")
    with pytest.raises(Exception, match="read"):
        keyed.balance(partitions=3).applyInPandas(lambda rows: rows, "k int, id bigint")
