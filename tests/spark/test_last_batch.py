"""`availableNow` with windows in append mode: it ends and goes on as Spark's own does."""

import pytest

import evenflow as ef
from evenflow.spark.sinks import MemorySink
from evenflow.state.checkpoint import Checkpoint
from evenflow.state.verification import verify
from evenflow_lab.checking.streaming import run, start
from spark_streams import add_files, comparable, rows_of, stream_of

F = pytest.importorskip("pyspark.sql.functions")

pytestmark = pytest.mark.spark

NAMES = ["word", "window", "n"]


def test_windows_are_closed_as_spark_closes_them_at_the_end_of_availableNow(spark, tmp_path):
    """Twice, with rows that come in between: the same batches with the same numbers and rows."""
    table = rows_of(11, 400, disorder=6)
    theirs, ours = {}, MemorySink()
    stream = stream_of(spark, tmp_path / "in", table, 2).withWatermark("ts", "2 minutes")
    own = stream.groupBy("word", F.window("ts", "2 minutes")).agg(F.count("*").alias("n"))
    balanced = ef.keyed(stream, "word").window("ts", "2 minutes").balance("key", partitions=2)
    for last in (2, 4):
        add_files(tmp_path / "in", table, 2 if last == 4 else 0, last)
        query = (
            own.writeStream.outputMode("append")
            .foreachBatch(lambda df, batch: theirs.update({batch: df.toArrow()}))
            .option("checkpointLocation", str(tmp_path / "theirs"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        query = start(balanced.agg(n=ef.count()), tmp_path / "ours", ours, mode="append")
        assert query.awaitTermination(300)
        assert not query.isActive
        assert query.exception() is None
    assert sorted(ours.tables) == sorted(theirs) == list(range(6))
    for batch, expected in theirs.items():
        assert comparable(ours.tables[batch], NAMES) == comparable(expected, NAMES), batch
    assert ours.tables[2].num_rows > 0
    assert ours.tables[5].num_rows > 0
    assert verify(tmp_path / "ours").intact


class Fails(MemorySink):
    """Takes the output of batches with rows, and not that of the last one."""

    def deliver(self, output, session):
        if output.batch == 1:
            raise RuntimeError("no room for the last batch")
        super().deliver(output, session)


def test_a_last_batch_that_fails_fails_the_query_and_comes_with_the_next_start(spark, tmp_path):
    stream = stream_of(spark, tmp_path / "in", rows_of(11, 400), 1)
    keyed = ef.keyed(stream, "word").withWatermark("ts", "1 minute").window("ts", "1 minute")
    result = keyed.balance("key", partitions=2).agg(n=ef.count())
    with pytest.raises(ef.QueryFailed, match="no room for the last batch"):
        run(result, tmp_path / "ckpt", Fails(), mode="append")
    sink = MemorySink()
    run(result, tmp_path / "ckpt", sink, mode="append")
    assert sink.tables[1].num_rows > 0
    assert Checkpoint.open(tmp_path / "ckpt").last().closings == 1
