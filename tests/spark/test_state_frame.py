"""`ef.read_state`: committed state as a DataFrame, read by tasks, as of any kept batch."""

import json

import pytest

pytest.importorskip("pyspark.sql")

import evenflow as ef
from evenflow.model import InputError

pytestmark = pytest.mark.spark


def test_the_state_of_any_kept_batch_is_a_dataframe_whatever_the_query_does_meanwhile(
    spark, tmp_path
):
    (tmp_path / "in").mkdir()

    def put(number, *rows):
        text = "\n".join(json.dumps({"page": page, "user": user}) for page, user in rows)
        (tmp_path / "in" / f"{number}.json").write_text(text)

    put(0, ("home", 1), ("home", 2), (None, 3), ("é", 1))
    source = spark.readStream.schema("page string, user bigint").json(str(tmp_path / "in"))
    checkpoint = str(tmp_path / "ckpt")
    clicks = ef.keyed(source, "page").balance("key", partitions=3)
    writer = clicks.agg(hits=ef.count(), users=ef.sum("user")).writeStream.format("noop")
    with writer.option("checkpointLocation", checkpoint).start() as query:
        query.processAllAvailable()
        first = ef.read_state(spark, checkpoint)
        put(1, ("home", 9), ("new", 9))
        query.processAllAvailable()
        query.scale(5)
        put(2, *((f"page {i}", i) for i in range(300)))
        query.processAllAvailable()
        last = ef.read_state(spark, checkpoint)
        assert last.columns[:2] == ["page", "hits__count"]
        assert last.rdd.getNumPartitions() == 5
        found = {row["page"]: (row["hits__count"], row["_batch"]) for row in last.collect()}
    assert found == {
        "home": (3, 1),
        None: (1, 0),
        "é": (1, 0),
        "new": (1, 1),
        **{f"page {i}": (1, 2) for i in range(300)},
    }
    # What was opened before the others were committed is as it was.
    assert {row["page"]: row["hits__count"] for row in first.collect()} == {
        "home": 2,
        None: 1,
        "é": 1,
    }
    one = ef.read_state(spark, checkpoint, batch=1)
    assert one.where("page = 'home'").first()["hits__count"] == 3
    assert one.count() == 4
    with pytest.raises(Exception, match="batch 9 is not kept"):
        ef.read_state(spark, checkpoint, batch=9)
    with pytest.raises(InputError, match="is not a checkpoint of evenflow"):
        ef.read_state(spark, str(tmp_path / "nowhere"))
