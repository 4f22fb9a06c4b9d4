"""Batch joins with hot keys: Spark's rows, columns and names, and tasks of equal size."""

import math
from collections import Counter

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import evenflow as ef
from evenflow.model import InputError
from evenflow.planning.join_grids import Grid
from evenflow.spark.join import checked_join
from evenflow.spark.join_survey import survey_join
from evenflow.spark.salting import CELL, key_hash, placed

F = pytest.importorskip("pyspark.sql.functions")

pytestmark = pytest.mark.spark

HOWS = ["inner", "left", "right", "full", "semi", "anti"]
ALIASES = {
    "inner": ["inner"],
    "left": ["left", "leftouter", "left_outer"],
    "right": ["right", "rightouter", "right_outer"],
    "full": ["outer", "full", "fullouter", "full_outer"],
    "semi": ["semi", "leftsemi", "left_semi"],
    "anti": ["anti", "leftanti", "left_anti"],
}
WORDS = ["", "a", "ä", "日本", "a\x00b", "hot", None]
NUMBERS = [0.0, -0.0, math.nan, math.inf, 1.5, None]


@pytest.fixture(autouse=True)
def no_broadcast(spark):
    """Small sides would otherwise be broadcast, and the join be Spark's own."""
    spark.conf.set("spark.sql.autoBroadcastJoinThreshold", "-1")
    yield
    spark.conf.unset("spark.sql.autoBroadcastJoinThreshold")


def plain(value):
    if isinstance(value, float):
        return "nan" if math.isnan(value) else value + 0.0
    return value


def rows_of(df):
    return Counter(str([plain(value) for value in row]) for row in df.collect())


def side(words, numbers, values, name):
    return pa.table(
        {
            "word": pa.array(words, pa.string()),
            "number": pa.array(numbers, pa.float64()),
            name: pa.array(values, pa.int64()),
        }
    )


