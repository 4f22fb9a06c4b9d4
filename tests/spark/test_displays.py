"""Spark's own displays show a query under its name, with what evenflow has observed."""

import time

import pytest
from pyspark.sql import functions as F
from pyspark.sql.streaming import StreamingQueryListener

import evenflow as ef

pytestmark = pytest.mark.spark
ROWS = [("a", 1), ("a", 2), ("b", 3), (None, 4), ("c", 5)]


class Listening(StreamingQueryListener):
    def __init__(self):
        self.progress = []

    def onQueryStarted(self, event):
        pass

    def onQueryProgress(self, event):
        self.progress.append(event.progress)

    def onQueryIdle(self, event):
        pass

    def onQueryTerminated(self, event):
        pass


def until(found, seconds=30.0):
    end = time.monotonic() + seconds
    while not (value := found()) and time.monotonic() < end:
        time.sleep(0.1)
    return value


def descriptions(spark):
    jobs = spark.sparkContext._jsc.sc().statusStore().jobsList(None)
    found = [jobs.apply(i).description() for i in range(jobs.size())]
    return [one.get() for one in found if one.isDefined()]


def started(spark, folder, name, **options):
    spark.createDataFrame(ROWS, "page string, ms int").write.parquet(f"{folder}/in")
    clicks = spark.readStream.schema("page string, ms int").parquet(f"{folder}/in")
    mine = clicks.observe("mine", F.max("ms").alias("most"))
    writer = ef.keyed(mine, "page").balance("d-choices", partitions=3).agg(n=ef.count()).writeStream
    writer.format("noop").queryName(name).trigger(availableNow=True)
    return writer.option("checkpointLocation", f"{folder}/ckpt").start()


def test_a_listener_and_the_jobs_page_show_the_query(spark, tmp_path):
    listening = Listening()
    described_before = spark.sparkContext.getLocalProperty("spark.job.description")
    spark.streams.addListener(listening)
    try:
        query = started(spark, tmp_path, "hits")
        query.awaitTermination()
        [progress, *_] = until(lambda: list(listening.progress))
    finally:
        spark.streams.removeListener(listening)
    assert progress.name == query.name == "hits"
    assert progress.numInputRows == 5
    # Null is a key, too.
    assert progress.observedMetrics["evenflow"].asDict() == {"rows": 5, "keys": 4, "null_keys": 1}
    assert progress.observedMetrics["mine"].most == 5  # the user's own stays
    shown = until(lambda: [text for text in descriptions(spark) if "balanced by" in text])
    assert shown[0].startswith("hits\n")
    assert shown[0].endswith("\nbalanced by d-choices over 3 partitions: asked for")
    assert spark.sparkContext.getLocalProperty("spark.job.description") == described_before


def test_no_job_is_added(spark, tmp_path, monkeypatch):
    """As many jobs as without it: the rows are counted while they are read."""

    def jobs():
        return spark.sparkContext._jsc.sc().statusStore().jobsList(None).size()

    counted = []
    for run, off in (("with", False), ("without", True)):
        if off:
            monkeypatch.setattr("evenflow.spark.jobs.observed", lambda df, keys: df)
        before = jobs()
        started(spark, tmp_path / run, run).awaitTermination()
        time.sleep(1)
        counted.append(jobs() - before)
    assert counted[0] == counted[1] > 0


def test_over_connect_a_listener_has_the_same(connect, tmp_path):
    printed = connect(f"""
import time
from pyspark.sql.streaming import StreamingQueryListener
import evenflow as ef

spark.createDataFrame([("a",), ("b",)], "page string").write.parquet("{tmp_path}/in")
clicks = spark.readStream.schema("page string").parquet("{tmp_path}/in")
query = (ef.keyed(clicks, "page").balance("key", partitions=2).agg(n=ef.count()).writeStream
    .format("noop").queryName("hits").trigger(availableNow=True)
    .option("checkpointLocation", "{tmp_path}/ckpt").start())
query.awaitTermination()
progress = query.recentProgress[0]
print(progress["name"], progress["observedMetrics"]["evenflow"])
""")
    assert "hits" in printed
    assert "rows" in printed
