"""Object stores under faults, races and forks, and what they never show."""

import multiprocessing
import pickle
import subprocess
import sys
import threading
from collections import Counter
from dataclasses import replace
from uuid import uuid4

import pytest

from evenflow.storage import ObjectStorage, storage_at
from evenflow.storage import object_store as object_store_module
from evenflow.storage.requests import counting
from evenflow.storage.store_errors import StoreError
from evenflow_lab.checking.disk_s3 import DiskS3
from evenflow_lab.checking.store_proxy import Faults, StoreProxy
from stub_store import s3_error, stub_store

KEYS = {"access_key_id": "AKIAHUSH", "secret_access_key": "hush"}


def in_folder(endpoint, **options):
    place = endpoint.uri(f"tests/{uuid4().hex}")
    return storage_at(place, {**endpoint.storage_options, **options})


@pytest.fixture(scope="module")
def proxy(s3_server):
    with StoreProxy.start(s3_server.endpoint.url) as started:
        yield started


@pytest.fixture
def through(s3_server, proxy):
    """A storage behind the proxy, which gives a request one second."""
    yield in_folder(s3_server.endpoint.through(proxy.url), read_timeout="1s")
    proxy.inject(Faults())


@pytest.fixture(scope="module")
def disk_s3():
    with DiskS3.start() as started:
        yield started


# --- faults --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "kind",
    [
        "error",
        "lost_reply",
        pytest.param("throttle", marks=pytest.mark.long),
        pytest.param("unavailable", marks=pytest.mark.long),
        pytest.param("timeout", marks=pytest.mark.long),
        pytest.param("slow_read", marks=pytest.mark.long),
    ],
)
def test_faults_that_pass_are_not_noticed(through, proxy, kind):
    through.put("old", [b"content"])
    proxy.reset()
    proxy.inject(Faults(faults={kind: 0.4}, hold=1.5, slow=0.3, seed=3))
    for i in range(2):
        through.put(f"put/{i}", [b"1"])
        assert through.create(f"create/{i}", b"mine"), "its own, also if the reply was lost"
        assert not through.create("old", b"other")
        assert through.read("old") == b"content"
        assert through.size("old") == 7
        assert through.read_ranges("old", [(0, 2), (5, 9)]) == [b"co", b"nt"]
        through.copy("old", f"copy/{i}")
        assert through.list("put/") == [f"put/{n}" for n in range(i + 1)]
        through.delete(f"copy/{i}", "never there")
    assert through.list("") == ["create/0", "create/1", "old", "put/0", "put/1"]
    assert proxy.counts()["faults"][kind] > 3


@pytest.mark.parametrize("kind", [pytest.param("error", marks=pytest.mark.long), "lost_reply"])
def test_an_upload_in_parts_survives_faults(through, proxy, kind, monkeypatch):
    monkeypatch.setattr(object_store_module, "_PART", 5 << 20)  # the least that S3 allows
    content = bytes(range(256)) * (11 << 12)
    proxy.inject(Faults(faults={kind: 0.3}, seed=2, only=("MULTIPART",)))
    for _ in range(2):
        through.put("large", [content[:100], memoryview(content)[100:]])
    assert proxy.counts()["faults"][kind] > 2
    proxy.inject(Faults())
    assert through.read("large") == content


def test_a_create_that_was_applied_before_its_reply_was_lost_is_ones_own(through, proxy):
    proxy.reset()
    proxy.inject(Faults(faults={"lost_reply": 0.7}, seed=1, only=("PUT",)))
    assert through.create("manifest", b"mine")
    assert proxy.counts()["faults"]["lost_reply"] >= 1
    assert not through.create("manifest", b"other")


def test_a_conflict_without_a_winner_is_tried_again():
    answers = iter([(409, s3_error("ConditionalRequestConflict")), (404, b""), (200, b"")])
    with stub_store(lambda _: next(answers)) as stub:
        assert storage_at("s3://b/x", {"endpoint": stub.url, **KEYS}).create("a", b"1")
    assert [seen.method for seen in stub.requests] == ["PUT", "GET", "PUT"]


def test_patience_ends():
    with stub_store(lambda _: (503, s3_error("SlowDown"))) as stub:
        storage = replace(storage_at("s3://b/x", {"endpoint": stub.url, **KEYS}), patience=0.3)
        with pytest.raises(StoreError, match="503 SlowDown"):
            storage.read("a")
    assert len(stub.requests) > 1