def awkward(name, n, step):
    """One word with half of all rows, every other word and number, and identical rows."""
    words = ["hot" if i % 2 else WORDS[i // 2 % len(WORDS)] for i in range(n)]
    numbers = [1.5 if i % 4 == 1 else NUMBERS[i // 3 % len(NUMBERS)] for i in range(n)]
    return side(words, numbers, [i % step for i in range(n)], name)


def assert_same(spark, left, right, keys, how, partitions=5):
    a, b = (spark.createDataFrame(table).repartition(3) for table in (left, right))
    ours = ef.keyed(a, *keys).balance(partitions=partitions).join(b, how=how)
    theirs = a.join(b, [*keys], how)
    assert ours.schema == theirs.schema
    assert rows_of(ours) == rows_of(theirs)
    return ours


LONG = [pytest.param(how, marks=pytest.mark.long) for how in ("right", "semi")]


@pytest.mark.parametrize("how", ["inner", "left", "full", "anti", *LONG])
def test_a_join_has_the_rows_columns_and_names_of_sparks(spark, how):
    left, right = awkward("x", 130, 50), awkward("y", 40, 4)
    keys = ("word",) if how in ("left", "anti", "full") else ("word", "number")
    ours = assert_same(spark, left, right, keys, how)
    assert CELL in plan_of(ours)  # and it is not Spark's own join


@pytest.mark.parametrize(
    ("left", "right"), [(0, 30), (30, 0), (0, 0)], ids=["left", "right", "both"]
)
def test_an_empty_side_is_joined_as_spark_does(spark, left, right):
    for how in ("full", "anti") if left else ("full",):
        assert_same(spark, awkward("x", left, 3), awkward("y", right, 3), ("number",), how)


@pytest.mark.parametrize("how", ["left", "full"])
def test_a_copied_row_of_an_outer_join_comes_out_once(spark, how):
    # All identical, and from one input partition: they are in one cell, and the others are empty.
    many = spark.range(0, 90, 1, 1).selectExpr("id DIV 1000 + 1 k", "0 x")
    few = spark.range(0, 4, 1, 1).selectExpr("IF(id = 3, 2L, 1L) k", "id y")
    joined = ef.keyed(few, "k").balance(partitions=6).join(many, how=how)
    assert "explode" in plan_of(joined)
    assert rows_of(joined) == rows_of(few.join(many, "k", how))
    assert joined.count() == 271


NAMED = st.tuples(st.sampled_from(WORDS), st.sampled_from(NUMBERS), st.integers(0, 2))
TABLES = st.one_of(
    st.lists(NAMED, max_size=60),
    st.lists(st.tuples(st.just("hot"), st.just(0.0), st.integers(0, 2)), max_size=60),
    st.lists(st.tuples(st.text(max_size=3), st.floats(), st.integers(0, 2)), max_size=60),
    st.just([(None, None, 1)] * 40),
    st.just([(str(i), float(i), i) for i in range(60)]),
)


@pytest.mark.long
@settings(max_examples=25)
@given(
    TABLES,
    TABLES,
    st.sampled_from(HOWS),
    st.sampled_from([("word",), ("number",), ("number", "word")]),
)
def test_a_join_of_any_rows_is_sparks(spark, left, right, keys_how, keys):
    tables = [side(*zip(*rows, strict=True), name) if rows else side([], [], [], name)
              for rows, name in ((left, "x"), (right, "y"))]  # fmt: skip
    assert_same(spark, *tables, keys, keys_how, partitions=3)


def test_keys_of_different_names_keep_both_columns_also_in_a_self_join(spark):
    rows = spark.range(60).selectExpr("id % 5 % 3 as a", "id % 7 % 2 as b", "id")
    ours = ef.keyed(rows, "a").balance(partitions=3).join(ef.keyed(rows, "b"), how="full")
    other = rows.toDF("a2", "b2", "id2")
    theirs = rows.join(other, rows.a == other.b2, "full")
    assert ours.columns == ["a", "b", "id", "a", "b", "id"]
    assert rows_of(ours) == rows_of(theirs)


def test_keys_may_be_columns_that_are_computed(spark):
    rows = spark.range(90).select(F.col("id"), F.lit("hot").alias("word"))
    names = spark.createDataFrame([("HOT", 1), ("COLD", 2)], "name string, n int")
    ours = ef.keyed(rows, F.upper("word").alias("name")).balance(partitions=3).join(names, "name")
    assert ours.columns == ["name", "id", "word", "n"]
    assert ours.count() == 90


def test_columns_of_the_two_sides_can_still_be_named_after_the_join(spark):
    a = spark.range(40).selectExpr("id % 2 % 3 as k", "id as x")
    b = spark.range(6).selectExpr("id % 2 as k", "id as x")
    joined = ef.keyed(a, "k").balance(partitions=3).join(b).select(a["x"], b["x"])
    assert rows_of(joined) == rows_of(a.join(b, "k").select(a["x"], b["x"]))


def fullest(df):
    """The rows of the fullest partition, in multiples of the average."""
    rows = [row["count"] for row in df.groupBy(F.spark_partition_id()).count().collect()]
    partitions = df.rdd.getNumPartitions()
    return max(rows) * partitions / sum(rows)


HOT_LEFT = "CASE WHEN id % 10 < 3 THEN -1 ELSE id % 3000 END"


@pytest.mark.parametrize(
    ("left", "right", "how"),
    [
        (HOT_LEFT, "id - 1", "inner"),
        (HOT_LEFT, HOT_LEFT, "inner"),
        (HOT_LEFT.replace("-1", "NULL"), "id", "left"),
        ("id", HOT_LEFT.replace("id %", "7 * id %"), "full"),
    ],
    ids=["one-side", "both-sides", "null-keys", "the-side-that-is-copied"],
)
def test_the_fullest_task_has_at_most_1_3_times_the_average(spark, left, right, how):
    rows = [(20_000, left, "x"), (600 if left == right else 3001, right, "y")]
    a, b = (
        spark.range(0, n, 1, 3).selectExpr(f"CAST({key} AS INT) k", f"id {name}")
        for n, key, name in rows
    )
    joined = ef.keyed(a, "k").balance(partitions=8).join(b, how=how)
    assert fullest(joined) <= 1.3
    assert joined.count() == a.join(b, "k", how).count()


def test_neither_coalescing_nor_a_second_shuffle_undoes_the_placement(spark):
    a = spark.range(0, 3000, 1, 3).selectExpr("id % 10 % 4 k", "id x")
    joined = ef.keyed(a, "k").balance(partitions=6).join(spark.range(9).selectExpr("id k", "id y"))
    plan = plan_of(joined)
    assert plan.count("Exchange") == 2
    assert "shufflepartitionidpassthrough" in plan
    assert len(joined.select(F.spark_partition_id()).distinct().collect()) == 6


def test_where_a_row_goes_does_not_depend_on_the_order_of_rows(spark):
    grids = {row[0]: Grid(3, 2, (0, 1, 2, 3, 4, 5)) for row in hashes_of(spark, "hot")}
    df = spark.range(0, 600, 1, 3).selectExpr("'hot' k", "id % 50 x")
    for keys_of_rows in (df, df.selectExpr("nullif(k, 'hot') k", "x")):
        first, second = (
            placed(rows, ("k",), grids, 6, 0, True, None)
            for rows in (keys_of_rows, keys_of_rows.sortWithinPartitions(F.desc("x")))
        )
        assert rows_of(first) == rows_of(second)


def test_identical_rows_are_spread_by_the_number_of_their_input_partition(spark):
    grids = {row[0]: Grid(4, 1, (3, 2, 1, 0)) for row in hashes_of(spark, "hot")}
    df = spark.range(0, 800, 1, 4).selectExpr("'hot' k", "1 x")
    counts = placed(df, ("k",), grids, 4, 0, False, None).groupBy(CELL).count()
    assert sorted(row["count"] for row in counts.collect()) == [200, 200, 200, 200]


def hashes_of(spark, key):
    rows = spark.createDataFrame([(key,)], "k string")
    return rows.select(key_hash(rows, ["k"])).collect()


def test_a_side_that_spark_broadcasts_is_left_to_spark(spark):
    spark.conf.set("spark.sql.autoBroadcastJoinThreshold", "10MB")
    a = spark.range(300).selectExpr("0 k", "id x")
    joined = ef.keyed(a, "k").join(spark.createDataFrame([(0, "zero")], "k int, name string"))
    assert CELL not in plan_of(joined)
    assert joined.count() == 300


def test_a_join_without_hot_keys_is_left_to_spark(spark):
    a, b = (spark.range(0, 9000, 1, 3).selectExpr("id k", f"id {name}") for name in "xy")
    joined = ef.keyed(a, "k").balance(partitions=4).join(b)
    assert CELL not in plan_of(joined)
    assert "Join" in plan_of(joined)


def test_two_keys_of_one_hash_have_no_grid(spark, monkeypatch):
    monkeypatch.setattr("evenflow.spark.join_survey.key_hash", lambda df, keys: F.lit(1))
    a = spark.range(50).selectExpr("id k", "id x")
    join = checked_join(ef.keyed(a, "k"), ef.keyed(a, "k"), "left")
    assert survey_join(join.sides(), 4, 0).grids == {}


@pytest.mark.parametrize("how", [alias for names in ALIASES.values() for alias in names])
def test_every_name_that_pyspark_has_for_a_join_is_taken(spark, how):
    a = ef.keyed(spark.range(1).selectExpr("id k"), "k")
    names = {alias: name for name, known in ALIASES.items() for alias in known}
    expected = {"semi": "left_semi", "anti": "left_anti"}.get(names[how], names[how])
    assert checked_join(a, a, how).how == expected
    assert checked_join(a, a, how.upper()).how == expected


def test_what_cannot_be_joined_is_refused_with_what_to_do(spark):
    a = spark.range(3).selectExpr("id k", "string(id) word", "id j")
    keyed = ef.keyed(a, "k")
    for refused, message in (
        (lambda: keyed.join(a, how="cross"), "inner, left, right, full, semi or anti"),
        (lambda: keyed.join(a, how=None), "got None"),
        (lambda: keyed.join(a, "word"), "on is 'word', and the key is k"),
        (lambda: ef.keyed(a, "k", "j").join(a, "kj"), "on is 'kj', and the key is k, j"),
        (lambda: keyed.join(a, a["k"] == a["j"]), "and the key is k"),
        (lambda: keyed.join(a.drop("k")), "there is no column 'k'"),
        (lambda: keyed.join(ef.keyed(a, "word")), "k bigint on the left and word string"),
        (lambda: keyed.join(ef.keyed(a, "k", "j")), "1 key columns .k. and the right side 2"),
        (lambda: keyed.balance("key").join(a), "leave the scheme to"),
        (lambda: keyed.replan("mixed").join(a), "replan"),
        (lambda: keyed.join(a.withColumnRenamed("j", CELL)), "rename it"),
    ):
        with pytest.raises(InputError, match=message):
            refused()


def plan_of(df):
    return "\n".join(
        row[0] for row in df.sparkSession.sql("EXPLAIN EXTENDED SELECT * FROM {d}", d=df.toDF(
            *(f"c{i}" for i in range(len(df.columns))))).collect()
    )  # fmt: skip
