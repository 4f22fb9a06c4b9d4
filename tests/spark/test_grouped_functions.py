"""`applyInPandas`, `applyInArrow` and `cogroup` against PySpark's own, with the same functions."""

import datetime
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import evenflow as ef

pytestmark = pytest.mark.spark

SCHEMA = (
    "name string, small tinyint, whole bigint, part double, flag boolean, day date, at timestamp, "
    "local timestamp_ntz, price decimal(10,2), items array<int>, pair struct<a:int,b:string>, "
    "pairs map<string,int>, raw binary, nothing void"
)
SEEN = "seen string"
KEYS = [("name",), ("whole",), ("part",), ("flag",), ("at",), ("pair",), ("day", "small")]


@pytest.fixture(scope="module")
def rows(spark):
    """Nulls, NaN, zeros of both signs, unicode; keys that have nulls beside keys that have none."""
    days = [None, datetime.date(2024, 2, 29), datetime.date(1600, 1, 1)]
    times = [None, datetime.datetime(2015, 11, 1, 1, 30), datetime.datetime(2024, 7, 1)]
    data = []
    for i in range(40):
        data.append(
            (
                ["ä", "b", None, "", "日"][i % 5],
                None if i % 5 == 1 and i % 2 else i % 3,
                None if i % 10 == 3 else i % 4,
                [0.5, float("nan"), -0.0, 0.0, None, float("inf")][i % 6],
                [True, None, False, True][i % 4],
                days[i % 3],
                times[i % 3],
                times[(i + 1) % 3],
                None if i % 7 == 0 else Decimal(i) / 4,
                None if i % 6 == 2 else [i, None],
                None if i % 5 == 4 else (i % 2, "x" if i % 3 else None),
                {"a": i} if i % 2 else None,
                bytes([i]) if i % 3 else None,
                None,
            )
        )
    return spark.createDataFrame(data, SCHEMA).repartition(3).cache()


@contextmanager
def conf(spark, **settings):
    names = {name.replace("__", "."): value for name, value in settings.items()}
    before = {name: spark.conf.get(name, None) for name in names}
    for name, value in names.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                spark.conf.unset(name)
            else:
                spark.conf.set(name, value)


BY_POSITION = {"spark__sql__legacy__execution__pandas__groupedMap__assignColumnsByName": "false"}


def collected(df):
    return sorted(map(repr, df.collect()))


def same(df, keys, verb, function, schema, **settings):
    """The results of both; columns, types and rows are the same."""
    with conf(df.sparkSession, **settings):
        ours = getattr(ef.keyed(df, *keys), verb)(function, schema)
        theirs = getattr(df.groupBy(*keys), verb)(function, schema)
        assert ours.dtypes == theirs.dtypes
        found = collected(ours)
        assert found == collected(theirs)
    return found


def shown(value):
    return f"{type(value).__name__} {value!r}"


def seen_in_pandas(key, pdf):
    """All that a function can know of what it is given, but for the order of rows."""
    lines = sorted(repr([shown(one) for one in row]) for row in pdf.itertuples(index=False))
    kinds = [f"{name}: {kind}" for name, kind in pdf.dtypes.items()]
    text = repr([[shown(one) for one in key], kinds, list(pdf.index), lines])
    return pd.DataFrame({"seen": [text]})


def seen_in_arrow(key, table):
    lines = sorted(map(repr, table.to_pylist()))
    return pa.table({"seen": [repr([key, table.schema.to_string(), lines])]})


def seen_in_large_arrow(key, table):
    return seen_in_arrow(key, table).cast(pa.schema({"seen": pa.large_string()}))


def test_a_function_is_given_what_pyspark_gives_it(rows):
    assert len(same(rows, KEYS[0], "applyInPandas", seen_in_pandas, SEEN)) > 3
    same(rows, KEYS[0], "applyInArrow", seen_in_arrow, SEEN)


@pytest.mark.long
@pytest.mark.parametrize("keys", KEYS[1:])
def test_a_function_is_given_what_pyspark_gives_it_for_any_key(rows, keys):
    same(rows, keys, "applyInPandas", seen_in_pandas, SEEN)
    same(rows, keys, "applyInArrow", seen_in_arrow, SEEN)
    zone = {"spark__sql__session__timeZone": "America/Los_Angeles"}
    same(rows, keys, "applyInPandas", seen_in_pandas, SEEN, **zone)
    large = {"spark__sql__execution__arrow__useLargeVarTypes": "true"}
    same(rows, keys, "applyInArrow", seen_in_large_arrow, SEEN, **large)
    integers = {"spark__sql__execution__pythonUDF__pandas__preferIntExtensionDtype": "true"}
    same(rows, keys, "applyInPandas", seen_in_pandas, SEEN, **integers)


