"""A running query: how it is stopped, what it says, what it logs."""

import logging
import threading
import time

import pyarrow as pa
import pytest

import evenflow as ef
from evenflow.spark.query import StreamingQuery
from evenflow.spark.sinks import MemorySink
from evenflow.spark.stopping import BatchGate, stoppable
from evenflow.state.checkpoint import Checkpoint
from evenflow_lab.benchmarks.spark.feeding import Feed
from evenflow_lab.checking.streaming import run, start

pytestmark = pytest.mark.spark


def test_a_query_that_is_stopped_in_a_batch_ends_in_words_that_spark_understands(spark, tmp_path):
    begun, errors = threading.Event(), []

    def long_batch(df, batch):
        def sleeping(batches):
            time.sleep(60)
            yield from batches

        begun.set()
        df.mapInArrow(sleeping, df.schema).write.format("noop").mode("overwrite").save()

    def each(df, batch):
        try:
            stoppable(long_batch)(df, batch)
        except Exception as error:
            errors.append(error)
            raise

    stream = spark.readStream.format("rate").option("rowsPerSecond", 100).load()
    query = (
        stream.writeStream.foreachBatch(each).option("checkpointLocation", str(tmp_path)).start()
    )
    assert begun.wait(60)
    time.sleep(2)  # until the job of the batch is under way
    query.stop()
    assert query.exception() is None
    [error] = errors
    # Spark's own judgement; for the job's account as it was it is a StackOverflowError.
    runtime = spark._jvm.org.apache.spark.sql.execution.streaming.runtime
    proxied = spark._jvm.py4j.Py4JException(f"RuntimeError: {error}")
    assert runtime.StreamExecution.isInterruptionException(proxied, spark._jsc.sc())
    assert "\n" not in str(error)


def test_other_errors_of_a_batch_stay_as_they_are(spark):
    from py4j.protocol import Py4JJavaError

    def failing(df, batch):
        spark._jvm.java.util.Optional.empty().get()

    with pytest.raises(Py4JJavaError, match="NoSuchElementException"):
        stoppable(failing)(None, 0)

    def interrupted(df, batch):
        spark._jvm.java.util.Objects.requireNonNull(None, "FunctionFailed: update: Interrupted")

    with pytest.raises(Py4JJavaError, match="FunctionFailed: update"):
        stoppable(interrupted)(None, 0)


class Slow(MemorySink):
    """A sink that takes its time with every batch, and says when it has begun."""

    def __init__(self, seconds):
        super().__init__()
        object.__setattr__(self, "seconds", seconds)
        object.__setattr__(self, "began", threading.Event())

    def deliver(self, output, session):
        self.began.set()
        time.sleep(self.seconds)
        super().deliver(output, session)


def counted(spark, folder, batches=2):
    """A stream of several batches, counted by key."""
    feed = Feed(folder)
    for number in range(batches):
        feed.add(pa.table({"key": [number, 7, 7]}))
    return ef.keyed(feed.stream(spark), "key").balance("key", partitions=1).agg(n=ef.count())


def test_stop_waits_for_the_batch_in_progress_to_be_committed(spark, tmp_path):
    sink, result = Slow(3.0), counted(spark, tmp_path / "in", 3)
    query = start(result, tmp_path / "ckpt", sink, now=False)
    assert sink.began.wait(120)
    query.stop()
    assert not query.isActive
    assert query.exception() is None
    assert Checkpoint.open(tmp_path / "ckpt").last().batch == 0
    assert list(sink.tables) == [0]
    # The next start continues with the batch after it.
    run(result, tmp_path / "ckpt", sink)
    assert sorted(sink.tables) == [0, 1, 2]


def test_stop_with_a_timeout_cuts_the_batch_and_it_is_run_again(spark, tmp_path):
    sink, result = Slow(5.0), counted(spark, tmp_path / "in", 1)
    query = start(result, tmp_path / "ckpt", sink, now=False)
    assert sink.began.wait(120)
    began = time.monotonic()
    query.stop(timeout=0.5)
    assert time.monotonic() - began < 60
    assert not query.isActive
    object.__setattr__(sink, "seconds", 0)
    run(result, tmp_path / "ckpt", sink)
    assert sink.latest("key").sort_by("key").to_pylist() == [{"key": 0, "n": 1}, {"key": 7, "n": 2}]


def test_stop_from_within_a_batch_ends_the_query_after_it(spark, tmp_path):
    queries, seen = [], []

    def on_batch(metrics):
        seen.append(metrics["batch"])
        queries[0].stop()

    result = counted(spark, tmp_path / "in", 3)
    queries.append(start(result, tmp_path / "ckpt", now=False, on_batch=on_batch))
    assert queries[0].awaitTermination(120)
    assert queries[0].exception() is None
    assert seen == [0]


def test_a_gate_lets_no_batch_in_once_it_is_closed():
    gate = BatchGate()
    assert gate.enter()
    assert gate.is_inside()
    assert not gate.close(timeout=0)
    assert not gate.enter()
    gate.leave()
    assert gate.close(timeout=0)


