"""`/metrics` in a query's own process, and the query under its name in Spark's own listener."""

import socket
import time
import urllib.error
import urllib.request

import pytest

pytest.importorskip("pyspark.sql")
pytest.importorskip("prometheus_client")
from prometheus_client.parser import text_string_to_metric_families
from pyspark.sql import functions as F
from pyspark.sql.streaming import StreamingQueryListener

import evenflow as ef
from evenflow.dashboard.history import QueryHistory
from evenflow.model import InputError
from evenflow.spark.metrics_endpoint import ServedMetrics
from evenflow.storage import storage_at

pytestmark = pytest.mark.spark


def free_port():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return taken.getsockname()[1]


def scraped(port):
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
        text = answer.read().decode()
    return {
        (sample.name, sample.labels["query"]): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def until(true, seconds=20.0):
    end = time.monotonic() + seconds
    while not true() and time.monotonic() < end:
        time.sleep(0.05)
    assert true()


def closed(port):
    try:
        scraped(port)
    except (urllib.error.URLError, ConnectionError):
        return True
    return False


class Progress(StreamingQueryListener):
    def __init__(self):
        self.names, self.observed = [], []

    def onQueryStarted(self, event):
        self.names.append(event.name)

    def onQueryProgress(self, event):
        self.names.append(event.progress.name)
        self.observed.append(event.progress.observedMetrics["clicks"].rows)

    def onQueryIdle(self, event):
        pass

    def onQueryTerminated(self, event):
        pass


def test_prometheus_and_spark_s_listener_see_the_query_under_its_name(spark, tmp_path):
    (tmp_path / "in").mkdir()
    for i in range(2):
        (tmp_path / "in" / f"{i}.json").write_text('{"page": "<b>home</b>"}\n' * 10)
    rows = spark.readStream.schema("page string").option("maxFilesPerTrigger", 1)
    rows = rows.json(str(tmp_path / "in")).observe("clicks", F.count("*").alias("rows"))
    port, listener, seen = free_port(), Progress(), []
    spark.streams.addListener(listener)

    def writer(name):
        clicks = ef.keyed(rows, "page").balance("key", partitions=2).agg(hits=ef.count())
        writer = clicks.writeStream.format("noop").queryName(name).onBatch(seen.append)
        return writer.option("checkpointLocation", str(tmp_path / name)).option("metricsPort", port)

    try:
        with writer("hits").start() as query:
            query.processAllAvailable()
            found = scraped(port)
            assert found["evenflow_batches_total", "hits"] == 2
            assert found["evenflow_rows_total", "hits"] == 20
            with pytest.raises(urllib.error.HTTPError, match="404"):
                urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=10)
        until(lambda: closed(port))
        until(lambda: len(listener.names) >= 3)
        assert set(listener.names) == {"hits"}
        assert listener.observed == [10, 10]
        assert [metrics["name"] for metrics in seen] == ["hits", "hits"]
        # The page reads the same from the checkpoint, and knows that the query was stopped.
        history = QueryHistory(str(tmp_path / "hits"), storage_at(tmp_path / "hits"))
        history.poll()
        assert (history.name, history.known(), history.state[0]) == ("hits", 2, "stopped")
    finally:
        spark.streams.removeListener(listener)
    refused = pytest.raises(InputError, match=f"cannot be served on 127.0.0.1, port {port}")
    with socket.create_server(("127.0.0.1", port)), refused:
        writer("other").start()


def test_a_wrong_port_is_refused_before_anything_starts(spark, tmp_path):
    rows = spark.readStream.format("rate").load()
    clicks = ef.keyed(rows, "value").balance("key", partitions=2).agg(hits=ef.count())

    def start(**options):
        writer = clicks.writeStream.format("noop").option("checkpointLocation", str(tmp_path / "c"))
        return writer.options(**options).start()

    for port in ("0", "-1", "x", "70000"):
        with pytest.raises(InputError, match='option "metricsPort" takes a'):
            start(metricsPort=port)
    with pytest.raises(InputError, match='add option "metricsPort"'):
        start(metricsAddress="0.0.0.0")
    assert not (tmp_path / "c").exists()


def test_queries_of_one_process_share_a_port_until_the_last_has_ended():
    port = free_port()
    first, second = (ServedMetrics(name, "127.0.0.1", port) for name in ("a", "b"))
    calls = []
    first.beside(calls.append)({"batch": 0, "rows": 3, "durations": {}})
    second.beside(None)({"batch": 5, "rows": 4, "durations": {}})
    assert len(calls) == 1
    assert scraped(port)["evenflow_rows_total", "a"] == 3
    first.close()
    assert {name for _, name in scraped(port)} == {"b"}
    active = [True]
    second.while_active(lambda: active[0])
    time.sleep(0.1)
    assert not closed(port)
    active[0] = False
    until(lambda: closed(port))
