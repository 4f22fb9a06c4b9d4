"""`writeStream`: PySpark's methods, formats, and what is refused."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import evenflow as ef
from evenflow.spark.result import NotForStreams
from evenflow.spark.sinks import NoopSink
from evenflow.spark.stream_writer import StreamWriter
from evenflow_lab.benchmarks.spark.feeding import Feed


def settings_of(configure):
    """The settings that a writer ends with."""
    settings = []
    configure(StreamWriter(settings.append)).start()
    return settings[0]


def test_a_writer_has_the_methods_of_sparks_own():
    settings = settings_of(
        lambda writer: (
            writer.format("console")
            .outputMode("Append")
            .option("checkpointLocation", "c")
            .options(numRows=5, keepVersions=3)
            .trigger(processingTime="5 seconds")
            .queryName("q")
        )
    )
    assert (settings.format, settings.mode, settings.name) == ("console", "append", "q")
    assert settings.options == {"checkpointlocation": "c", "keepversions": "3"}
    assert settings.format_options == {"numRows": "5"}
    assert (settings.every, settings.available_now, settings.keep) == ("5 seconds", False, 3)
    for now in ({"availableNow": True}, {"once": True}):
        assert settings_of(lambda writer, now=now: writer.trigger(**now)).available_now


def test_start_takes_what_sparks_own_takes():
    settings = []
    StreamWriter(settings.append).start(
        "out", format="parquet", outputMode="update", queryName="q", checkpointLocation="c"
    )
    assert settings[0].path == "out"
    assert settings[0].options["checkpointlocation"] == "c"


@pytest.mark.parametrize(
    ("configure", "message"),
    [
        (lambda w: w.format(" "), "empty"),
        (lambda w: w.outputMode("complete"), "every key ever seen"),
        (lambda w: w.outputMode("both"), '"update" or "append"'),
        (lambda w: w.option("", "c"), "a name and a value"),
        (lambda w: w.partitionBy(), "names of columns"),
        (lambda w: w.partitionBy(["page", 3]), "names of columns"),
        (lambda w: w.foreach(3), "function of a row"),
        (lambda w: w.toTable(""), "name of a table"),
        (lambda w: w.trigger(), "one of"),
        (lambda w: w.trigger(processingTime="1 second", availableNow=True), "one of"),
        (lambda w: w.trigger(continuous="1 second"), "not available"),
        (lambda w: w.trigger(processingTime=" "), "interval"),
        (lambda w: w.queryName(""), "not empty"),
        (lambda w: w.foreachBatch(3), "function"),
        (lambda w: w.onBatch(3), "function"),
    ],
)
def test_mistakes_are_refused_where_they_are_made(configure, message):
    with pytest.raises(ef.InputError, match=message):
        configure(StreamWriter(lambda settings: None))


@pytest.fixture
def result(spark, tmp_path):
    feed = Feed(tmp_path / "in")
    feed.add(pa.table({"key": [1, 7, 7]}))
    feed.add(pa.table({"key": [7]}))
    return ef.keyed(feed.stream(spark), "key").balance("key", partitions=2).agg(n=ef.count())


@pytest.mark.spark
def test_the_result_of_a_stream_has_a_schema_and_can_only_be_written(result):
    assert result.isStreaming
    assert result.columns == ["key", "n"]
    assert result.dtypes == [("key", "bigint"), ("n", "bigint")]
    with pytest.raises(ef.InputError, match="show is not available on the result of a stream"):
        result.show()
    with pytest.raises(NotForStreams):
        result.write  # noqa: B018
    with pytest.raises(AttributeError, match="nonsense"):
        result.nonsense  # noqa: B018
    assert not hasattr(result, "select")


@pytest.mark.spark
def test_memory_is_a_view_of_the_querys_name(spark, result):
    query = result.writeStream.format("memory").queryName("hits").trigger(availableNow=True).start()
    assert query.awaitTermination(300)
    rows = sorted(map(tuple, spark.table("hits").collect()))
    assert rows == [(1, 1), (7, 2), (7, 3)]


@pytest.mark.spark
def test_other_formats_and_foreach_batch(spark, result, tmp_path, capsys):
    writer = result.writeStream.trigger(availableNow=True)
    writer.format("console").option("numRows", 1).option("checkpointLocation", tmp_path / "a")
    assert writer.start().awaitTermination(300)
    assert "batch 0: 2 rows" in capsys.readouterr().out
    writer = result.writeStream.trigger(availableNow=True).format("noop")
    assert writer.start().awaitTermination(300)
    writer = result.writeStream.trigger(availableNow=True).format(NoopSink())
    with pytest.raises(ef.InputError, match="checkpoint location is needed"):
        writer.start()
    with pytest.raises(ef.InputError, match="staging"):
        result.writeStream.format(3).option("checkpointLocation", tmp_path / "b").start()
    with pytest.raises(ef.InputError, match="needs a directory"):
        result.writeStream.option("checkpointLocation", tmp_path / "b").start()
    with pytest.raises(ef.InputError, match="queryName"):
        result.writeStream.format("memory").start()
    with pytest.raises(ef.InputError, match="keepVersions"):
        result.writeStream.format("noop").option("keepVersions", 0).start()


@pytest.mark.spark
def test_parquet_is_one_directory_per_batch(spark, result, tmp_path):
    writer = result.writeStream.option("checkpointLocation", tmp_path / "c")
    assert writer.trigger(availableNow=True).start(tmp_path / "out").awaitTermination(300)
    assert sorted(p.name for p in (tmp_path / "out").iterdir()) == [
        "_evenflow",
        "batch=0",
        "batch=1",
    ]
    assert pq.read_table(tmp_path / "out" / "batch=1", partitioning=None).to_pylist() == [
        {"key": 7, "n": 3}
    ]


@pytest.mark.spark
def test_the_checkpoint_may_be_under_sparks_own_setting(spark, result, tmp_path):
    spark.conf.set("spark.sql.streaming.checkpointLocation", str(tmp_path / "all"))
    try:
        writer = result.writeStream.queryName("mine").trigger(availableNow=True)
        assert writer.start(tmp_path / "out").awaitTermination(300)
    finally:
        spark.conf.unset("spark.sql.streaming.checkpointLocation")
    assert (tmp_path / "all" / "mine" / "evenflow").is_dir()


def test_a_folder_with_other_files_is_refused_and_another_output_is_said(
    spark, result, tmp_path, caplog
):
    """Spark would show either the files or the batches, and not both."""
    writer = result.writeStream.option("checkpointLocation", tmp_path / "c")
    writer = writer.trigger(availableNow=True)
    spark.range(3).write.parquet(str(tmp_path / "full"))
    with pytest.raises(ef.InputError, match=r"full has files .* such as 'part-.*empty directory"):
        writer.start(tmp_path / "full")
    writer.start(tmp_path / "one").awaitTermination()
    writer.start(tmp_path / "one").awaitTermination()
    assert not [r for r in caplog.records if r.levelname == "WARNING"]
    writer.start(tmp_path / "two").awaitTermination()
    assert "two is a new output of the query" in caplog.text
    assert "the rows of batches 0 to 1 are where the query has written so far" in caplog.text


def test_options_of_a_store_are_refused_where_there_is_none(result, tmp_path):
    writer = result.writeStream.option("checkpointLocation", tmp_path / "c")
    writer = writer.option("storage.regoin", "eu-west-1").trigger(availableNow=True)
    with pytest.raises(ef.InputError, match=r"'storage.regoin' .* no effect; leave it out"):
        writer.start(f"file://{tmp_path / 'out'}")
    assert not (tmp_path / "c").exists()
