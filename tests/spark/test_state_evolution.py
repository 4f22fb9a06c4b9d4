"""A stream on Spark that is started again with other aggregates."""

import pyarrow as pa
import pytest

import evenflow as ef
from spark_streams import add_files, rows_of, stream_of

F = pytest.importorskip("pyspark.sql.functions")

pytestmark = [pytest.mark.spark, pytest.mark.long]


def test_a_restart_with_other_aggregates_goes_on_with_what_is_kept(spark, tmp_path, caplog):
    """Against Spark's own aggregates: of all rows for what was kept, of later rows for what is new."""
    table = rows_of(3)
    stream = ef.keyed(stream_of(spark, tmp_path / "in", table, 2), "word")

    def run(*balanced, **aggregates):
        result = stream.balance(*balanced).agg(**aggregates)
        writer = result.writeStream.option("checkpointLocation", tmp_path / "ckpt")
        query = writer.trigger(availableNow=True).start(str(tmp_path / "out"))
        assert query.awaitTermination(300)

    run("w-choices", 3, hits=ef.count(), total=ef.sum("value"), gone=ef.max("value"))
    add_files(tmp_path / "in", table, 2, 3)
    run("key", 2, top=ef.max("value"), sum=ef.sum("value"), users=ef.distinct("id"))
    changes = [record.getMessage().rpartition(": ")[2] for record in caplog.records]
    assert "users is new and starts empty with batch 2" in changes
    assert "sum goes on with the state of total" in changes
    assert "top goes on with the state of gone" in changes
    assert "hits is dropped with batch 2" in changes
    add_files(tmp_path / "in", table, 3, 4)
    run("w-choices", 4, sum=ef.sum("value"), users=ef.distinct("id"), hits=ef.count())

    rows = spark.createDataFrame(table.append_column("row", pa.array(range(table.num_rows))))
    since = {file: F.col("row") >= file * table.num_rows // 8 for file in (2, 3, 4)}
    wanted = (
        rows.where(~since[4])
        .groupBy("word")
        .agg(
            F.sum("value").alias("sum"),
            F.countDistinct(F.when(since[2], F.col("id"))).alias("users"),
            F.count_if(since[3]).alias("hits"),
        )
    )
    output = spark.read.option("mergeSchema", True).parquet(str(tmp_path / "out"))
    newest = output.groupBy("word").agg(F.max_by(F.struct(*output.columns), "batch").alias("row"))
    found = newest.select("row.*").where("batch >= 3")
    assert found.count() > 15
    columns = ("word", "sum", "users", "hits")
    assert found.select(*columns).exceptAll(wanted.select(*columns)).count() == 0
    with pytest.raises(ef.InputError, match=r"users was distinct.*; give the new one another name"):
        run("key", 2, users=ef.approx_count_distinct("id"))
