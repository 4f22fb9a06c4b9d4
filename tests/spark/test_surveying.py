"""Keys that Spark counts before rows are placed, beside those that the engine counts."""

import datetime

import pyarrow as pa
import pytest

import evenflow as ef
from evenflow.engine.key_list import MOST
from evenflow.engine.survey import survey_of
from evenflow.kernels.fingerprints import fingerprint
from evenflow.spark.grouped_functions import placing_job
from evenflow.spark.surveying import SAMPLED, surveyed_keys

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
    survey, listed = surveyed_keys(rows, job)
    assert survey == survey_of(rows.select(*keys).toArrow(), keys)
    order = rows.select(*keys).distinct().orderBy(*keys).toArrow()
    assert repr(listed.to_pylist()) == repr(order.to_pylist())


def test_many_keys_are_not_listed_and_only_the_most_frequent_are_remembered(spark):
    many = spark.range(MOST + 1).selectExpr("id AS k").union(spark.sql("SELECT 7L AS k"))
    job = placing_job(ef.keyed(many, "k").balance(partitions=3), many, ("k",), "applyInPandas")
    survey, listed = surveyed_keys(many, job)
    hot = survey.hot
    assert listed is None
    assert (len(hot.counts), hot.total, max(hot.counts.values())) == (MOST, MOST + 2, 2)
    assert survey.keys == MOST + 1
    survey, listed = surveyed_keys(many.where("k < 0"), job)
    assert (survey.hot.counts, survey.hot.total, survey.keys, listed) == ({}, 0, 0, None)


def test_of_large_partitions_a_sample_is_counted_and_it_is_right_on_average(spark):
    """Every tenth row has the hot key, in a partition that begins without any."""
    n = 60 * SAMPLED
    rows = spark.range(0, n, 1, 2).selectExpr(
        f"CASE WHEN id % 10 = 0 AND id > {SAMPLED} THEN -1 ELSE id % 3000 END AS k"
    )
    job = placing_job(ef.keyed(rows, "k").balance(partitions=3), rows, ("k",), "applyInPandas")
    survey, _ = surveyed_keys(rows, job)
    hot = survey.hot.counts[int(fingerprint(pa.array([-1]))[0])]
    assert hot == pytest.approx(n / 10, rel=0.1)
    assert survey.hot.total == pytest.approx(n, rel=0.05)
    assert 2600 <= survey.keys <= 3001
    assert surveyed_keys(rows, job)[0] == survey, "the same sample every time"


def test_the_keys_are_not_read_for_one_partition_or_by_hash(spark):
    failing = spark.range(1).selectExpr("CAST(raise_error('read') AS int) AS k", "id")
    for scheme, partitions in (("auto", 1), ("key", 3)):
        keyed = ef.keyed(failing, "k").balance(scheme, partitions=partitions)
        keyed.applyInPandas(lambda rows: rows, "k int, id bigint")
    with pytest.raises(Exception, match="read"):
        keyed.balance(partitions=3).applyInPandas(lambda rows: rows, "k int, id bigint")


def test_cheap_work_on_few_cores_is_routed_without_a_look(spark):
    failing = spark.range(1).selectExpr("CAST(raise_error('read') AS int) AS k", "id")
    keyed = ef.keyed(failing, "k").balance(partitions=64)
    plan = keyed.plan()
    assert plan.scheme == "key"
    assert "no skew would be worth another scheme" in plan.reason
    with pytest.raises(Exception, match="read"):
        keyed.plan(ef.PerKey(lambda key, rows, state: {"n": 1}, "n bigint"))