def test_a_query_has_sparks_names_and_metrics_as_a_dataframe(spark, tmp_path, caplog):
    caplog.set_level(logging.INFO, logger="evenflow")
    query = run(counted(spark, tmp_path / "in"), tmp_path / "ckpt", name="counts")
    assert query.name == "counts"
    with pytest.raises(ef.InputError, match="at most 10,000"):
        query.scale(10**6)
    assert {len(query.id), len(query.runId)} == {36}
    assert not query.isActive
    assert query.exception() is None
    assert not query.status["isTriggerActive"]
    assert query.lastProgress["batchId"] == query.recentProgress[-1]["batchId"] == 1
    rows = query.metricsDF().orderBy("batch").collect()
    assert [(row.batch, row.rows, row.scheme) for row in rows] == [(0, 3, "key"), (1, 3, "key")]
    assert [part.rows for part in rows[0].partitions] == [3]
    assert rows[0].state[0].partition == 0
    assert rows[0].durations["tasks"] > 0
    assert query.metrics() == ef.read_metrics(tmp_path / "ckpt")
    lines = [record.getMessage() for record in caplog.records if record.name == "evenflow.query"]
    assert any(line.startswith("counts: batch 1: 3 rows in ") for line in lines)


def test_a_failed_query_says_why(spark, tmp_path):
    def fail(df, batch):
        raise ef.InputError("the table is full")

    query = start(counted(spark, tmp_path / "in", 1), tmp_path / "ckpt", fail)
    with pytest.raises(ef.QueryFailed, match="the table is full"):
        query.awaitTermination(120)
    assert isinstance(query.exception(), ef.EvenflowError)
    assert "the table is full" in str(query.exception())


def test_the_metrics_of_no_batch_are_an_empty_dataframe(spark):
    from evenflow.spark.batch_metrics import metrics_frame

    assert metrics_frame(spark, []).count() == 0


@pytest.mark.parametrize(
    "words",
    [
        "[CONCURRENT_STREAM_LOG_UPDATE] Concurrent update to the log. Multiple …",
        "Multiple streaming queries are concurrently using s3a://bucket/ckpt/spark/commits.",
    ],
)
def test_a_driver_that_spark_finds_taken_over_says_so_in_our_words(tmp_path, words):
    """Spark compares its own log first if the driver was frozen between our commit and Spark's."""
    from types import SimpleNamespace

    first, second = (Checkpoint.open(tmp_path, {"key": ["k"]}) for _ in range(2))
    lease = first.acquire()
    error = Exception(words)
    spark_query = SimpleNamespace(exception=lambda: error)
    query = StreamingQuery(spark_query, None, first, lease, 1)
    assert "Multiple" in str(query.exception())
    lease.release()
    with second.acquire():
        assert "another driver has taken over the checkpoint" in str(query.exception())


def score(key, rows, state):
    """Fails for texts that are not numbers."""
    return {"total": (state or {"total": 0})["total"] + sum(float(v) for v in rows["v"])}


def merged(a, b):
    return {"total": a["total"] + b["total"]}


def test_a_row_that_a_function_fails_for_is_named_or_set_aside(spark, tmp_path, caplog):
    feed = Feed(tmp_path / "in")
    feed.add(pa.table({"k": ["a", "b"], "day": [1, 2], "v": ["1", "2"]}))
    feed.add(pa.table({"k": ["a", "b", "b"], "day": [1, 2, 2], "v": ["x\ny", "3", "4"]}))
    operator = ef.PerKey(score, state={"total": "float64"}, columns=["v"], merge=merged)
    keyed = ef.keyed(feed.stream(spark), "k", "day").balance("d-choices", partitions=2)
    result = keyed.apply(operator)

    def writer():
        place = tmp_path / "out"
        writer = result.writeStream.option("checkpointLocation", tmp_path / "c").format("parquet")
        return writer.option("path", place).trigger(availableNow=True)

    with pytest.raises(ef.QueryFailed) as caught:
        writer().start().awaitTermination()
    [text] = str(caught.value).splitlines()
    assert 'score) failed for the key ["a", 1] in batch 1, partition ' in text
    assert r"ValueError: could not convert string to float: 'x\ny' (test_query.py, line" in text
    assert len(text) < 500

    bad = tmp_path / "bad"
    with caplog.at_level("WARNING", "evenflow.query"):
        query = writer().option("deadLetterPath", bad).start()
        query.awaitTermination()
    assert "batch 1: 1 rows set aside; update (" in caplog.text
    output = ef.read_output(spark, tmp_path / "out").orderBy("batch", "k")
    assert [(r.k, r.total, r.batch) for r in output.collect()] == [
        ("a", 1.0, 0),
        ("b", 2.0, 0),
        ("b", 9.0, 1),
    ]
    [letter] = spark.read.parquet(str(bad)).collect()
    assert letter.record.asDict() == {"k": "a", "day": 1, "v": "x\ny"}
    assert (letter.key, letter.batch) == ('["a", 1]', 1)
    assert [m.get("dead_letters") for m in query.metrics()] == [None, 1]
    assert query.metricsDF().where("dead_letters = 1").count() == 1

    feed.add(pa.table({"k": ["c"], "day": [1], "v": ["no"]}))
    limited = writer().option("deadLetterPath", bad).option("deadLetterLimit", 1)
    with pytest.raises(ef.QueryFailed, match=r"deadLetterLimit allows, 1 since the query began"):
        limited.start().awaitTermination()
    for place in (tmp_path / "out", tmp_path / "c", tmp_path):
        with pytest.raises(ef.InputError, match="directory of their own"):
            writer().option("deadLetterPath", place).start()
    with pytest.raises(ef.InputError, match='add option "deadLetterPath"'):
        writer().option("deadLetterLimit", 2).start()
