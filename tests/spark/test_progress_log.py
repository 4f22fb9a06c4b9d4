"""Spark's log behind ours: a batch is passed over only if it is the very batch that was committed."""

import json
import shutil

import pytest

import evenflow as ef
from evenflow.spark.query import QueryFailed

pytestmark = pytest.mark.spark


def write(spark, folder, **counts):
    rows = [(key,) for key, number in counts.items() for _ in range(number)]
    spark.createDataFrame(rows, "k string").coalesce(1).write.mode("append").parquet(str(folder))


def run(spark, source, checkpoint, output):
    """Process what is there; one file is one batch."""
    rows = spark.readStream.schema("k string").option("maxFilesPerTrigger", 1).parquet(str(source))
    counts = ef.keyed(rows, "k").balance("key", partitions=2).agg(n=ef.count())
    query = (
        counts.writeStream.option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start(str(output))
    )
    with query:
        query.awaitTermination()


@pytest.fixture(scope="module")
def three_batches(spark, tmp_path_factory):
    places = [tmp_path_factory.mktemp("three") / name for name in ("in", "checkpoint", "out")]
    for counts in ({"a": 10, "b": 7}, {"a": 10, "c": 5}, {"a": 10, "d": 5}):
        write(spark, places[0], **counts)
    run(spark, *places)
    write(spark, places[0], a=10, e=5)  # for the next start
    return places


@pytest.fixture
def ran(three_batches, tmp_path):
    """A query after three batches, and rows for a fourth: (source, checkpoint, output)."""
    _, *ours = three_batches
    return three_batches[0], *(shutil.copytree(place, tmp_path / place.name) for place in ours)


def test_new_rows_are_not_dropped_when_sparks_part_is_gone(spark, ran):
    _, checkpoint, _ = ran
    shutil.rmtree(checkpoint / "spark")
    with pytest.raises(QueryFailed, match=r"batch 0 .* other rows.* restore"):
        run(spark, *ran)


def test_new_rows_are_not_dropped_when_the_tail_of_sparks_log_is_gone(spark, ran):
    _, checkpoint, _ = ran
    for file in [*(checkpoint / "spark").glob("*/2"), *(checkpoint / "spark").glob("*/*/2")]:
        file.unlink()
    for file in checkpoint.glob("spark/**/.2.crc"):
        file.unlink()
    with pytest.raises(QueryFailed, match=r"batch 2 .* other rows.* restore"):
        run(spark, *ran)


def test_a_batch_that_spark_does_not_know_to_be_done_is_passed_over(spark, ran):
    _, checkpoint, output = ran
    (checkpoint / "spark/commits/2").unlink()
    (checkpoint / "spark/commits/.2.crc").unlink(missing_ok=True)
    run(spark, *ran)
    rows = spark.read.parquet(str(output)).where("batch = 3")
    assert {(row.k, row.n) for row in rows.collect()} == {("a", 40), ("e", 5)}


def test_another_querys_log_is_refused(spark, ran):
    _, checkpoint, _ = ran
    metadata = checkpoint / "spark/metadata"
    metadata.write_text(json.dumps({"id": "11111111-2222-3333-4444-555555555555"}))
    (checkpoint / "spark/.metadata.crc").unlink(missing_ok=True)
    with pytest.raises(QueryFailed, match=r"batch 3 .* another query.* restore"):
        run(spark, *ran)
