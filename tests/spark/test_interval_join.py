"""Two streams with a hot key on both sides: the pairs of Spark's own join, and tasks of equal size."""

from collections import Counter

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import evenflow as ef
from evenflow.spark.sinks import MemorySink
from evenflow.state.checkpoint import Checkpoint
from evenflow.state.verification import verify
from evenflow_lab.benchmarks.spark.feeding import Feed
from evenflow_lab.checking.streaming import run

F = pytest.importorskip("pyspark.sql.functions")

pytestmark = pytest.mark.spark

BATCHES, ROWS = 4, 1200
SECOND = 1_000_000
BEGIN = 1_700_000_000


def batches_of(side):
    """Micro-batches in which one key has 30 % of the rows; one in fifty has none."""
    rng = np.random.default_rng(side)
    for number in range(BATCHES):
        keys = np.where(rng.random(ROWS) < 0.3, -1, rng.integers(0, 900, ROWS))
        times = (number * 60 + rng.integers(0, 60, ROWS)) * SECOND + 1_700_000_000 * SECOND
        yield pa.table(
            {
                "key": pa.array(keys, mask=rng.random(ROWS) < 0.02),
                "at": pa.array(times).cast(pa.timestamp("us", "UTC")),
                "id": pa.array(np.arange(ROWS) + number * ROWS),
            }
        )


def test_a_stream_join_whose_hottest_key_has_30_percent_of_both_sides_is_balanced_and_sparks(
    spark, tmp_path
):
    sides = [list(batches_of(side)) for side in (0, 1)]
    feeds = [Feed(str(tmp_path / name), 2) for name in ("left", "right")]
    for feed, batches in zip(feeds, sides, strict=True):
        for batch in batches:
            feed.add(batch)
    left, right = (
        ef.keyed(feed.stream(spark), "key").withWatermark("at", "1 minute") for feed in feeds
    )
    joined = left.balance("auto", partitions=8).intervalJoin(right, time="at", within="5 seconds")
    sink = MemorySink()
    query = run(joined, tmp_path / "checkpoint", sink)
    metrics = query.metrics()
    assert metrics[0]["max_over_average"] > 1.3
    assert max(one["max_over_average"] for one in metrics[2:]) <= 1.3
    assert Checkpoint.open(tmp_path / "checkpoint").last().plan["split"]
    assert verify(tmp_path / "checkpoint").intact

    frames = [spark.createDataFrame(pa.concat_tables(batches)) for batches in sides]
    expected = (
        frames[0]
        .alias("l")
        .join(
            frames[1].alias("r"),
            F.expr("l.key = r.key AND abs(unix_micros(l.at) - unix_micros(r.at)) <= 5000000"),
        )
    )
    wanted = expected.select("l.key", "l.id", F.col("r.id").alias("other")).toArrow()
    found = sink.table().select(["key", "left_id", "right_id"]).rename_columns(wanted.column_names)
    order = [(name, "ascending") for name in wanted.column_names]
    assert wanted.num_rows > 50_000
    assert pc.all(pc.equal(found.sort_by(order)["id"], wanted.sort_by(order)["id"])).as_py()
    assert found.sort_by(order).combine_chunks().equals(wanted.sort_by(order).combine_chunks())


CONDITION = "l.key = r.key AND abs(unix_micros(l.at) - unix_micros(r.at)) <= 5000000"
COLUMNS = ["key", "left_id", "right_id"]


def few(side, n=250):
    """Rows with a hot key, null keys and null times."""
    rng = np.random.default_rng(side)
    times = pa.array((BEGIN + rng.integers(0, 200, n)) * SECOND, mask=rng.random(n) < 0.1)
    keys = np.where(rng.random(n) < 0.3, -1, rng.integers(0, 20, n))
    return pa.table(
        {
            "key": pa.array(keys, mask=rng.random(n) < 0.1),
            "at": times.cast(pa.timestamp("us", "UTC")),
            "id": pa.array(np.arange(n)),
        }
    )


