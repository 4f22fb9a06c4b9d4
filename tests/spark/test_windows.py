"""Windows and interval joins on Spark: the same answer as Spark's own, batch and stream."""

import numpy as np
import pyarrow as pa
import pytest

import evenflow as ef
from evenflow.grouping import schemes
from evenflow.operators import Aggregates, on_table
from evenflow.operators.windows import Window
from evenflow.spark.sinks import MemorySink
from evenflow.state.checkpoint import Checkpoint
from evenflow.state.verification import verify
from evenflow_lab.checking.streaming import run
from spark_streams import BATCHES, MINUTE, add_files, comparable, rows_of, stream_of

F = pytest.importorskip("pyspark.sql.functions")

pytestmark = pytest.mark.spark

EXACT = {
    "n": (ef.count(), "count(1)"),
    "values": (ef.count("value"), "count(value)"),
    "total": (ef.sum("value"), "sum(value)"),
    "average": (ef.mean("value"), "avg(value)"),
    "ratios": (ef.sum("ratio"), "sum(ratio)"),
    "least": (ef.min("value"), "min(value)"),
    "most": (ef.max("ratio"), "max(ratio)"),
    "first": (ef.min("ts"), "min(ts)"),
    "different": (ef.distinct("value"), "count(distinct value)"),
    "spread": (ef.var_pop("ratio"), "var_pop(ratio)"),
    "kinds": (ef.collect_set("value"), "sort_array(collect_set(value))"),
    "newest": (ef.max_by("value", "id"), "max_by(value, id)"),
    "usual": (ef.mode("value"), "mode(value, true)"),
}
# A window has few enough rows for these sketches to be exact.
SKETCHES = {
    "middle": (ef.quantiles("value", 0.5), "percentile_disc(0.5) WITHIN GROUP (ORDER BY value)"),
    "roughly": (ef.distinct("value", approximate=True), "count(distinct value)"),
    "half": (ef.percentile_approx("value", 0.5), "percentile_approx(value, 0.5)"),
    "top": (ef.top_k("value", 3), None),
    "top_roughly": (ef.top_k("value", 1, approximate=True), None),
}
ALL = {**EXACT, **SKETCHES}
AGGREGATES = {name: aggregate for name, (aggregate, _) in ALL.items()}
WINDOWS = {"tumbling": ("10 minutes", None), "sliding": ("10 minutes", "4 minutes")}


def spark_answer(df, size, slide, start="0 seconds"):
    """What Spark's own grouping gives."""
    window = F.window("ts", size, slide or size, start)
    texts = {name: text for name, (_, text) in ALL.items() if text}
    return (
        df.groupBy("word", window)
        .agg(*(F.expr(text).alias(name) for name, text in texts.items()))
        .toArrow()
    )


def check_answer(spark, found, table, size, slide, start="0 seconds"):
    """The same as Spark's, and as all at once on the whole table, where Spark has no such function."""
    theirs = spark_answer(spark.createDataFrame(table), size, slide, start)
    assert comparable(found, theirs.column_names) == comparable(theirs, theirs.column_names)
    minutes = [int(text.split()[0]) * MINUTE for text in (size, slide or size)]
    at_once = on_table(Aggregates(**AGGREGATES), table, "word", Window("ts", *minutes))
    names = ["word", "window", "top", "top_roughly"]
    if start == "0 seconds":
        assert comparable(found, names) == comparable(at_once, names)


@pytest.mark.parametrize("shape", WINDOWS)
def test_batch_gives_the_windows_of_spark(spark, shape):
    size, slide = WINDOWS[shape]
    table = rows_of(1)
    df = spark.createDataFrame(table).repartition(3)
    for scheme in ("key", "d-choices"):
        keyed = ef.keyed(df, "word").window("ts", size, slide).balance(scheme, partitions=3)
        check_answer(spark, keyed.agg(**AGGREGATES).toArrow(), table, size, slide)


