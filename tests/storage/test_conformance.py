"""What every kind of storage promises: one suite for all of them."""

import pickle
import threading
from contextlib import ExitStack, contextmanager
from tempfile import TemporaryDirectory
from uuid import uuid4

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from evenflow.storage import MemoryStorage, PosixStorage, storage_at
from evenflow.storage.cache import CachedStorage
from evenflow.storage.delayed import DelayedStorage
from evenflow.storage.faults import Faults, FaultyStorage
from evenflow_lab.checking.azure_emulator import AzureEmulator
from evenflow_lab.checking.disk_s3 import DiskS3


@contextmanager
def posix():
    with TemporaryDirectory() as root:
        yield PosixStorage(root)


@contextmanager
def memory():
    storage = MemoryStorage()
    yield storage
    storage.clear()


@contextmanager
def below_a_folder():
    with memory() as storage:
        storage.put("outside", [b"x"])
        yield storage.under("some/folder")
        assert storage.read("outside") == b"x"


@contextmanager
def without_faults():
    with posix() as inner:
        yield FaultyStorage(inner, Faults())


@contextmanager
def delayed():
    with memory() as inner:
        yield DelayedStorage(inner, seconds=0)


@contextmanager
def with_a_cache():
    """All names are kept in it, also those that tests replace: by the same process."""
    with memory() as inner, TemporaryDirectory() as directory:
        yield CachedStorage(inner, immutable="", directory=directory)


@contextmanager
def object_store():
    """On moto's server, in a folder of its own; the server is the one of this process's tests."""
    endpoint = S3.endpoint
    place = endpoint.uri(f"conformance/{uuid4().hex}")
    yield storage_at(place, endpoint.storage_options)


KINDS = {
    "posix": posix,
    "object store": object_store,
    "memory": memory,
    "below a folder": below_a_folder,
    "without faults": without_faults,
    "delayed": delayed,
    "with a cache": with_a_cache,
}


@pytest.fixture(scope="module", autouse=True)
def _server(s3_server):
    """Hypothesis and state machines do not take fixtures."""
    global S3
    S3 = s3_server


@pytest.fixture(scope="module")
def servers():
    """Those that take long to install, started when the first test asks."""
    started = {}
    with ExitStack() as stack:

        def start(kind):
            if kind not in started:
                started[kind] = stack.enter_context(kind.start())
            return started[kind]

        yield start


LONG = {"S3 on disk": DiskS3, "Azure": AzureEmulator}


@pytest.fixture(params=[*KINDS, *(pytest.param(kind, marks=pytest.mark.long) for kind in LONG)])
def storage(request, servers):
    if request.param in LONG:
        server = servers(LONG[request.param])
        place = getattr(server, "endpoint", server)
        yield storage_at(place.uri(uuid4().hex), place.storage_options)
        return
    with KINDS[request.param]() as storage:
        yield storage


# --- each verb -----------------------------------------------------------------------------------


def test_what_is_put_is_read_and_put_again_replaces_it(storage):
    storage.put("a/b/c.bin", [b"one", memoryview(b"two"), b""])
    assert storage.read("a/b/c.bin") == b"onetwo"
    assert storage.size("a/b/c.bin") == 6
    storage.put("a/b/c.bin", iter([b"3"]))
    assert storage.read("a/b/c.bin") == b"3"
    storage.put("a/empty", [])
    assert (storage.read("a/empty"), storage.size("a/empty")) == (b"", 0)


@pytest.mark.parametrize(
    "call",
    [
        lambda storage: storage.read("no/such"),
        lambda storage: storage.size("no/such"),
        lambda storage: storage.read_ranges("no/such", [(0, 1)]),
    ],
)
def test_a_name_that_is_not_there_is_file_not_found(storage, call):
    with pytest.raises(FileNotFoundError) as raised:
        call(storage)
    assert raised.value.filename == storage.where("no/such")


@settings(max_examples=40, deadline=None)
@given(
    content=st.binary(max_size=300),
    ranges=st.lists(st.tuples(st.integers(0, 300), st.integers(0, 100)), max_size=8),
)
@pytest.mark.parametrize("kind", KINDS)
def test_a_range_is_short_only_where_it_passes_the_end(kind, content, ranges):
    with KINDS[kind]() as storage:
        storage.put("x", [content])
        ranges = [(start, start + length) for start, length in ranges]
        assert storage.read_ranges("x", ranges) == [content[a:b] for a, b in ranges]


def test_create_leaves_an_object_alone_and_knows_its_own(storage):
    assert storage.create("m/1", b"mine")
    assert storage.create("m/1", b"mine"), "as after a reply that was lost"
    assert not storage.create("m/1", b"other")
    assert storage.read("m/1") == b"mine"
    storage.put("m/2", [b"put"])
    assert not storage.create("m/2", b"other")
    storage.delete("m/1")
    assert storage.create("m/1", b"other")


