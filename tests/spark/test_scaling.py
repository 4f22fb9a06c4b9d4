"""`partitions="auto"` on Spark: more for a load that grows, fewer when it has gone, nothing lost."""

import threading
import time

import pyarrow as pa
import pytest

import evenflow as ef
from evenflow.operators import Aggregates
from evenflow.operators.service_time import ServiceTime
from evenflow_lab.benchmarks.spark.feeding import Feed

pytestmark = pytest.mark.spark
SECONDS_PER_ROW = 0.02


def test_partitions_follow_the_load_and_a_restart_goes_on(spark, tmp_path):
    feed = Feed(f"{tmp_path}/in")
    added, stopping = [0], threading.Event()
    rate = [25]  # rows of a file, four files a second

    def feeding():
        while not stopping.wait(0.25):
            feed.add(pa.table({"key": [f"key {i % 40}" for i in range(rate[0])]}))
            added[0] += rate[0]

    def start():
        operator = ServiceTime(Aggregates(n=ef.count()), SECONDS_PER_ROW)
        keyed = ef.keyed(spark.readStream.schema("key string").parquet(f"{tmp_path}/in"), "key")
        keyed = keyed.balance("d-choices", partitions="auto:most=6,patience=2,target=0.6,high=0.8")
        writer = keyed.apply(operator).writeStream.format("memory").queryName("scaled")
        return writer.option("checkpointLocation", f"{tmp_path}/ckpt").start()

    def sizes(query):
        return [metrics["planned_partitions"] for metrics in query.metrics()]

    def until(condition, seconds=90):
        end = time.monotonic() + seconds
        while not condition() and time.monotonic() < end:
            time.sleep(0.2)
        return condition()

    feed.add(pa.table({"key": ["key 0"]}))
    added[0] += 1
    feeder = threading.Thread(target=feeding)
    feeder.start()
    try:
        query = start()
        assert until(lambda: sizes(query) and sizes(query)[-1] >= 3), sizes(query)
        last = query.metrics()[-1]
        assert last["scaling"]["arriving"] > 0
        query.stop()
        before = sizes(query)[-1]
        query = start()
        done = len(sizes(query))
        assert until(lambda: len(sizes(query)) > done)
        assert sizes(query)[done] >= 3, (before, sizes(query))  # not the two that it began with
        rate[0] = 2
        assert until(lambda: sizes(query)[-1] <= 2), sizes(query)
    finally:
        stopping.set()
        feeder.join()
    query.processAllAvailable()
    query.stop()
    state = ef.read_state(spark, f"{tmp_path}/ckpt")
    [counted] = [name for name in state.columns if name not in ("key", "_batch")]
    assert sum(row[counted] for row in state.collect()) == added[0]


def test_what_is_no_number_of_partitions_is_refused(spark, tmp_path):
    rows = spark.createDataFrame([("a",)], "page string")
    for wrong in ("many", "auto:most=0", 0, 1.5):
        with pytest.raises(ef.InputError):
            ef.keyed(rows, "page").balance(partitions=wrong)
    assert (
        ef.keyed(rows, "page").balance(partitions="auto").agg(n=ef.count()).collect()[0]["n"] == 1
    )