def test_the_window_column_is_the_one_that_spark_gives(spark):
    df = spark.createDataFrame(rows_of(1, 50))
    ours = ef.keyed(df, "word").window("ts", "10 minutes").agg(n=ef.count())
    theirs = df.groupBy("word", F.window("ts", "10 minutes")).agg(F.count("*").alias("n"))
    assert ours.columns == theirs.columns
    assert ours.dtypes == theirs.dtypes
    computed = ef.keyed(df, "word").window(F.col("ts") + F.expr("INTERVAL 1 MINUTE"), "10 minutes")
    theirs = df.groupBy("word", F.window(F.col("ts") + F.expr("INTERVAL 1 MINUTE"), "10 minutes"))
    names = ["word", "window", "n"]
    assert comparable(computed.agg(n=ef.count()).toArrow(), names) == comparable(
        theirs.agg(F.count("*").alias("n")).toArrow(), names
    )


def test_windows_that_do_not_begin_at_the_full_hour_and_timestamps_without_a_zone(spark):
    table = rows_of(2, 200)
    plain = table.column("ts").cast(pa.timestamp("us", "UTC")).cast(pa.int64())
    plain = plain.cast(pa.timestamp("us"))
    for column in (table.column("ts"), plain):
        own = table.set_column(table.column_names.index("ts"), "ts", column)
        df = spark.createDataFrame(own)
        keyed = ef.keyed(df, "word").window("ts", "10 minutes", "7 minutes", "3 minutes")
        found = keyed.balance("key", partitions=2).agg(**AGGREGATES)
        kind = dict(df.dtypes)["ts"]
        assert dict(found.dtypes)["window"] == f"struct<start:{kind},end:{kind}>"
        check_answer(spark, found.toArrow(), own, "10 minutes", "7 minutes", "3 minutes")


@pytest.mark.parametrize("scheme", [*schemes(), "auto"])
def test_every_scheme_gives_the_same_windows(spark, scheme):
    table = rows_of(3, 300)
    keyed = ef.keyed(spark.createDataFrame(table), "word").balance(scheme, partitions=3)
    found = keyed.window("ts", "10 minutes", "5 minutes").agg(n=ef.count()).toArrow()
    window = Window("ts", 10 * MINUTE, 5 * MINUTE)
    expected = on_table(Aggregates(n=ef.count()), table, "word", window)
    assert comparable(found, expected.column_names) == comparable(expected, expected.column_names)


@pytest.mark.parametrize(("shape", "scheme"), [("tumbling", "d-choices"), ("sliding", "key")])
def test_stream_gives_the_windows_of_spark(spark, tmp_path, shape, scheme):
    """Every aggregate, in eight micro-batches; nothing is late. And state goes with its windows."""
    size, slide = WINDOWS[shape]
    table = rows_of(4, minutes=180)
    sink = MemorySink()
    result = (
        ef.keyed(stream_of(spark, tmp_path / "in", table), "word")
        .withWatermark("ts", "5 minutes")
        .window("ts", size, slide)
        .balance(scheme, partitions=3)
        .agg(**AGGREGATES)
    )
    query = run(result, tmp_path / "ckpt", sink)
    found = sink.latest("word", "window")
    check_answer(spark, found, table, size, slide)
    metrics = query.metrics()
    assert [m["batch"] for m in metrics] == list(range(BATCHES))
    assert sum(m["late_rows"] for m in metrics) == 0
    assert sum(m["null_times"] for m in metrics) == table.column("ts").null_count
    assert sum(m["rows"] for m in metrics) == table.num_rows
    # Three hours have many more windows than are open at any moment.
    last = Checkpoint.open(tmp_path / "ckpt").last()
    kept = sum(segment.rows for segment in last.segments)
    assert kept == metrics[-1]["state_rows"] < found.num_rows / 2
    assert metrics[-1]["state_bytes"] == sum(segment.bytes for segment in last.segments)
    assert max(m["state_rows"] for m in metrics) < found.num_rows / 2
    assert verify(tmp_path / "ckpt").intact


