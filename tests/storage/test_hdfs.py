"""HDFS as a storage, on a real one: the conformance suite, races, kills, faults; and Spark reads it."""

import io
import json
import random
import threading
import time
from contextlib import contextmanager
from urllib.request import urlopen
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize

from evenflow.engine.in_process import run_stream
from evenflow.engine.job import Job
from evenflow.engine.keyed_states import KeyedStates
from evenflow.engine.output import Tables
from evenflow.grouping import make
from evenflow.operators import Aggregates
from evenflow.operators import count as count_rows
from evenflow.state.verification import verify
from evenflow.storage import MemoryStorage, storage_at
from evenflow.storage.hdfs import UNFINISHED
from evenflow.storage.requests import counting
from evenflow_lab.checking.store_proxy import Faults, StoreProxy
from storage import test_conformance as conformance

pytestmark = [pytest.mark.slow, pytest.mark.long]

# The whole suite runs here, too, with the fixture `storage` of this module.
globals().update(
    (name, test)
    for name, test in vars(conformance).items()
    if name.startswith("test_") and name != "test_a_range_is_short_only_where_it_passes_the_end"
)


def _at(server, **options):
    return storage_at(server.address(f"tests/{uuid4().hex}"), {**server.options, **options})


@pytest.fixture
def storage(hdfs_server):
    return _at(hdfs_server)


@contextmanager
def _through_proxy(server, faults):
    """A storage whose requests are harmed."""
    with StoreProxy.start(server.url, faults) as proxy:
        yield _at(server, http_address=proxy.url, timeout=5, patience=120), proxy


