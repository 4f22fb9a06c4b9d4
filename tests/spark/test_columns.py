"""Names or Columns: as keys, as event times, as arguments of aggregates."""

import pickle

import pyarrow as pa
import pytest

import evenflow as ef
from evenflow.operators.computed_columns import ComputedColumn
from evenflow.spark.columns import arrow_schema, spark_schema

F = pytest.importorskip("pyspark.sql.functions")

pytestmark = pytest.mark.spark


@pytest.fixture
def df(spark):
    rows = {"page": ["a", "B", "b", None], "ms": [1, 2, 3, 4], "a.b": [0, 0, 1, 1]}
    return spark.createDataFrame(pa.table(rows))


def rows_of(df):
    return sorted((tuple(row) for row in df.collect()), key=str)


def test_timestamps_with_and_without_a_zone_keep_their_type(spark):
    """Spark 4.1 takes both for moments unless it is told otherwise."""
    df = spark.sql(
        "SELECT timestamp '2026-01-01' AS at, timestamp_ntz '2026-01-01' AS wall, 1 AS n"
    )
    assert [arrow_schema(df).field(name).type.tz for name in ("at", "wall")] == ["UTC", None]
    types = [field.dataType for field in spark_schema(arrow_schema(df))]
    assert types == [field.dataType for field in df.schema]


def test_keys_are_names_columns_or_a_list_as_in_group_by(df):
    theirs = rows_of(df.groupBy("page", "ms").count())
    for keys in (["page", "ms"], [F.col("page"), df["ms"]]):
        assert rows_of(ef.keyed(df, *keys).agg(n=ef.count())) == theirs
        assert rows_of(ef.keyed(df, keys).agg(n=ef.count())) == theirs
        assert rows_of(ef.keyed(df, tuple(keys)).agg(n=ef.count("*"))) == theirs


def test_a_computed_key_has_the_name_that_spark_gives_it(df):
    for key in (F.upper("page"), F.upper("page").alias("letter"), (df["ms"] % 2).alias("odd")):
        ours, theirs = ef.keyed(df, key).agg(n=ef.count()), df.groupBy(key).count()
        assert ours.columns[0] == theirs.columns[0]
        assert rows_of(ours) == rows_of(theirs)


def test_aggregates_take_columns(df):
    ours = ef.keyed(df, F.lower("page").alias("p")).agg(
        total=ef.sum(F.col("ms") * 10),
        mean=ef.avg(df["ms"]),
        most=ef.max(F.col("ms") * 10),
        odd=ef.distinct(F.col("ms") % 2),
    )
    theirs = df.groupBy(F.lower("page").alias("p")).agg(
        F.sum(F.col("ms") * 10),
        F.avg("ms"),
        F.max(F.col("ms") * 10),
        F.count_distinct(F.col("ms") % 2),
    )
    assert rows_of(ours) == rows_of(theirs)


def test_arguments_and_keys_may_have_dots(df):
    ours = ef.keyed(df, "page").agg(n=ef.sum(F.col("ms") * 0.5), m=ef.max(F.col("`a.b`")))
    theirs = df.groupBy("page").agg(F.sum(F.col("ms") * 0.5), F.max("`a.b`"))
    assert rows_of(ours) == rows_of(theirs)
    for key in ("a.b", F.col("ms") * 0.5):
        theirs = df.groupBy("`a.b`" if isinstance(key, str) else key).count()
        assert rows_of(ef.keyed(df, key).agg(n=ef.count())) == rows_of(theirs)


def test_bad_keys_are_refused_with_a_hint(df):
    for attempt, message in [
        (lambda: ef.keyed(df, "pgae"), "did you mean 'page'"),
        (lambda: ef.keyed(df).agg(n=ef.count()), "at least one key"),
        (lambda: ef.keyed(df, []).plan(), "at least one key"),
        (lambda: ef.keyed(df, 3), "name of a column or a Column, got 3"),
        (lambda: ef.keyed(df, "page", F.col("page")), "'page' is given twice"),
        (lambda: ef.keyed(df, F.col("pgae")), "pgae"),
        (lambda: ef.keyed(df, F.upper("page").alias("ms")), "as another column is"),
        (lambda: ef.keyed(df, F.col("*")), "not one column"),
        (lambda: ef.keyed(df.select("ms", "ms"), "ms"), "several columns 'ms'"),
        (lambda: ef.keyed(df, F.array("ms").alias("k")).agg(n=ef.count()), "cannot be a key"),
        (lambda: ef.sum(3), "name of a column or a Column, got 3"),
    ]:
        with pytest.raises(ef.InputError, match=message):
            attempt()


def test_names_are_resolved_as_spark_resolves_them(spark):
    df = spark.createDataFrame([(1, 2, 3), (1, 5, 6)], "page int, ms int, k int").select(
        "page", "ms", F.struct("k", "ms").alias("s")
    )
    ours = ef.keyed(df, "PAGE").agg(n=ef.sum("Ms"), m=ef.max("s.K"))
    theirs = df.groupBy("PAGE").agg(F.sum("Ms").alias("n"), F.max("s.K").alias("m"))
    assert ours.columns == theirs.columns == ["PAGE", "n", "m"]
    assert rows_of(ours) == rows_of(theirs)
    ours = ef.keyed(df, "s.k").agg(n=ef.count())
    assert ours.columns == df.groupBy("s.k").count().withColumnRenamed("count", "n").columns
    assert rows_of(ours) == rows_of(df.groupBy("s.k").count())
    with pytest.raises(ef.InputError, match="'MS' and 'ms' are one column"):
        ef.keyed(df, "page").agg(n=ef.sum("MS"), m=ef.sum("ms"))
    spark.conf.set("spark.sql.caseSensitive", "true")
    try:
        with pytest.raises(ef.InputError, match="did you mean 'page'"):
            ef.keyed(df, "Page")
    finally:
        spark.conf.unset("spark.sql.caseSensitive")


def test_a_computed_column_travels_as_its_name(df):
    name = ComputedColumn(F.col("ms") * 10)
    assert name.expression is not None
    assert type(pickle.loads(pickle.dumps(name))) is str
    assert pickle.loads(pickle.dumps(ef.sum(F.col("ms") * 10))).column == name