def test_late_rows_and_closed_windows_are_those_of_sparks_own_stream(spark, tmp_path):
    """Append mode; some rows come eight minutes late and some forty, where two are allowed. Batch by
    batch the same, although the query is stopped in between and continues with other partitions."""
    table = rows_of(5, 600, disorder=8).filter(pa.compute.field("ts").is_valid())
    times = (
        table.column("ts").cast(pa.int64()).to_numpy()
        - (np.arange(len(table)) % 9 == 0) * 40 * MINUTE
    )
    table = table.set_column(2, "ts", pa.array(times).cast(pa.timestamp("us", "UTC")))
    theirs, ours = {}, MemorySink()
    spark.conf.set("spark.sql.streaming.noDataMicroBatches.enabled", "false")
    try:
        query = (
            stream_of(spark, tmp_path / "in", table)
            .withWatermark("ts", "2 minutes")
            .groupBy("word", F.window("ts", "10 minutes", "5 minutes"))
            .agg(F.count("*").alias("n"), F.sum("value").alias("total"))
            .writeStream.outputMode("append")
            .foreachBatch(lambda df, batch: theirs.update({batch: df.toArrow()}))
            .option("checkpointLocation", str(tmp_path / "theirs"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        # The DataFrame's own watermark does as well as `Keyed.withWatermark`.
        stream = stream_of(spark, tmp_path / "again", table, 4).withWatermark("ts", "2 minutes")
        for scheme, partitions in (("key", 3), ("d-choices", 2)):
            keyed = ef.keyed(stream, "word").window("ts", "10 minutes", "5 minutes")
            result = keyed.balance(scheme, partitions=partitions).agg(
                n=ef.count(), total=ef.sum("value")
            )
            run(result, tmp_path / "ours", ours, mode="append")
            add_files(tmp_path / "again", table, 4)
    finally:
        spark.conf.unset("spark.sql.streaming.noDataMicroBatches.enabled")
    names = ["word", "window", "n", "total"]
    assert sorted(theirs) == sorted(ours.tables) == list(range(BATCHES))
    for batch in range(BATCHES):
        assert comparable(ours.tables[batch], names) == comparable(theirs[batch], names)
    metrics = ef.read_metrics(tmp_path / "ours")
    assert sum(m["late_rows"] for m in metrics) > 10
    assert sum(m["partly_late_rows"] for m in metrics) > 0
    closed = [m.get("closed_windows", 0) for m in metrics]
    assert closed == [ours.tables[batch].num_rows for batch in range(BATCHES)]
    assert sum(closed) > 100


# --- exactly once --------------------------------------------------------------------------------


class Trouble:
    """A sink that fails once, after it has taken the output of a batch: as if the driver died between
    delivery and commit."""

    def __init__(self, sink, batch):
        self.sink, self.batch = sink, batch

    def staging(self, default):
        return self.sink.staging(default)

    def deliver(self, output, spark):
        before = self.sink.tables.get(output.batch)
        self.sink.deliver(output, spark)
        if output.batch == self.batch and before is None:
            raise RuntimeError("the driver is gone")
        if before is not None:
            names = before.column_names
            assert comparable(before, names) == comparable(self.sink.tables[output.batch], names)


@pytest.mark.parametrize("kind", ["windows", "join"])
def test_a_batch_that_is_run_again_says_and_keeps_the_same(spark, tmp_path, kind):
    table = rows_of(6, 600, disorder=8)
    batches = 5
    stream = stream_of(spark, tmp_path / "in", table, batches)
    keyed = ef.keyed(stream, "word").withWatermark("ts", "1 minute").balance("key", partitions=2)
    if kind == "windows":
        result = keyed.window("ts", "10 minutes").agg(n=ef.count(), total=ef.sum("value"))
    else:
        result = keyed.intervalJoin(time="ts", within="1 minute")
    whole, broken = MemorySink(), Trouble(MemorySink(), 3)
    run(result, tmp_path / "whole", whole, mode="append")
    with pytest.raises(ef.QueryFailed, match="the driver is gone"):
        run(result, tmp_path / "broken", broken, mode="append")
    assert Checkpoint.open(tmp_path / "broken").last().batch == 2
    run(result, tmp_path / "broken", broken, mode="append")
    assert sorted(broken.sink.tables) == sorted(whole.tables)
    for batch, expected in whole.tables.items():
        names = expected.column_names
        assert comparable(broken.sink.tables[batch], names) == comparable(expected, names)
    manifests = [Checkpoint.open(tmp_path / name).last() for name in ("whole", "broken")]
    assert manifests[0].event_time == manifests[1].event_time
    whole_rows, broken_rows = (manifest.metrics["state_rows"] for manifest in manifests)
    assert whole_rows == broken_rows > 0
    assert verify(tmp_path / "broken").intact


# --- joins ---------------------------------------------------------------------------------------


def pairs_of_spark(left, right, where):
    """(key, id, id) of Spark's own join."""
    joined = left.alias("l").join(right.alias("r"), F.expr(f"l.word = r.word AND {where}"))
    return sorted(map(tuple, joined.select("l.word", "l.id", "r.id").collect()))


def pairs_of(table):
    return sorted(
        (row["word"], row["left_id"], row["right_id"])
        for row in table.select(["word", "left_id", "right_id"]).to_pylist()
    )


def test_self_join_gives_the_pairs_of_spark(spark, tmp_path):
    table = rows_of(7, 600)
    df = spark.createDataFrame(table)
    expected = pairs_of_spark(
        df,
        df,
        "(l.ts < r.ts OR l.ts = r.ts AND l.id < r.id) AND r.ts - l.ts <= INTERVAL '40' SECOND",
    )
    assert len(expected) > 100
    batch = ef.keyed(df, "word").balance("key", partitions=3)
    assert pairs_of(batch.intervalJoin(time="ts", within="40 seconds").toArrow()) == expected
    sink = MemorySink()
    stream = ef.keyed(stream_of(spark, tmp_path / "in", table), "word")
    # A table that is replanned after every batch: keys move with the rows that are kept of them.
    stream = stream.balance("table", partitions=3).replan(theta=0.01, certainty=0, margin=0)
    joined = stream.withWatermark("ts", "3 minutes").intervalJoin(time="ts", within="40 seconds")
    query = run(joined, tmp_path / "ckpt", sink)
    assert pairs_of(sink.table()) == expected
    metrics = query.metrics()
    assert sum(m["migrated_keys"] for m in metrics) > 0
    assert sum(m["pairs"] for m in metrics) == len(expected)
    assert sum(m["late_rows"] for m in metrics) == 0
    assert metrics[-1]["state_rows"] < table.num_rows / 2
    assert verify(tmp_path / "ckpt").intact


def test_two_streams_joined_give_the_pairs_of_spark(spark, tmp_path):
    orders, payments = rows_of(8, 500), rows_of(9, 400).drop_columns(["ratio"])
    payments = payments.rename_columns({"word": "order", "ts": "paid"})
    frames = [spark.createDataFrame(table) for table in (orders, payments)]
    expected = pairs_of_spark(
        frames[0],
        frames[1].withColumnRenamed("order", "word"),
        "abs(unix_micros(l.ts) - unix_micros(r.paid)) <= 90000000 AND l.value < r.value",
    )
    assert len(expected) > 100

    def dearer(pairs):
        return pa.compute.less(pairs["left_value"], pairs["right_value"])

    def joined(left, right):
        keyed = ef.keyed(left, "word").withWatermark("ts", "4 minutes")
        return keyed.balance("key", partitions=3).intervalJoin(
            ef.keyed(right, "order").withWatermark("paid", "3 minutes"),
            time=("ts", "paid"),
            within="90 seconds",
            where=dearer,
        )

    batch = joined(*frames)
    assert pairs_of(batch.toArrow()) == expected
    assert dict(batch.dtypes) == {
        "word": "string",
        **dict.fromkeys(("left_id", "left_value", "right_id", "right_value"), "bigint"),
        **dict.fromkeys(("left_ts", "right_paid"), "timestamp"),
        "left_ratio": "double",
    }
    streams = [stream_of(spark, tmp_path / name, t) for name, t in (("a", orders), ("b", payments))]
    sink = MemorySink()
    query = run(joined(*streams), tmp_path / "ckpt", sink)
    assert pairs_of(sink.table()) == expected
    assert query.metrics()[-1]["state_rows"] < 500


# --- refusals ------------------------------------------------------------------------------------


def test_bad_windows_are_refused_with_a_sentence(spark, tmp_path):
    df = spark.createDataFrame(rows_of(1, 10))
    keyed, other = ef.keyed(df, "word"), ef.keyed(df, "id")
    windows = keyed.window("ts", "10 minutes")
    stream = ef.keyed(stream_of(spark, tmp_path / "in", rows_of(1, 10), 1), "word")
    for attempt, message in [
        (lambda: keyed.window("tss", "10 minutes"), "did you mean 'ts'"),
        (lambda: keyed.window("value", "10 minutes"), "must be a timestamp"),
        (lambda: keyed.window("ts", "1 month"), "no fixed length"),
        (lambda: keyed.window("ts", "0 minutes"), "longer than nothing"),
        (lambda: keyed.window("ts", "1 minute", "2 minutes"), "at most the size"),
        (lambda: keyed.withWatermark("ts", "-1 minute"), "delayThreshold"),
        (lambda: keyed.withWatermark("tss", "1 minute"), "did you mean 'ts'"),
        (lambda: stream.window("ts", "1 minute").agg(n=ef.count()), "needs a watermark"),
        (lambda: stream.intervalJoin(time="ts", within="1 minute"), "needs a watermark"),
        (lambda: stream.agg(n=ef.count()).writeStream.outputMode("complete"), "every key ever"),
        (lambda: run(stream.agg(n=ef.count()), tmp_path, mode="append"), "without windows"),
        (lambda: windows.agg(window=ef.count()), "two columns 'window'"),
        (lambda: windows.intervalJoin(time="ts", within="1 minute"), "its own interval"),
        (lambda: windows.inOrder(), "cannot be combined"),
        (lambda: keyed.intervalJoin(time="t", within="1 minute"), "did you mean 'ts'"),
        (lambda: keyed.intervalJoin(time="value", within="1 minute"), "must be a timestamp"),
        (lambda: keyed.intervalJoin(time="ts", within="1 year"), "no fixed length"),
        (lambda: keyed.intervalJoin(time=("ts", "value"), within="1 second"), "one event time"),
        (
            lambda: keyed.intervalJoin(time="ts", within="1 second", prefixes=("a", "a")),
            "different prefixes",
        ),
        (
            lambda: keyed.balance("d-choices").intervalJoin(time="ts", within="1 second"),
            "no `merge`.*use key, key-isolator or table",
        ),
        (
            lambda: keyed.intervalJoin(other, time="ts", within="1 second"),
            "keys have different types",
        ),
        (
            lambda: stream.intervalJoin(keyed, time="ts", within="1 second"),
            "one side is a streaming DataFrame",
        ),
    ]:
        with pytest.raises(ef.InputError, match=message):
            attempt()


def test_a_changed_window_is_refused_and_a_changed_delay_is_carried_over(spark, tmp_path):
    stream = ef.keyed(stream_of(spark, tmp_path / "in", rows_of(1, 80), 1), "word")
    stream = stream.balance("key", partitions=1)

    def count(*size, delay="1 minute", mode="update"):
        result = stream.withWatermark("ts", delay).window("ts", *size).agg(n=ef.count())
        run(result, tmp_path / "ckpt", mode=mode)

    count("10 minutes")
    count("10 minutes", delay="2 minutes")
    for other in [("5 minutes",), ("10 minutes", "5 minutes")]:
        with pytest.raises(ef.InputError, match="another computation"):
            count(*other)
    with pytest.raises(ef.InputError, match="another computation"):
        count("10 minutes", mode="append")