def test_what_does_not_pass_is_not_tried_again():
    with stub_store(lambda _: (403, s3_error("AccessDenied"))) as stub:
        with pytest.raises(StoreError, match="lack the rights") as raised:
            storage_at("s3://b/x", {"endpoint": stub.url, **KEYS}).read("a")
        assert len(stub.requests) == 1
    assert raised.value.filename == "s3://b/x/a"


def test_a_missing_bucket_is_not_a_missing_object(s3_server):
    storage = storage_at("s3://no-such/x", s3_server.endpoint.storage_options)
    for call in (
        storage.read,
        storage.list,
        storage.delete,
        lambda name: storage.create(name, b""),
    ):
        with pytest.raises(StoreError, match="no such bucket"):
            call("a")


@pytest.mark.parametrize(
    "refused", [(501, s3_error("NotImplemented")), (400, s3_error("MalformedXML")), (200, b"<x/>")]
)
def test_a_store_without_bulk_deletes_deletes_one_by_one(refused):
    def answer(request):
        return refused if request.method == "POST" else (204, b"")

    with stub_store(answer) as stub:
        storage = storage_at("s3://b/x", {"endpoint": stub.url, **KEYS})
        replace(storage, patience=0.2).delete("a", "b")
    deleted = {seen.path for seen in stub.requests if seen.method == "DELETE"}
    assert deleted == {"/b/x/a", "/b/x/b"}


@pytest.mark.parametrize("error", [RuntimeError("killed"), FileNotFoundError("killed")])
def test_large_content_that_fails_half_way_leaves_what_was_there(s3_server, monkeypatch, error):
    monkeypatch.setattr(object_store_module, "_PART", 5 << 20)
    storage = in_folder(s3_server.endpoint)
    storage.put("old", [b"before"])

    def parts():
        for _ in range(13):
            yield b"x" * (1 << 20)
        raise error

    with pytest.raises(type(error), match="killed"):
        storage.put("old", parts())
    assert storage.read("old") == b"before"


# --- races ---------------------------------------------------------------------------------------


def _create(storage, turn, number, start, outcomes):
    start.wait()
    outcomes.put((turn, number, storage.create(f"turn/{turn}", b"%d" % number)))


def _race(storage, turns, racers):
    """Processes that all create the same objects; who won each of them."""
    context = multiprocessing.get_context("spawn")
    start, outcomes = context.Barrier(racers), context.Queue()
    processes = [
        context.Process(target=_create_all, args=(storage, turns, i, start, outcomes))
        for i in range(racers)
    ]
    for process in processes:
        process.start()
    told = [outcomes.get(timeout=120) for _ in range(turns * racers)]
    for process in processes:
        process.join()
    winners = [(turn, number) for turn, number, ours in told if ours]
    assert Counter(turn for turn, _ in winners) == dict.fromkeys(range(turns), 1)
    for turn, number in winners:
        assert storage.read(f"turn/{turn}") == b"%d" % number


def _create_all(storage, turns, number, start, outcomes):
    for turn in range(turns):
        _create(storage, turn, number, start, outcomes)


@pytest.mark.long
def test_of_processes_that_create_at_once_exactly_one_succeeds(s3_server):
    _race(in_folder(s3_server.endpoint), turns=20, racers=4)


@pytest.mark.long
def test_of_processes_that_create_at_once_on_a_disk_exactly_one_succeeds(disk_s3):
    _race(in_folder(disk_s3.endpoint), turns=40, racers=4)


@pytest.mark.long
def test_of_creators_with_lost_replies_exactly_one_succeeds(disk_s3):
    faults = Faults(faults={"lost_reply": 0.2, "error": 0.1, "throttle": 0.1}, seed=5)
    with StoreProxy.start(disk_s3.endpoint.url, faults) as proxy:
        _race(in_folder(disk_s3.endpoint.through(proxy.url)), turns=20, racers=3)
        assert proxy.counts()["faults"]["lost_reply"] > 5


@pytest.mark.long
def test_a_wrong_secret_is_refused_by_a_server_that_checks_signatures(disk_s3):
    wrong = in_folder(disk_s3.endpoint, secret_access_key="hush")
    with pytest.raises(StoreError, match="does not accept the credentials") as raised:
        wrong.put("x", [b"1"])
    assert "hush" not in str(raised.value)
    right = in_folder(disk_s3.endpoint)
    right.put("names with = and spaces/ü", [b"1"])
    assert right.list("names") == ["names with = and spaces/ü"]