def test_rows_come_back_as_pyspark_returns_them(rows):
    same(rows, ("name",), "applyInPandas", lambda pdf: pdf, rows.schema)
    same(rows, ("name",), "applyInArrow", lambda table: table, rows.schema)
    same(rows.where("false"), ("name",), "applyInPandas", lambda pdf: pdf, rows.schema)


def many(key, pdf):
    """Any number of rows, with any columns that PySpark accepts."""
    n = 0 if key[0] is None or key[0] != key[0] else int(key[0])
    if n == 0:
        return pd.DataFrame()
    frame = pd.DataFrame({"n": range(n), "text": ["é"] * n, "value": np.arange(n) / 2})
    if n == 1:
        return frame[["value", "text", "n"]]
    if n == 2:
        return pd.DataFrame(list(frame.itertuples(index=False)))
    return frame.astype({"n": "int8", "text": "category"}).iloc[:, [1, 0, 2]]


def test_any_number_of_rows_and_all_ways_to_name_columns(rows):
    found = same(rows, ("whole",), "applyInPandas", many, "n bigint, text string, value float")
    assert len(found) == 6
    odd = partial(pd.DataFrame, [("hi", 1)], columns=["x", "y"])
    same(rows, ("name",), "applyInPandas", lambda pdf: odd(), "a string, b float", **BY_POSITION)
    table = pa.table({"x": ["hi"], "y": [1]})
    same(rows, ("name",), "applyInArrow", lambda _: table, "a string, b bigint", **BY_POSITION)
    none = pa.table([])
    same(rows, ("name",), "applyInArrow", lambda _: none, "a string, b bigint")


def coerced(key, pdf):
    return pd.DataFrame({"a": ["12"], "b": [1.0], "c": [Decimal("1.5")], "d": [3]})


@pytest.mark.long
def test_values_are_coerced_as_pyspark_coerces_them(rows):
    same(rows, ("name",), "applyInPandas", coerced, "a int, b bigint, c decimal(10,3), d double")
    decimals = {"spark__sql__execution__pythonUDF__pandas__intToDecimalCoercionEnabled": "true"}
    same(
        rows,
        ("name",),
        "applyInPandas",
        coerced,
        "a int, b int, c double, d decimal(5,2)",
        **decimals,
    )


def test_a_null_within_a_list_changes_the_types_of_its_own_group_only(spark):
    data = [
        ("a", [1, 2], {"x": 1}, (1, True), [(1,)]),
        ("b", [None], {"y": None}, (None, None), [(None,)]),
        ("c", None, None, None, None),
        ("d", [3], {"z": 3}, (4, None), [(4,), None]),
    ]
    schema = (
        "name string, items array<int>, pairs map<string,int>, pair struct<a:int,b:boolean>, "
        "list array<struct<a:int>>"
    )
    nested = spark.createDataFrame(data, schema).coalesce(1)
    for keys in (("name",), ("pair",)):
        same(nested, keys, "applyInPandas", seen_in_pandas, SEEN)


def test_keys_may_be_expressions_fields_and_none_at_all(rows):
    from pyspark.sql import functions as F

    for keys in (
        (F.col("whole") % 2 == 0, "NAME"),
        ("pair.a",),
        (F.window("at", "5 days"),),
        (),
    ):
        same(rows, keys, "applyInPandas", seen_in_pandas, SEEN)


