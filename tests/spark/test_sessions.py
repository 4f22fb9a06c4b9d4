"""Session windows on Spark: the same answer as Spark's own, batch and stream."""

import datetime as dt

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import evenflow as ef
from evenflow.spark.sinks import MemorySink
from evenflow.state.checkpoint import Checkpoint
from evenflow.state.verification import verify
from evenflow_lab.checking.streaming import run
from spark_streams import SCHEMES, comparable, rows_of, stream_of

F = pytest.importorskip("pyspark.sql.functions")

pytestmark = pytest.mark.spark

NAMES = ["word", "session_window", "n", "total", "top"]
OURS = {"n": ef.count(), "total": ef.sum("value"), "top": ef.max("ratio")}


def theirs_of(df):
    return df.agg(
        F.count("*").alias("n"), F.sum("value").alias("total"), F.max("ratio").alias("top")
    )


def batches_of(result, directory):
    """What Spark's own stream puts out, batch by batch; the last one has no rows."""
    found = {}
    query = (
        result.writeStream.outputMode("append")
        .foreachBatch(lambda df, batch: found.update({batch: df.toArrow()}))
        .option("checkpointLocation", str(directory))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    return found


def late_rows(seed, n=500):
    """Rows of which some come eight minutes late, and some forty."""
    table = rows_of(seed, n, disorder=8)
    times = table.column("ts")
    late = np.arange(n) % 9 == 0
    moved = pa.array(
        [
            None if t is None else t - dt.timedelta(minutes=40 * int(old))
            for t, old in zip(times.to_pylist(), late, strict=True)
        ],
        times.type,
    )
    return table.set_column(2, "ts", moved)


def test_a_stream_gives_the_sessions_of_spark_batch_by_batch(spark, tmp_path):
    """With late rows, a restart with other partitions and another scheme, and with the batch at the end
    that has no rows."""
    table = late_rows(5)
    stream = stream_of(spark, tmp_path / "in", table, 6).withWatermark("ts", "2 minutes")
    theirs = batches_of(
        theirs_of(stream.groupBy("word", F.session_window("ts", "3 minutes"))), tmp_path / "theirs"
    )
    assert len(theirs) == 6 + 1
    for scheme in ("key", "d-choices"):
        sink = MemorySink()
        keyed = ef.keyed(stream, "word").sessionWindow("ts", "3 minutes")
        result = keyed.balance(scheme, partitions=3).agg(**OURS)
        run(result, tmp_path / scheme, sink, mode="append")
        assert sorted(sink.tables) == sorted(theirs)
        for batch, expected in theirs.items():
            assert comparable(sink.tables[batch], NAMES) == comparable(expected, NAMES), batch
        metrics = ef.read_metrics(tmp_path / scheme)
        assert sum(m["late_rows"] for m in metrics) > 10
        assert sum(m["null_times"] for m in metrics) > 5
        assert verify(tmp_path / scheme).intact
    assert Checkpoint.open(tmp_path / "key").last().closings == 1


def test_sessionWindow_takes_a_gap_of_each_rows_own(spark, tmp_path):
    """As does `session_window` as a key; rows without a gap or a time are in no session."""
    table = late_rows(6, 300)
    stream = stream_of(spark, tmp_path / "in", table, 3).withWatermark("ts", "2 minutes")
    gap = F.expr(
        "CASE WHEN id % 5 = 0 THEN '10 minutes' WHEN id % 11 = 3 THEN NULL ELSE '90 seconds' END"
    )
    key = F.session_window("ts", gap)
    theirs = batches_of(theirs_of(stream.groupBy("word", key)), tmp_path / "theirs")
    keyed = {
        "method": ef.keyed(stream, "word").sessionWindow("ts", gap),
        "key": ef.keyed(stream, key, "word"),
    }
    for name, one in keyed.items():
        sink = MemorySink()
        result = one.balance("table", partitions=2).agg(**OURS)
        writer = result.writeStream.option("checkpointLocation", tmp_path / name).format(sink)
        writer.trigger(availableNow=True).start().awaitTermination()  # append is the default
        for batch, expected in theirs.items():
            assert comparable(sink.tables[batch], NAMES) == comparable(expected, NAMES), batch
    assert sum(t.num_rows for t in theirs.values()) > 10


@pytest.fixture(scope="module")
def whole(spark):
    """Rows in two partitions, and what Spark makes of them."""
    df = spark.createDataFrame(rows_of(3, 300)).repartition(2)
    return df, theirs_of(df.groupBy("word", F.session_window("ts", "2 minutes"))).toArrow()


@pytest.mark.parametrize("scheme", SCHEMES)
def test_every_scheme_gives_the_same_sessions(whole, scheme):
    df, theirs = whole
    found = ef.keyed(df, "word").sessionWindow("ts", dt.timedelta(minutes=2))
    found = found.balance(scheme, partitions=3).agg(**OURS).toArrow()
    assert comparable(found, NAMES) == comparable(theirs, NAMES)


ALL = {
    "n": (ef.count("value"), "count(value)"),
    "total": (ef.sum("ratio"), "sum(ratio)"),
    "average": (ef.mean("value"), "avg(value)"),
    "kinds": (ef.collect_set("value"), "sort_array(collect_set(value))"),
    "values": (ef.collect_list("value"), "collect_list(value)"),
    "different": (ef.distinct("value"), "count(distinct value)"),
    "roughly": (ef.approx_count_distinct("value"), "count(distinct value)"),
    "spread": (ef.stddev("ratio"), "stddev(ratio)"),
    "newest": (ef.max_by("value", "id"), "max_by(value, id)"),
    "usual": (ef.mode("value"), "mode(value, true)"),
    "middle": (ef.percentile_approx("value", 0.5), "percentile_approx(value, 0.5)"),
    "any": (ef.bool_or("odd"), "bool_or(odd)"),
}


def test_aggregates_of_sessions_are_sparks(spark):
    """Also where a session's rows are in several partitions and its parts meet at the owner."""
    df = spark.createDataFrame(rows_of(12, 400)).repartition(3)
    df = df.withColumn("odd", F.col("value") % 2 == 1)
    keyed = ef.keyed(df, "word").sessionWindow("ts", "1 minute").balance("w-choices", partitions=3)
    found = keyed.agg(**{name: ours for name, (ours, _) in ALL.items()})
    theirs = df.groupBy("word", F.session_window("ts", "1 minute"))
    theirs = theirs.agg(*(F.expr(text).alias(name) for name, (_, text) in ALL.items()))
    in_any_order = F.sort_array("values").alias("values")
    names = [name for name in theirs.columns if name != "values"]
    found, theirs = (one.select(*names, in_any_order) for one in (found, theirs))
    assert comparable(found.toArrow(), theirs.columns) == comparable(
        theirs.toArrow(), theirs.columns
    )


rows = st.lists(
    st.tuples(
        st.sampled_from(["a", "ä", "", None, "hot", "hot"]),
        st.sampled_from([1.5, float("nan"), -0.0, 0.0, None]),
        st.one_of(st.none(), st.integers(0, 3600)),
        st.sampled_from(["1 second", "90 seconds", "0 seconds", "-5 minutes", "20 minutes", None]),
    ),
    max_size=40,
)


@settings(max_examples=6, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows=rows)
def test_batch_gives_the_sessions_of_spark(spark, rows):
    """Whatever the rows: two key columns with null and NaN, gaps of nothing and below."""
    begin = dt.datetime(2024, 1, 1)
    own = [
        (a, b, None if t is None else begin + dt.timedelta(seconds=t), gap) for a, b, t, gap in rows
    ]
    df = spark.createDataFrame(own, "a string, b double, at timestamp_ntz, gap string")
    found = ef.keyed(df, "a", "b", F.session_window("at", F.col("gap")).alias("visit"))
    found = found.balance("w-choices", partitions=2).agg(n=ef.count())
    theirs = df.groupBy("a", "b", F.session_window("at", F.col("gap")).alias("visit"))
    theirs = theirs.agg(F.count("*").alias("n"))
    assert found.dtypes == theirs.dtypes
    names = ["a", "b", "visit", "n"]
    assert comparable(found.toArrow(), names) == comparable(theirs.toArrow(), names)


def test_window_as_a_key_of_a_batch_is_sparks(spark):
    df = spark.createDataFrame(rows_of(8, 100))
    window = F.window("ts", "10 minutes", "5 minutes")
    found = ef.keyed(df, "word", window).agg(n=ef.count())
    theirs = df.groupBy("word", window).agg(F.count("*").alias("n"))
    assert found.dtypes == theirs.dtypes
    names = ["word", "window", "n"]
    assert comparable(found.toArrow(), names) == comparable(theirs.toArrow(), names)


def test_what_sessions_cannot_do_is_said(spark, tmp_path):
    table = rows_of(1, 16)
    stream = stream_of(spark, tmp_path / "in", table)
    keyed = ef.keyed(stream, "word").sessionWindow("ts", "1 minute")
    with pytest.raises(ef.InputError, match="needs a watermark"):
        keyed.agg(n=ef.count())
    marked = keyed.withWatermark("ts", "1 minute")
    writer = marked.agg(n=ef.count()).writeStream.format(MemorySink()).outputMode("update")
    with pytest.raises(ef.InputError, match='"append"'):
        writer.option("checkpointLocation", tmp_path / "ckpt").start()
    with pytest.raises(ef.InputError, match=r'write \.window\("time"'):
        ef.keyed(stream, "word", F.window("ts", "1 minute"))
    batch = spark.createDataFrame(table)
    with pytest.raises(ef.InputError, match="two session windows"):
        ef.keyed(batch, "word", *[F.session_window("ts", f"{i} minutes") for i in (1, 2)])
    with pytest.raises(ef.InputError, match="besides session_window"):
        ef.keyed(batch, F.session_window("ts", "1 minute"))
    with pytest.raises(ef.InputError, match="the column is bigint"):
        ef.keyed(batch, "word").sessionWindow("ts", F.col("id"))
    with pytest.raises(ef.InputError, match="must be a timestamp"):
        ef.keyed(batch, "word").sessionWindow("id", "1 minute")
    with pytest.raises(ef.InputError, match="longer than nothing"):
        ef.keyed(batch, "word").sessionWindow("ts", "0 seconds")
    operator = ef.PerKey(lambda key, rows, state: {"n": 1}, state={"n": pa.int64()})
    with pytest.raises(ef.InputError, match="has no `merge`"):
        ef.keyed(batch, "word").sessionWindow("ts", "1 minute").apply(operator)
