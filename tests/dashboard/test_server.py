"""The data behind the page: answers, refusals in sentences, updates as they happen."""

import json
import threading
import urllib.request

import numpy as np
import pytest

pytest.importorskip("fastapi")
from fastapi.testclient import TestClient
from prometheus_client.parser import text_string_to_metric_families

from evenflow.dashboard.consumers import ConsumerLag
from evenflow.dashboard.history import QueryHistory
from evenflow.dashboard.server import build_app
from evenflow.dashboard.serving import PageServer
from evenflow.dashboard.sources import FleetStatus, Sources
from evenflow.model import InputError
from evenflow.state.metrics import put_metrics
from evenflow.storage import storage_at
from recorded_batches import HOSTILE, batch_metrics, write_checkpoint

TOKEN = "a-token-that-nobody-guesses"


def history_of(path):
    history = QueryHistory(str(path), storage_at(path))
    history.poll()
    return history


@pytest.fixture(scope="module")
def client(tmp_path_factory):
    path = tmp_path_factory.mktemp("ckpt") / "hits"
    write_checkpoint(path, 30, 6, keys=HOSTILE)
    return TestClient(build_app(Sources([history_of(path)])))


def test_series_and_batches_are_those_of_the_checkpoint(client):
    found = client.get("/api/queries/0/series?points=10").json()
    assert found["batches"] == 30
    assert found["per_point"] == 3
    assert [one["what"] for one in found["events"]] == ["key → d-choices", "d-choices → table"]
    begin = found["time"][5]
    part = client.get(f"/api/queries/0/series?begin={begin}").json()
    assert part["first"][0] == 15
    batch = client.get("/api/queries/0/batches/7").json()
    rows = batch["partition_loads"]["rows"]
    assert rows == sorted(rows, reverse=True)
    assert sum(rows) == batch["rows"]
    assert [json.loads(one["key"])[0] for one in batch["hot_keys"]] == HOSTILE
    assert client.get("/api/queries/0/batches/-1").json()["batch"] == 29


@pytest.mark.parametrize(
    ("path", "status", "sentence"),
    [
        ("/api/queries/7/series", 404, "There is no query 7 on this page."),
        ("/api/queries/0/batches/99", 404, "Nothing is known of batch 99."),
        ("/api/consumers/0", 404, "There is no consumer group 0 on this page."),
        ("/api/fleet", 404, "There is no fleet on this page."),
        (
            "/api/queries/0/what-if?scheme=bogus&partitions=4",
            422,
            "No grouping scheme is called 'bogus'",
        ),
        ("/api/queries/0/what-if?scheme=key&partitions=0", 422, "Partitions must be"),
        ("/api/queries/0/what-if?scheme=key&partitions=99999", 422, "Got 99999 partitions"),
        ("/api/queries/0/what-if?scheme=key&partitions=4&theta=0.1", 422, "Θmax is for the scheme"),
        ("/api/queries/0/what-if?scheme=table&partitions=4&theta=-1", 422, "Θmax must be"),
    ],
)
def test_a_refusal_is_a_sentence(client, path, status, sentence):
    answer = client.get(path)
    assert answer.status_code == status
    assert answer.json()["error"].startswith(sentence)
    assert answer.json()["error"].endswith(".")


def test_prometheus_own_parser_reads_the_page_s_metrics(client):
    answer = client.get("/metrics")
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    families = {one.name: one for one in text_string_to_metric_families(answer.text)}
    (sample,) = families["evenflow_batches"].samples
    assert (sample.labels, sample.value) == ({"query": "hits"}, 30)
    assert "hacked" not in answer.text


def test_a_broker_and_a_fleet_that_do_not_answer_are_said_in_a_sentence(tmp_path):
    pytest.importorskip("confluent_kafka")
    group = ConsumerLag("127.0.0.1:1", "clicks", "sessions")

    class Broken:
        def read(self):
            raise InputError("the broker does not answer")

    group._reader = Broken()
    group.poll()
    fleet = FleetStatus(object())
    fleet.poll = lambda: False
    client = TestClient(build_app(Sources([], [group], fleet)))
    assert client.get("/api/consumers/0").json()["error"] == "The broker does not answer."
    assert client.get("/api/fleet").json() == {"error": None, "status": None}
    assert client.get("/api/overview").json()["consumers"][0]["messages"] is None


def test_lag_is_read_again_and_again_and_exposed(tmp_path):
    pytest.importorskip("confluent_kafka")
    from evenflow.kafka.lag import PartitionLag

    group = ConsumerLag("broker:9092", "clicks", "sessions")

    class Reader:
        left = 10

        def read(self):
            self.left -= 3
            return [
                PartitionLag(0, 5, 5 + self.left, self.left, 1.5),
                PartitionLag(1, None, 0, 0, None),
            ]

    group._reader = Reader()
    for _ in range(3):
        group.poll()
    assert group.to_json()["messages"] == [7, 4, 1]
    text = TestClient(build_app(Sources([], [group]))).get("/metrics").text
    found = {
        (sample.name, sample.labels["partition"]): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }
    assert found["evenflow_consumer_lag_messages", "0"] == 1
    assert found["evenflow_consumer_lag_seconds", "0"] == 1.5
    assert ("evenflow_consumer_lag_seconds", "1") not in found


def test_a_committed_batch_is_pushed_to_the_page(tmp_path):
    write_checkpoint(tmp_path, 2, 3)
    sources = Sources([QueryHistory(str(tmp_path), storage_at(tmp_path))], every=0.05)
    with PageServer(sources, TOKEN) as server:
        address = f"http://127.0.0.1:{server.port}/api/updates"
        request = urllib.request.Request(address, headers={"Authorization": f"Bearer {TOKEN}"})
        with urllib.request.urlopen(request, timeout=20) as stream:
            seen = _overview(stream, lambda query: query["batches"] == 2)
            assert seen["newest"]["batch"] == 1

            def commit():
                rng = np.random.default_rng(0)
                put_metrics(storage_at(tmp_path).under("evenflow"), batch_metrics(2, 3, rng))

            threading.Timer(0.2, commit).start()
            assert _overview(stream, lambda query: query["batches"] == 3)["newest"]["batch"] == 2
    assert server.url == f"http://127.0.0.1:{server.port}/?token={TOKEN}"


def _overview(stream, enough):
    for line in stream:
        if line.startswith(b"data: "):
            query = json.loads(line[6:])["queries"][0]
            if enough(query):
                return query
    raise AssertionError("the stream ended")


def test_a_port_that_is_taken_is_refused_with_the_remedy(tmp_path):
    with (
        PageServer(Sources([]), TOKEN) as server,
        pytest.raises(InputError, match=r"cannot listen on 127\.0\.0\.1, port \d+.*choose another"),
    ):
        PageServer(Sources([]), TOKEN, port=server.port)