def _race(storages, name):
    """Who of several, each with a content of its own, has created an object; and that content."""
    outcomes, start = {}, threading.Barrier(len(storages))

    def attempt(number):
        start.wait()
        outcomes[number] = storages[number].create(name, b"%d" % number)

    threads = [threading.Thread(target=attempt, args=(i,)) for i in range(len(storages))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(outcomes) == len(storages), "one of them failed"
    return [b"%d" % number for number, ours in outcomes.items() if ours]


@given(ranges=st.lists(st.tuples(st.integers(0, 1 << 20), st.integers(0, 1 << 17)), max_size=6))
@settings(max_examples=15, deadline=None)
def test_a_range_is_short_only_where_it_passes_the_end(hdfs_server, ranges):
    storage, content = storage_at(hdfs_server.address("ranges"), hdfs_server.options), _content()
    if not storage.list("x"):
        storage.put("x", [content])
        storage.put("empty", [])
    ranges = [(start, start + length) for start, length in ranges]
    assert storage.read_ranges("x", ranges) == [content[a:b] for a, b in ranges]
    assert storage.read_ranges("empty", ranges) == [b""] * len(ranges)


def _content():
    return random.Random(0).randbytes(1_000_000)


def test_any_sequence_of_calls_has_the_outcome_of_a_dictionary(hdfs_server):
    class OnHdfs(conformance.AsADictionary):
        @initialize()
        def begin(self):
            self.storage, self.model = _at(hdfs_server), {}

    case = OnHdfs.TestCase
    case.settings = settings(max_examples=3, stateful_step_count=15, deadline=None)
    case("runTest").runTest()


def test_of_creators_whose_replies_are_lost_exactly_one_succeeds(hdfs_server):
    faults = Faults({"lost_reply": 0.4}, seed=5, only=("RENAME", "CREATE"))
    with _through_proxy(hdfs_server, faults) as (storage, proxy):
        for turn in range(15):
            (winner,) = _race([storage] * 4, f"turn/{turn}")
            assert storage.read(f"turn/{turn}") == winner
        assert proxy.counts()["faults"]["lost_reply"] > 20
        assert len(storage.list("")) == 15


def test_every_call_is_right_through_faults_of_every_kind(hdfs_server):
    faults = Faults.evenly(0.2, hold=0.5, slow=0.5, seed=11)
    draw, model = random.Random(3), {}
    with _through_proxy(hdfs_server, faults) as (storage, proxy):
        for step in range(60):
            name, content = f"{draw.choice('ab')}/{draw.randrange(4)}", b"%d" % step
            verb = draw.choice(["put", "put", "create", "copy", "delete", "read"])
            if verb == "put":
                storage.put(name, [content])
                model[name] = content
            elif verb == "create":
                assert storage.create(name, content) == (name not in model)
                model.setdefault(name, content)
            elif verb == "copy" and name in model:
                storage.copy(name, "c")
                model["c"] = model[name]
            elif verb == "delete":
                storage.delete(name)
                model.pop(name, None)
            elif name in model:
                assert storage.read(name) == model[name]
                assert storage.size(name) == len(model[name])
            assert storage.list("") == sorted(model)
        assert len(proxy.counts()["faults"]) >= 5
    assert {
        name: storage_at(storage.address, hdfs_server.options).read(name) for name in model
    } == (model)


def test_what_was_acknowledged_is_there_again_after_kill_and_restart(hdfs_server):
    storage = _at(hdfs_server, patience=300, timeout=10)
    body = _content()[:50_000]
    acknowledged, failures, stop = {}, [], threading.Event()

    def write(writer):
        for number in range(100_000):
            if stop.is_set():
                return
            name = f"{writer}/{number}"
            content = name.encode() + body
            try:
                if number % 2:
                    storage.put(name, [content])
                elif not storage.create(name, content):
                    failures.append(f"{name} was refused to its only creator")
            except OSError as error:
                failures.append(str(error))
                return
            acknowledged[name] = content

    writers = [threading.Thread(target=write, args=(f"w{n}",)) for n in range(3)]
    for writer in writers:
        writer.start()
    try:
        for _ in range(2):
            done = len(acknowledged)
            while len(acknowledged) < done + 15:
                assert not failures
                time.sleep(0.05)
            hdfs_server.kill()
            assert not hdfs_server.running
            hdfs_server.restart()
    finally:
        stop.set()
        for writer in writers:
            writer.join()
    assert not failures
    assert storage.list("") == sorted(acknowledged)
    for name, content in acknowledged.items():
        assert storage.read(name) == content
    left = storage.unfinished("")
    storage.delete(*left)
    assert storage.unfinished("") == []


def test_what_a_dead_writer_left_is_unfinished_and_not_listed(storage):
    made = storage.client.create(
        f"{storage._path('m')}/1", b"half", "m/1", lambda: f".x{UNFINISHED}"
    )
    assert made.endswith(f"/m/1.x{UNFINISHED}")
    assert storage.list("") == []
    assert storage.unfinished("m/") == [f"m/1.x{UNFINISHED}"]
    assert storage.unfinished("n/") == []
    assert storage.create("m/1", b"whole")
    storage.delete(*storage.unfinished(""))
    assert (storage.list(""), storage.unfinished("")) == (["m/1"], [])


def test_a_reader_sees_the_old_or_the_new_object_while_it_is_replaced(storage):
    storage.put("x", [b"0" * 1000])
    stop = threading.Event()

    def replace():
        number = 0
        while not stop.is_set():
            number = (number + 1) % 10
            storage.put("x", [b"%d" % number * 1000])

    writer = threading.Thread(target=replace)
    writer.start()
    try:
        for _ in range(40):
            seen = storage.read("x")
            assert len(seen) == 1000
            assert len(set(seen)) == 1
    finally:
        stop.set()
        writer.join()


def test_the_data_node_has_called_fsync_when_a_write_returns(hdfs_server, storage):
    before = _fsyncs(hdfs_server)
    for number in range(5):
        storage.put(f"x/{number}", [b"1"])
        assert storage.create(f"y/{number}", b"1")
    assert _fsyncs(hdfs_server) == before + 10


def _fsyncs(server):
    time.sleep(2.5)  # its numbers are those of the last second
    (names,) = _beans(server.url, "Hadoop:service=NameNode,name=NameNodeInfo")
    (node,) = json.loads(names["LiveNodes"]).values()
    beans = _beans(f"http://{node['infoAddr']}", "Hadoop:service=DataNode,name=DataNodeActivity*")
    return sum(bean["FsyncCount"] for bean in beans)


def _beans(url, query):
    with urlopen(f"{url}/jmx?qry={query}", timeout=10) as reply:
        return json.load(reply)["beans"]


def test_somebody_without_rights_is_told_so_at_once(hdfs_server, storage):
    storage.put("x", [b"1"])
    other = storage_at(storage.address, {**hdfs_server.options, "user": "somebody"})
    assert other.read("x") == b"1"
    for call in (lambda: other.put("y", [b"1"]), lambda: other.delete("x")):
        with pytest.raises(
            PermissionError, match="'somebody'; grant the rights, or give the option"
        ):
            call()
    assert storage.unfinished("") == []


def test_requests_are_counted_as_they_are_made(storage):
    with counting() as requests:
        storage.put("x", [b"123"])
        storage.read("x")
        storage.read_ranges("x", [(0, 1), (2, 3)])
        storage.list("")
        storage.delete("x")
    assert requests.to_dict() == {
        "reads": 4,
        "writes": 3,
        "lists": 1,
        "deletes": 1,
        "read_bytes": 6,
        "written_bytes": 3,
        "cached_bytes": 0,
    }


@pytest.mark.spark
def test_spark_reads_what_is_written_at_the_same_address(spark, storage):
    content = io.BytesIO()
    pq.write_table(pa.table({"k": list(range(100))}), content)
    storage.put("table/part-0.parquet", [memoryview(content.getvalue())])
    client = storage.client
    client.create(
        storage._path("table/part-1.parquet"), b"no Parquet", "", lambda: f".x{UNFINISHED}"
    )
    assert spark.read.parquet(storage.where("table")).selectExpr("sum(k)").first()[0] == 4950
    spark.range(10).write.parquet(storage.where("by-spark"))
    assert any(name.endswith(".parquet") for name in storage.list("by-spark/"))


def test_a_stream_whose_state_is_on_hdfs_ends_as_in_memory_through_faults(hdfs_server):
    schema = pa.schema([("k", pa.string())])
    chance = random.Random(1)
    batches = [
        pa.table({"k": [f"k{int(chance.paretovariate(1)) % 9}" for _ in range(30)]}, schema)
        for _ in range(5)
    ]
    job = Job(("k",), schema, KeyedStates(Aggregates(n=count_rows())), make("w-choices"), 2)
    expected, found = Tables(), Tables()
    assert len(list(run_stream(job, MemoryStorage(), batches, expected))) == 5
    faults = Faults.evenly(0.1, hold=0.5, slow=0.2, seed=2)
    with _through_proxy(hdfs_server, faults) as (storage, proxy):
        assert len(list(run_stream(job, storage, batches, found))) == 5
        assert sum(proxy.counts()["faults"].values()) >= 5
        assert not verify(storage).problems
    assert _rows(found) == _rows(expected)


def _rows(sink):
    return sorted(map(str, sink.latest("k").to_pylist()))