def joined_by_spark(left, right, how, condition=CONDITION):
    joined = left.alias("l").join(right.alias("r"), F.expr(condition), how)
    key = F.coalesce("l.key", "r.key").alias("key")
    return joined.select(key, F.col("l.id").alias("left_id"), F.col("r.id").alias("right_id"))


def sorted_rows(rows):
    return sorted((tuple(row) for row in rows), key=str)


LONG = [pytest.param(how, marks=pytest.mark.long) for how in ("left", "rightouter")]


@pytest.mark.parametrize("how", ["full_outer", *LONG])
def test_an_outer_interval_join_of_batch_DataFrames_is_sparks(spark, how):
    left, right = (spark.createDataFrame(few(side)) for side in (3, 4))

    def ordered(pairs):
        return pc.less(pairs["left_id"], pairs["right_id"])

    joined = (
        ef.keyed(left, "key")
        .balance("table", partitions=3)
        .intervalJoin(ef.keyed(right, "key"), time="at", within="5 seconds", where=ordered, how=how)
    )
    wanted = joined_by_spark(left, right, how, f"{CONDITION} AND l.id < r.id")
    rows = sorted_rows(joined.select(COLUMNS).collect())
    assert rows == sorted_rows(wanted.collect())
    assert any(row[1] is None or row[2] is None for row in rows)


@pytest.mark.long
@pytest.mark.parametrize("how", ["left", "full"])
def test_an_outer_interval_join_of_streams_puts_out_the_rows_of_sparks(spark, tmp_path, how):
    feeds = [Feed(str(tmp_path / name), 1) for name in ("left", "right")]
    far = BEGIN + 10**6  # what comes last closes all that was before
    for feed, table in zip(feeds, (few(5), few(6)), strict=True):
        if how == "full":  # Spark's own stream pairs null with null there, unlike its batch join
            table = table.filter(pc.is_valid(table["key"]))
        order = np.argsort(table["at"].to_numpy(zero_copy_only=False), kind="stable")
        for part in np.array_split(order, 4):
            feed.add(table.take(pa.array(part)))
        for number in range(3):
            at = pa.array([(far + number) * SECOND]).cast(pa.timestamp("us", "UTC"))
            feed.add(pa.table({"key": pa.array([-2]), "at": at, "id": pa.array([far])}))
    sides = [feed.stream(spark).withWatermark("at", "10 seconds") for feed in feeds]
    sink = MemorySink()
    joined = (
        ef.keyed(sides[0], "key")
        .balance(partitions=3)
        .intervalJoin(ef.keyed(sides[1], "key"), time="at", within="5 seconds", how=how)
    )
    query = run(joined, tmp_path / "checkpoint", sink)
    apart = "INTERVAL 5 SECONDS"
    condition = f"l.key = r.key AND l.at >= r.at - {apart} AND l.at <= r.at + {apart}"
    theirs = (
        joined_by_spark(*sides, how, condition)
        .writeStream.format("memory")
        .queryName(f"outer_{how}")
        .option("checkpointLocation", str(tmp_path / "spark"))
        .trigger(availableNow=True)
        .start()
    )
    assert theirs.awaitTermination(300)
    wanted = map(tuple, spark.table(f"outer_{how}").collect())
    found = [tuple(row[name] for name in COLUMNS) for row in sink.table().to_pylist()]
    ours, others = Counter(found), Counter(wanted)
    assert ours - others == others - ours == Counter()
    assert sum(one.get("unmatched", 0) for one in query.metrics()) > 50


def test_outer_interval_joins_that_are_refused(spark):
    keyed = ef.keyed(spark.createDataFrame(few(7, 5)), "key")
    for arguments, message in (
        ({"how": "left"}, "needs another DataFrame"),
        ({"other": keyed, "how": "semi"}, "inner, left, right or full"),
        ({"other": keyed, "how": None}, "got None"),
    ):
        with pytest.raises(ef.InputError, match=message):
            keyed.intervalJoin(**arguments, time="at", within="1 second")
