"""Spark's own formats as sinks: files, tables, rows, and what is refused before the first batch."""

import logging

import pyarrow as pa
import pytest

import evenflow as ef
from evenflow_lab.benchmarks.spark.feeding import Feed

pytestmark = pytest.mark.spark


@pytest.fixture
def result(spark, tmp_path):
    feed = Feed(tmp_path / "in")
    feed.add(pa.table({"key": [1, 7, 7]}))
    feed.add(pa.table({"key": [7]}))
    return ef.keyed(feed.stream(spark), "key").balance("key", partitions=2).agg(n=ef.count())


@pytest.fixture
def writer(result, tmp_path):
    return result.writeStream.option("checkpointLocation", tmp_path / "c").trigger(
        availableNow=True
    )


@pytest.fixture
def database(spark, tmp_path):
    spark.sql(f"CREATE DATABASE sinks LOCATION '{tmp_path / 'warehouse'}'")
    yield "sinks"
    spark.sql("DROP DATABASE sinks CASCADE")


ROWS = [(1, 1), (7, 2), (7, 3)]


def test_any_batch_format_of_spark_gets_every_row_and_says_at_least_once(
    spark, writer, tmp_path, caplog
):
    out = str(tmp_path / "out")
    with caplog.at_level(logging.WARNING, "evenflow.query"):
        query = writer.start(out, "orc", partitionBy="key", compression="zlib")
        assert query.awaitTermination(300)
    assert "format 'orc' gets every row at least once" in caplog.text
    assert sorted(tuple(row) for row in spark.read.orc(out).select("key", "n").collect()) == ROWS
    assert {path.name for path in (tmp_path / "out").glob("key=*")} == {"key=1", "key=7"}


def test_to_table_makes_the_table_and_appends_by_the_names_of_columns(
    spark, result, writer, database, tmp_path
):
    assert writer.toTable(f"{database}.hits", partitionBy="key").awaitTermination(300)
    table = spark.table(f"{database}.hits")
    assert table.columns == ["n", "key"]  # Spark puts partitions last
    assert sorted(tuple(row) for row in table.select("key", "n").collect()) == ROWS
    again = result.writeStream.option("checkpointLocation", tmp_path / "d")
    with pytest.raises(ef.InputError, match="has the format 'parquet', not 'orc'"):
        again.toTable(f"{database}.hits", "orc")
    spark.sql(f"CREATE TABLE {database}.other (k INT) USING json")
    with pytest.raises(ef.InputError, match="the columns k, and the output has key, n"):
        again.format("json").toTable(f"{database}.other")
    spark.sql(f"CREATE VIEW {database}.seen AS SELECT 1 AS key")
    with pytest.raises(ef.InputError, match="is a view"):
        again.toTable(f"{database}.seen")
    with pytest.raises(ef.InputError, match="does not write to tables"):
        again.format("noop").toTable(f"{database}.new")
    with pytest.raises(ef.InputError, match="name of a format"):
        again.foreachBatch(print).toTable(f"{database}.new")


class RowsToFiles:
    """As PySpark takes it, with all three methods."""

    def __init__(self, folder):
        self.folder = folder

    def open(self, partition_id, epoch_id):
        self.file = open(f"{self.folder}/{epoch_id}-{partition_id}", "w")  # noqa: SIM115
        return True

    def process(self, row):
        self.file.write(f"{row.key} {row.n}\n")

    def close(self, error):
        self.file.write(f"{error}\n")
        self.file.close()


def test_foreach_hands_every_row_to_the_writer(writer, tmp_path):
    (tmp_path / "rows").mkdir()
    assert writer.foreach(RowsToFiles(str(tmp_path / "rows"))).start().awaitTermination(300)
    lines = [
        line for file in (tmp_path / "rows").iterdir() for line in file.read_text().split("\n")
    ]
    assert sorted(line for line in lines if line not in ("", "None")) == ["1 1", "7 2", "7 3"]


@pytest.mark.parametrize(
    ("configure", "message"),
    [
        (
            lambda w: w.start("out", "delta"),
            r"not have the format 'delta'.*io\.delta:delta-spark_4",
        ),
        (lambda w: w.toTable("t", "iceberg"), r"--packages org\.apache\.iceberg:iceberg-spark"),
        (
            lambda w: w.start("out", "parket"),
            "not have the format 'parket'; did you mean 'parquet'",
        ),
        (lambda w: w.start("out", "orc", partitionBy="page"), "no column 'page'; there are key, n"),
        (lambda w: w.start("out", partitionBy="key"), "'parquet' cannot partition its output"),
        (lambda w: w.option("keepVersion", 3).start("out"), "did you mean 'keepVersions'"),
        (lambda w: w.format("kafka").option("topic", "t").start(), "to_json"),
        (lambda w: w.format("kafka").start("out"), "without a path"),
    ],
)
def test_mistakes_are_one_sentence_before_the_first_batch(writer, tmp_path, configure, message):
    with pytest.raises(ef.InputError, match=message):
        configure(writer)
    assert not (tmp_path / "c").exists()


def test_a_misspelt_checkpoint_location_is_recognised(result):
    with pytest.raises(ef.InputError, match="in place of 'checkpoint'"):
        result.writeStream.option("checkpoint", "c").start("out", "orc")