# --- processes and threads -----------------------------------------------------------------------


FORKS = """
import os, pickle, sys
storage = pickle.loads(bytes.fromhex(sys.argv[1]))
for turn in range(2):
    child = os.fork()
    if child == 0:
        try:
            print("child", turn, storage.read("a"), flush=True)
        except OSError as error:
            print("child", turn, error, flush=True)
        os._exit(0)
    os.waitpid(child, 0)
    print("parent", turn, storage.read("a"), flush=True)
"""


@pytest.mark.slow
def test_a_fork_before_the_first_request_can_use_the_store_and_a_later_one_is_told(s3_server):
    """As Spark's daemon forks its workers: before any of them has used a store."""
    storage = in_folder(s3_server.endpoint)
    storage.put("a", [b"content"])
    command = [sys.executable, "-c", FORKS, pickle.dumps(storage).hex()]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    lines = ended.stdout.splitlines()
    assert lines[0] == "child 0 b'content'"
    assert lines[1] == lines[3].replace("1", "0") == "parent 0 b'content'"
    assert "was forked from one that had used an object store" in lines[2]


def test_threads_share_a_client(s3_server):
    storage = in_folder(s3_server.endpoint)
    storage.put("a", [b"1"])
    seen = []
    threads = [threading.Thread(target=lambda: seen.append(storage.read("a"))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert seen == [b"1"] * 8


# --- what it costs, what it hides ----------------------------------------------------------------


def test_requests_are_counted_as_they_are_made(s3_server, proxy, monkeypatch):
    monkeypatch.setattr(object_store_module, "_PART", 5 << 20)
    storage = in_folder(s3_server.endpoint.through(proxy.url))
    proxy.reset()
    with counting() as requests:
        storage.put("a", [b"x" * 1_000_000])
        storage.create("b", b"123")
        storage.read("b")
        storage.size("b")
        assert storage.read_ranges("a", [(5, 6), (0, 2), (900_000, 900_001)]) == [b"x", b"xx", b"x"]
        storage.copy("a", "c")
        storage.put("large", [b"x" * (11 << 20)])
        storage.list("")
        storage.delete("a", "b", "c", "large")
    assert requests.to_dict() == {
        "reads": 4,
        "writes": 3 + 5,
        "lists": 1,
        "deletes": 1,
        "read_bytes": 3 + 6 + 1,
        "written_bytes": 1_000_003 + (11 << 20),
        "cached_bytes": 0,
    }
    assert proxy.counts()["requests"] == 14


def test_credentials_travel_in_a_pickle_and_are_shown_nowhere_else():
    options = {"secret_access_key": "hush", "session_token": "hush"}
    storage = storage_at("s3://bucket/x", options)
    copy = pickle.loads(pickle.dumps(storage))
    assert (copy, hash(copy)) == (storage, hash(storage))
    assert copy.options == storage.options
    assert len({storage, copy, storage_at("s3://bucket/x")}) == 2
    for text in (repr(storage), str(storage), storage.where("y"), repr(storage.under("z"))):
        assert "hush" not in text
    assert repr(storage) == "ObjectStorage(url='s3://bucket/x')"


@pytest.mark.parametrize("status", [400, 401, 403, 404, 500])
def test_errors_do_not_repeat_queries_or_bodies(status):
    """Azure signs in the query; stores repeat what they were sent in the bodies of their errors."""
    with stub_store(lambda _: (status, s3_error("Whatever"))) as stub:
        options = {"endpoint": stub.url, "account_name": "acme", "sas_key": "sv=1&sig=hush"}
        storage = replace(storage_at("az://cont/x", options), patience=0.1)
        with pytest.raises(OSError, match=r"Errno") as raised:
            storage.read("a")
        assert "sig=hush" in stub.requests[0].path
    error = raised.value
    assert "hush" not in f"{error}{error!r}{error.strerror}"
    assert "\n" not in str(error)
    assert error.__suppress_context__ or error.__context__ is None


def test_a_storage_can_be_made_without_any_request_or_credential():
    assert ObjectStorage("gs://bucket/x").under("y").where("z") == "gs://bucket/x/y/z"