def batched(batches: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
    for batch in batches:
        yield pd.DataFrame({"n": [len(batch)], "text": [",".join(map(str, batch.dtypes))]})


def first_batch(
    key: tuple[Any, ...], batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    batch = next(batches)
    yield pa.record_batch({"n": [batch.num_rows], "text": [repr(key)]})


def test_iterators_get_batches_of_the_size_that_the_session_says(rows):
    schema = "n bigint, text string"
    few = {"spark__sql__execution__arrow__maxRecordsPerBatch": "3"}
    whole = rows.select("name", "part")
    assert len(same(whole, ("name",), "applyInPandas", batched, schema, **few)) == 15
    same(whole, ("name",), "applyInArrow", first_batch, schema, **few)
    same(rows, ("name",), "applyInPandas", batched, schema)


def both_in_pandas(key, left, right):
    one, two = (seen_in_pandas(key, pdf).seen[0] for pdf in (left, right))
    return pd.DataFrame({"seen": [f"{one} {two}"]})


def both_in_arrow(key, left, right):
    one, two = (seen_in_arrow(key, table)["seen"][0].as_py() for table in (left, right))
    return pa.table({"seen": [f"{one} {two}"]})


def test_a_cogroup_is_given_what_pyspark_gives_it(rows):
    from pyspark.sql import functions as F

    left = rows.where("name is null or name != 'b'").select("name", "whole", "flag", "at")
    right = rows.where("whole > 1 or name is null").withColumnRenamed("name", "called")
    for verb, function in (("applyInPandas", both_in_pandas), ("applyInArrow", both_in_arrow)):
        for a, b in ((("name",), ("called",)), ((F.col("whole") % 2, "name"), ("whole", "called"))):
            ours = ef.keyed(left, *a).cogroup(ef.keyed(right, *b))
            theirs = left.groupBy(*a).cogroup(right.groupBy(*b))
            found = collected(getattr(ours, verb)(function, SEEN))
            assert found == collected(getattr(theirs, verb)(function, SEEN))
    ours = ef.keyed(left).cogroup(ef.keyed(left)).applyInPandas(lambda a, b: a + b, "name string")
    assert ours.columns == ["name"]
    again = ef.keyed(left, "name").cogroup(ef.keyed(left, "NAME"))
    counted = again.applyInArrow(
        lambda a, b: pa.table({"n": [a.num_rows * b.num_rows]}), "n bigint"
    )
    assert counted.agg(F.sum("n")).first()[0] > 0


def failing(key, pdf):
    if key[0] == 2:
        raise KeyError("price")
    return pdf[["whole"]]


@pytest.mark.parametrize(
    ("verb", "function", "schema", "message"),
    [
        (
            "applyInPandas",
            failing,
            "whole bigint",
            r"failing failed for the key \[2\].*KeyError: 'price'",
        ),
        ("applyInPandas", lambda pdf: None, "a int", "should be pandas.DataFrame, but is NoneType"),
        ("applyInPandas", lambda pdf: pdf, "whole int, b int", "Missing: b. Unexpected: at, day"),
        (
            "applyInPandas",
            lambda pdf: pd.DataFrame([(1, 2)]),
            "a int",
            "Expected: 1 Actual: 2",
        ),
        (
            "applyInPandas",
            lambda pdf: pd.DataFrame({"a": ["x"]}),
            "a int",
            r"for the key \[.*Failed to convert the value of the column 'a' with type 'object'",
        ),
        (
            "applyInArrow",
            lambda table: table.select(["whole"]),
            "whole int",
            r"for the key \[.*column 'whole' \(expected int32, actual int64\)",
        ),
        ("applyInArrow", lambda table: pc, "whole int", "should be pyarrow.Table, but is module"),
    ],
)
def test_an_error_is_one_sentence_with_function_and_key(rows, verb, function, schema, message):
    result = getattr(ef.keyed(rows, "whole"), verb)(function, schema)
    with pytest.raises(Exception, match=message) as caught:
        result.collect()
    text = str(caught.value)
    assert "File " not in text
    assert len([line for line in text.splitlines() if line.strip()]) <= 3


def test_what_cannot_work_is_refused_before_anything_runs(spark, rows):
    from pyspark.errors import IllegalArgumentException, PySparkTypeError, PySparkValueError

    keyed = ef.keyed(rows, "name")
    stream = ef.keyed(spark.readStream.format("rate").load(), "value")
    for error, message, attempt in [
        (ef.InputError, "sends the rows of one key", keyed.balance("d-choices", 2).applyInPandas),
        (ef.InputError, "for batch DataFrames, as in PySpark", stream.applyInPandas),
        (PySparkValueError, "INVALID_PANDAS_UDF", lambda f, s: keyed.applyInPandas(lambda: 1, s)),
        (PySparkTypeError, "should return StructType", lambda f, s: keyed.applyInArrow(f, "int")),
    ]:
        with pytest.raises(error, match=message):
            attempt(lambda pdf: pdf, "a int")
    with pytest.raises(PySparkTypeError, match=r"INVALID_UDF_EVAL_TYPE.*evenflow\.Operator"):
        keyed.apply(lambda pdf: pdf)
    with pytest.raises(IllegalArgumentException, match="Cogroup keys must have same size: 2 != 1"):
        ef.keyed(rows, "name", "whole").cogroup(keyed).applyInPandas(lambda a, b: a, "a int")
    with pytest.raises(ef.InputError, match="is bigint on the left, and 'name' is string"):
        ef.keyed(rows, "whole").cogroup(keyed).applyInPandas(lambda a, b: a, "a int")
    with pytest.raises(ef.InputError, match="cogroup takes another keyed DataFrame"):
        keyed.cogroup(rows)
    with pytest.raises(ef.InputError, match="at least one key column"):
        ef.keyed(rows).agg(n=ef.count())


def test_pandas_udfs_of_the_old_kind_are_taken(rows):
    from pyspark.sql.functions import PandasUDFType, pandas_udf

    count = pandas_udf(
        lambda pdf: pd.DataFrame({"n": [len(pdf)]}), "n int", PandasUDFType.GROUPED_MAP
    )
    with pytest.warns(UserWarning, match="applyInPandas"):
        ours = ef.keyed(rows, "name").apply(count)
    assert collected(ours) == ["Row(n=8)"] * 5


def partitions_of(df):
    from pyspark.sql import functions as F

    return df.withColumn("partition", F.spark_partition_id())


def test_groups_are_placed_by_how_many_rows_they_have(spark):
    sizes = [300, 299, 150, 150, 149, 149, 1, 1]
    data = [(key, i) for key, size in enumerate(sizes) for i in range(size)]
    df = spark.createDataFrame(data, "k int, i int").repartition(3)
    size = lambda pdf: pd.DataFrame({"k": [pdf.k[0]], "n": [len(pdf)]})  # noqa: E731
    keyed = ef.keyed(df, "k").balance(partitions=4)
    found = partitions_of(keyed.applyInPandas(size, "k int, n int")).collect()
    assert sorted((row.k, row.n) for row in found) == list(enumerate(sizes))
    loads = np.bincount([row.partition for row in found], [row.n for row in found], 4)
    assert loads.max() <= 1.08 * loads.mean()


def test_rows_come_in_the_order_asked_for(spark):
    from pyspark.sql import functions as F

    df = spark.range(200).select((F.col("id") % 7).alias("k"), (F.hash("id") % 97).alias("at.x"))
    df = df.repartition(5)
    ordered = ef.keyed(df, "k").orderBy(F.desc("`at.x`"))

    def is_sorted(pdf):
        return pd.DataFrame({"yes": [pdf["at.x"].is_monotonic_decreasing]})

    def update(key, rows, state):
        assert state is None
        return {"yes": bool((np.diff(rows["at.x"]) <= 0).all())}

    operator = ef.PerKey(update, {"yes": "bool"})
    for result in (ordered.applyInPandas(is_sorted, "yes boolean"), ordered.apply(operator)):
        assert [row.yes for row in result.collect()] == [True] * 7
    with pytest.raises(ef.InputError, match="sends them to several"):
        ef.keyed(df, "k").balance("d-choices", 2).orderBy("k")


def test_repartition_balances_and_keeps_rows_whole_unless_they_may_be_split(spark, tmp_path):
    from pyspark.sql import functions as F

    df = spark.range(4000).select(
        F.when(F.col("id") % 2 == 0, "hot")
        .otherwise(F.concat(F.lit("k"), F.col("id") % 41))
        .alias("K"),
        "id",
    )
    keyed = ef.keyed(df, "k")
    whole = keyed.repartition(4)
    assert whole.columns == ["K", "id"]
    assert whole.select("id").agg(F.sum("id"), F.count("id")).first()[:] == (7998000, 4000)
    per_key = partitions_of(whole).groupBy("K").agg(F.count_distinct("partition").alias("n"))
    assert {row.n for row in per_key.collect()} == {1}
    for split in (keyed.repartition(4, split=True), keyed.balance("d-choices").repartition(4)):
        rows = partitions_of(split).groupBy("partition").count().collect()
        loads = [row["count"] for row in rows]
        assert len(loads) == 4
        assert max(loads) <= 1.15 * 1000
    keyed.repartition(4, split=True).write.partitionBy("K").parquet(str(tmp_path / "out"))
    files = {one.name: len(list(one.glob("*.parquet"))) for one in (tmp_path / "out").glob("K=*")}
    assert files.pop("K=hot") == 2
    assert set(files.values()) == {1}


def test_a_function_without_merge_sees_all_rows_of_a_key_at_once(spark):
    df = spark.range(3000).selectExpr("id % 229 as k", "id as v")

    def update(key, rows, state):
        assert state is None
        return {"n": len(rows["v"]), "median": float(np.median(rows["v"]))}

    operator = ef.PerKey(update, {"n": "int64", "median": "float64"}, columns=["v"])
    from evenflow.engine import sorted_groups

    assert sorted_groups.CHUNK_ROWS > 3000
    ours = ef.keyed(df, "k").balance(partitions=2).apply(operator)
    theirs = df.groupBy("k").agg({"v": "count"}).collect()
    assert {row.k: row.n for row in ours.collect()} == {row.k: row[1] for row in theirs}
