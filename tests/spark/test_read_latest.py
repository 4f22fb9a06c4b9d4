"""The newest row of each key in Parquet output, and few files of it."""

import os

import pytest

import evenflow as ef
from spark_streams import comparable, rows_of, stream_of

pytestmark = pytest.mark.spark


def test_read_latest_has_the_newest_row_of_every_key(spark, tmp_path):
    """Null keys and windows included; and one file per batch where `rowsPerFile` asks for it."""
    table = rows_of(4, 300)
    stream = stream_of(spark, tmp_path / "in", table, 3)
    keyed = ef.keyed(stream, "word").withWatermark("ts", "1 day").window("ts", "10 minutes")
    result = keyed.balance("key", partitions=3).agg(n=ef.count(), total=ef.sum("value"))
    writer = result.writeStream.option("checkpointLocation", tmp_path / "ckpt")
    writer = writer.option("rowsPerFile", 1000).trigger(availableNow=True)
    writer.start(tmp_path / "out").awaitTermination()
    latest = ef.read_latest(spark, tmp_path / "out", "word", "window")
    files = [name for name in os.listdir(tmp_path / "in") if name.endswith(".parquet")]
    df = spark.read.parquet(*(str(tmp_path / "in" / name) for name in files))
    whole = ef.keyed(df, "word").window("ts", "10 minutes").balance("key", partitions=2)
    expected = whole.agg(n=ef.count(), total=ef.sum("value"))
    names = ["word", "window", "n", "total"]
    assert latest.columns == [*names, "batch"]
    assert comparable(latest.toArrow(), names) == comparable(expected.toArrow(), names)
    assert ef.read_output(spark, tmp_path / "out").count() > latest.count()
    for batch in range(3):
        parts = os.listdir(tmp_path / "out" / f"batch={batch}")
        assert len([name for name in parts if name.endswith(".parquet")]) == 1
    with pytest.raises(ef.InputError, match="needs the key columns"):
        ef.read_latest(spark, tmp_path / "out")
    with pytest.raises(ef.InputError, match="no column 'wrd'; did you mean 'word'"):
        ef.read_latest(spark, tmp_path / "out", "wrd")
    with pytest.raises(ef.InputError, match="rowsPerFile"):
        run_with_option(result, tmp_path, "many")


def run_with_option(result, tmp_path, value):
    writer = result.writeStream.option("checkpointLocation", tmp_path / "other")
    run_later = writer.option("rowsPerFile", value).trigger(availableNow=True)
    run_later.start(tmp_path / "there")