def test_of_many_that_create_at_once_exactly_one_succeeds(storage):
    for turn in range(20):
        outcomes, start = {}, threading.Barrier(6)

        def attempt(number, outcomes=outcomes, start=start, turn=turn):
            start.wait()
            outcomes[number] = storage.create(f"turn/{turn}", b"%d" % number)

        threads = [threading.Thread(target=attempt, args=(i,)) for i in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        (winner,) = (number for number, ours in outcomes.items() if ours)
        assert storage.read(f"turn/{turn}") == b"%d" % winner


def test_list_gives_names_by_prefix_in_order_however_deep(storage):
    names = ["a/1", "a/10", "a/2", "a/b/c/3", "ab/4", "z"]
    for name in reversed(names):
        storage.put(name, [b""])
    assert storage.list("") == sorted(names)
    assert storage.list("a/") == ["a/1", "a/10", "a/2", "a/b/c/3"]
    assert storage.list("a/1") == ["a/1", "a/10"]
    assert storage.list("a") == ["a/1", "a/10", "a/2", "a/b/c/3", "ab/4"]
    assert storage.list("a/b/c/3") == ["a/b/c/3"]
    assert storage.list("nothing/") == []
    assert storage.list("z/") == []
    assert storage.unfinished("") == []


def test_delete_removes_and_does_nothing_the_second_time(storage):
    storage.put("a/1", [b"x"])
    storage.delete("a/1")
    storage.delete("a/1")
    storage.delete("never/there")
    assert storage.list("") == []


def test_content_that_fails_half_way_leaves_what_was_there(storage):
    def parts():
        yield b"half"
        raise RuntimeError("killed")

    for name in ("new", "old"):
        storage.put("old", [b"before"])
        with pytest.raises(RuntimeError, match="killed"):
            storage.put(name, parts())
        assert storage.list("") == ["old"]
        assert storage.read("old") == b"before"


def test_a_copy_that_was_pickled_is_the_same_storage(storage):
    copy = pickle.loads(pickle.dumps(storage))
    assert copy == storage
    copy.put("from/copy", [b"1"])
    assert storage.read("from/copy") == b"1"
    assert copy.where("x") == storage.where("x")


def test_under_is_the_same_store_with_shorter_names(storage):
    inside = storage.under("in/side")
    inside.put("x", [b"1"])
    assert storage.list("") == ["in/side/x"]
    assert storage.under("in").under("side").read("x") == b"1"
    assert inside.where("x") == storage.where("in/side/x")
    assert storage.under("in").list("side") == ["side/x"]


def test_a_copy_has_the_content_and_replaces_what_was_there(storage):
    storage.put("from/x", [b"1", b"2"])
    storage.put("to/x", [b"old"])
    storage.copy("from/x", "to/x")
    storage.copy("from/x", "to/y")
    assert [storage.read(name) for name in ("from/x", "to/x", "to/y")] == [b"12"] * 3
    with pytest.raises(FileNotFoundError):
        storage.copy("missing", "to/z")


def test_several_are_deleted_whether_they_are_there_or_not(storage):
    for name in ("a", "b/1", "b/2", "c"):
        storage.put(name, [b""])
    storage.delete("a", "b/1", "missing", "b/2")
    storage.delete()
    assert storage.list("") == ["c"]


# --- all of them in any order --------------------------------------------------------------------

NAMES = st.sampled_from(["a", "b/1", "b/2", "b/c/1", "d/e/f"])
CONTENTS = st.binary(max_size=5)


class AsADictionary(RuleBasedStateMachine):
    """Any sequence of calls has the outcome that a dictionary would have."""

    kind = "memory"

    @initialize()
    def begin(self):
        self.context = KINDS[self.kind]()
        self.storage = self.context.__enter__()
        self.model = {}

    def teardown(self):
        if hasattr(self, "context"):
            self.context.__exit__(None, None, None)

    @rule(name=NAMES, content=CONTENTS)
    def put(self, name, content):
        self.storage.put(name, [content[:2], content[2:]])
        self.model[name] = content

    @rule(name=NAMES, content=CONTENTS)
    def create(self, name, content):
        assert self.storage.create(name, content) == (
            self.model.setdefault(name, content) == content
        )

    @rule(name=NAMES)
    def delete(self, name):
        self.storage.delete(name)
        self.model.pop(name, None)

    @precondition(lambda self: self.model)
    @rule(data=st.data())
    def read(self, data):
        name = data.draw(st.sampled_from(sorted(self.model)))
        assert self.storage.read(name) == self.model[name]
        assert self.storage.size(name) == len(self.model[name])
        assert self.storage.read_ranges(name, [(1, 9), (0, 1)]) == [
            self.model[name][1:],
            self.model[name][:1],
        ]

    @invariant()
    def lists(self):
        if hasattr(self, "storage"):
            for prefix in ("", "b", "b/", "b/c", "d/e/f"):
                expected = sorted(name for name in self.model if name.startswith(prefix))
                assert self.storage.list(prefix) == expected


def _machine(kind):
    name = f"AsADictionary_{kind.replace(' ', '_')}"
    case = type(name, (AsADictionary,), {"kind": kind}).TestCase
    case.settings = settings(max_examples=15, stateful_step_count=20, deadline=None)
    return case


TestPosix, TestMemory, TestBelowAFolder = map(_machine, ["posix", "memory", "below a folder"])
