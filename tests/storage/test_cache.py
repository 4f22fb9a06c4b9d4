"""The cache of immutable objects: the same bytes with fewer requests, whatever happens to its disk."""

import os
import pickle
import random
import resource
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evenflow.model import InputError
from evenflow.state import DamagedState, look_up, read_segment, write_segment
from evenflow.storage import MemoryStorage, PosixStorage
from evenflow.storage.cache import CachedStorage, cached, forget
from evenflow.storage.delayed import DelayedStorage
from evenflow.storage.page_files import PAGE
from evenflow.storage.requests import counting
from state_rows import fingerprints, keys_of, numbered

NAME = "segments/a.seg"


@pytest.fixture
def inner():
    storage = MemoryStorage()
    yield storage
    storage.clear()


@pytest.fixture
def kept(inner, tmp_path):
    return CachedStorage(DelayedStorage(inner, 0), directory=str(tmp_path / "cache"))


def files(storage):
    return sorted(Path(storage.directory, "segments").iterdir())


def reads(storage, ranges, name=NAME):
    """(contents, requests, bytes over the network)"""
    with counting() as requests:
        contents = storage.read_ranges(name, ranges)
    return contents, requests.to_dict()["reads"], requests.to_dict()["read_bytes"]


def content_of(size, seed=0):
    return random.Random(seed).randbytes(size)


# --- the same bytes ------------------------------------------------------------------------------


@settings(max_examples=40, deadline=None)
@given(
    size=st.integers(0, 5 * PAGE),
    asked=st.lists(
        st.lists(
            st.tuples(st.integers(0, 6 * PAGE), st.integers(0, 2 * PAGE)), min_size=1, max_size=5
        ),
        min_size=1,
        max_size=4,
    ),
    written=st.booleans(),
)
def test_what_it_returns_is_what_the_store_returns(tmp_path_factory, size, asked, written):
    inner, content = MemoryStorage(), content_of(size)
    storage = CachedStorage(inner, directory=str(tmp_path_factory.mktemp("cache")))
    (storage if written else inner).put(NAME, [content[:100], memoryview(content)[100:]])
    for ranges in asked:
        ranges = [(start, start + length) for start, length in ranges]
        for _ in range(2):
            assert storage.read_ranges(NAME, ranges) == [content[a:b] for a, b in ranges]
    inner.clear()


def test_a_page_is_fetched_once_and_neighbours_in_one_request(inner, kept):
    inner.put(NAME, [content := content_of(100 * PAGE)])
    near = [(0, 1), (3 * PAGE, 3 * PAGE + 9), (7 * PAGE - 1, 7 * PAGE + 1), (90 * PAGE, 90 * PAGE)]
    contents, requests, size = reads(kept, near)
    assert contents == [content[a:b] for a, b in near]
    assert (requests, size) == (1, 8 * PAGE)
    assert reads(kept, near) == (contents, 0, 0)
    assert reads(kept, [(8 * PAGE, 9 * PAGE), (50 * PAGE, 51 * PAGE)])[1:] == (2, 2 * PAGE)
    assert reads(kept, [(0, len(content))])[0] == [content]
    assert reads(kept, [(0, len(content) + 5)])[1] == 1, "what lies behind its end is not known"
    assert reads(kept, [(0, len(content) + 5)]) == ([content], 0, 0)


def test_what_is_written_is_kept_and_what_fails_half_way_is_not(inner, kept):
    kept.put(NAME, [content := content_of(3 * PAGE + 5)])
    assert reads(kept, [(7, len(content))]) == ([content[7:]], 0, 0)

    def parts():
        yield content
        raise RuntimeError("killed")

    with pytest.raises(RuntimeError, match="killed"):
        kept.put("segments/b.seg", parts())
    with pytest.raises(FileNotFoundError):
        kept.read_ranges("segments/b.seg", [(0, 1)])


def test_only_immutable_objects_are_kept(inner, kept):
    kept.put("manifests/1.json", [b"one"])
    assert kept.read_ranges("manifests/1.json", [(0, 3)]) == [b"one"]
    inner.put("manifests/1.json", [b"two"])
    assert kept.read_ranges("manifests/1.json", [(0, 3)]) == [b"two"]


def test_two_checkpoints_never_meet_and_what_is_deleted_is_gone(inner, kept):
    one, two = kept.under("one"), kept.under("two")
    one.put(NAME, [b"one"])
    two.put(NAME, [b"two"])
    assert (one.read_ranges(NAME, [(0, 9)]), two.read_ranges(NAME, [(0, 9)])) == (
        [b"one"],
        [b"two"],
    )
    one.delete(NAME)
    with pytest.raises(FileNotFoundError):
        one.read_ranges(NAME, [(0, 9)])


def test_a_checkpoint_that_begins_again_at_the_same_address_never_sees_old_pages(inner, kept):
    """Segments of the same owner, batch and rows have other names."""
    before = write_segment(kept, numbered(range(5), 1), 0, [0])
    for name in inner.list(""):
        inner.delete(name)
    after = write_segment(kept, numbered(range(5), 1), 0, [0])
    assert before.name != after.name
    assert read_segment(kept, after).num_rows == 5


def test_a_copy_that_was_pickled_has_the_same_cache(kept):
    kept.put(NAME, [b"abc"])
    assert reads(pickle.loads(pickle.dumps(kept)), [(0, 3)]) == ([b"abc"], 0, 0)


def test_a_local_disk_has_no_cache(tmp_path):
    local = PosixStorage(str(tmp_path))
    assert cached(local) is local
    assert cached(DelayedStorage(local)) == CachedStorage(DelayedStorage(local))
    assert not forget(local, NAME)


# --- bounds --------------------------------------------------------------------------------------


def test_what_was_not_used_for_longest_goes_first(inner, tmp_path):
    limit = 64 * PAGE
    storage = CachedStorage(DelayedStorage(inner, 0), directory=str(tmp_path), limit=limit)
    names = [f"segments/{i}" for i in range(12)]
    for i, name in enumerate(names):
        storage.put(name, [content_of(8 * PAGE, i)])
        assert sum(file.stat().st_blocks * 512 for file in files(storage)) <= limit + limit // 8
        time.sleep(0.01)  # file systems tell times apart by milliseconds
        assert reads(storage, [(0, 8)], names[0])[1] == 0, "it is used all the time"
    assert reads(storage, [(0, 8)], names[-1])[1] == 0
    assert reads(storage, [(0, 8)], names[1])[1] == 1
    for i, name in enumerate(names):
        assert storage.read_ranges(name, [(0, 8 * PAGE)]) == [content_of(8 * PAGE, i)]


def test_no_bytes_are_kept_where_none_are_wanted(inner, tmp_path):
    storage = CachedStorage(DelayedStorage(inner, 0), directory=str(tmp_path), limit=0)
    storage.put(NAME, [b"abc"])
    assert reads(storage, [(0, 3)]) == ([b"abc"], 1, 3)
    assert list(tmp_path.iterdir()) == []


WORKER = """
import random, sys
from evenflow.storage import PosixStorage
from evenflow.storage.cache import CachedStorage
from evenflow.storage.delayed import DelayedStorage
store, cache, seed = sys.argv[1:]
storage = CachedStorage(DelayedStorage(PosixStorage(store), 0), directory=cache, limit=3 << 20)
chance = random.Random(seed)
contents = [random.Random(i).randbytes(1 << 20) for i in range(6)]
for turn in range(150):
    i = chance.randrange(6)
    ranges = [(a, a + chance.randrange(1 << 17)) for a in (chance.randrange(1 << 20) for _ in range(4))]
    got = storage.read_ranges(f"segments/{i}", ranges)
    assert got == [contents[i][a:b] for a, b in ranges], (turn, i, ranges)
    if turn % 10 == 0:
        storage.put(f"segments/{seed}-{turn}", [contents[i]])
        assert storage.read_ranges(f"segments/{seed}-{turn}", [(5, 99)]) == [contents[i][5:99]]
print("fine")
"""


@pytest.mark.slow
def test_processes_that_fetch_and_evict_at_once_read_the_right_bytes(tmp_path):
    store = PosixStorage(str(tmp_path / "store"))
    for i in range(6):
        store.put(f"segments/{i}", [random.Random(i).randbytes(1 << 20)])
    command = [sys.executable, "-c", WORKER, store.root, str(tmp_path / "cache")]
    workers = [
        subprocess.Popen([*command, str(seed)], stdout=subprocess.PIPE, text=True)
        for seed in range(4)
    ]
    assert [worker.communicate(timeout=120)[0] for worker in workers] == ["fine\n"] * 4
    used = sum(f.stat().st_blocks * 512 for f in Path(tmp_path, "cache", "segments").iterdir())
    assert used <= 4 << 20


# --- damage --------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [100, 20_000], ids=["small", "large"])
def test_damage_in_the_cache_is_dropped_and_read_from_the_store(inner, kept, n):
    segment = write_segment(kept, numbered(range(n), 1), 0, [0])
    asked = range(0, n, 50)
    expected = look_up(inner, [segment], fingerprints(asked), keys_of(asked))[0]
    good = files(kept)[0].read_bytes()
    pages = len(good) - segment.bytes
    for at in (0, 64, 64 + 8 * n // 2, segment.bytes - 2000, segment.bytes - 1):
        content = bytearray(good)
        content[pages + at] ^= 0x55
        files(kept)[0].write_bytes(content)
        assert look_up(kept, [segment], fingerprints(asked), keys_of(asked))[0] == expected
        assert read_segment(kept, segment) == read_segment(inner, segment)
        with counting() as requests:
            read_segment(kept, segment)
        assert requests.to_dict()["reads"] == 0, "it is whole again"


def test_damage_in_the_store_is_still_damage(inner, kept):
    segment = write_segment(kept, numbered(range(9), 1), 0, [0])
    content = bytearray(inner.read(segment.name))
    content[70] ^= 1
    inner.put(segment.name, [content])
    assert forget(kept, segment.name)
    with pytest.raises(DamagedState, match=segment.file):
        read_segment(kept, segment)


def test_a_cache_file_that_was_cut_short_is_read_through(inner, kept):
    kept.put(NAME, [content := content_of(3 * PAGE)])
    os.truncate(files(kept)[0], files(kept)[0].stat().st_size - PAGE - 1)
    assert kept.read_ranges(NAME, [(0, 3 * PAGE)]) == [content]


# --- whose it is ---------------------------------------------------------------------------------


def _by_another_user(path):
    if os.geteuid() != 0:
        pytest.skip("only root can give a directory away")
    path.mkdir(mode=0o700)
    os.chown(path, 65534, 65534)


PLANTED = {
    "open to others": lambda path: path.mkdir(mode=0o777) or path.chmod(0o777),
    "readable to a group": lambda path: path.mkdir() or path.chmod(0o750),
    "a link": lambda path: (
        (path.parent / "elsewhere").mkdir(mode=0o700) or path.symlink_to("elsewhere")
    ),
    "of another user": _by_another_user,
    "a file": lambda path: path.write_text("x"),
}


@pytest.mark.parametrize("how", PLANTED)
def test_a_directory_that_is_not_private_is_not_used(inner, tmp_path, how):
    planted = tmp_path / "segments"
    PLANTED[how](planted)
    storage = CachedStorage(DelayedStorage(inner, 0), directory=str(tmp_path))
    storage.put(NAME, [b"abc"])
    assert reads(storage, [(0, 3)]) == ([b"abc"], 1, 3)
    assert planted.is_file() or list(planted.iterdir()) == []


def test_the_directory_and_its_files_are_private(kept):
    before = os.umask(0)
    try:
        kept.put(NAME, [b"abc"])
    finally:
        os.umask(before)
    (file,) = files(kept)
    assert file.stat().st_mode & 0o777 == 0o600
    assert file.parent.stat().st_mode & 0o777 == 0o700


def test_a_planted_link_is_not_followed(inner, kept, tmp_path):
    kept.put(NAME, [b"abc"])
    (file,) = files(kept)
    victim = tmp_path / "victim"
    victim.write_bytes(b"precious")
    file.unlink()
    file.symlink_to(victim)
    assert kept.read_ranges(NAME, [(0, 3)]) == [b"abc"]
    assert victim.read_bytes() == b"precious"


# --- a disk that fails ---------------------------------------------------------------------------


def test_a_full_disk_costs_requests_and_no_error(inner, kept):
    """The limit of a file's size stands for the disk: writing fails with EFBIG half-way."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    content = content_of(8 * PAGE)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, ((4 << 20) + 3 * PAGE + 7, limits[1]))
        kept.put(NAME, [content[: 2 * PAGE], content[2 * PAGE : 5 * PAGE], content[5 * PAGE :]])
        assert inner.read(NAME) == content
        ranges = [(0, 9), (PAGE, 8 * PAGE)]
        for _ in range(3):
            assert kept.read_ranges(NAME, ranges) == [content[a:b] for a, b in ranges]
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


def test_fetching_to_a_full_disk_costs_requests_and_no_error(inner, kept):
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    inner.put(NAME, [content := content_of(8 * PAGE)])
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, ((4 << 20) + 3 * PAGE + 7, limits[1]))
        for _ in range(3):
            assert kept.read_ranges(NAME, [(1, 8 * PAGE)]) == [content[1:]]
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


@pytest.mark.parametrize("directory", ["/proc/no/such", "/dev/null/x"])
def test_a_place_that_cannot_be_written_costs_requests_and_no_error(inner, directory):
    storage = CachedStorage(DelayedStorage(inner, 0), directory=directory)
    storage.put(NAME, [b"abc"])
    assert reads(storage, [(0, 3)]) == ([b"abc"], 1, 3)


def test_a_directory_that_vanishes_costs_requests_and_no_error(inner, kept):
    kept.put(NAME, [b"abc"])
    (file,) = files(kept)
    file.unlink()
    file.parent.rmdir()
    for _ in range(2):
        assert kept.read_ranges(NAME, [(0, 3)]) == [b"abc"]
    kept.put("segments/b", [b"d"])
    assert kept.read_ranges("segments/b", [(0, 1)]) == [b"d"]


def test_the_environment_says_where_and_how_much(inner, tmp_path, monkeypatch):
    for variable, value, expected in [
        ("EVENFLOW_CACHE_DIR", str(tmp_path / "given"), tmp_path / "given"),
        ("SPARK_LOCAL_DIRS", f"{tmp_path}/one,{tmp_path}/two", tmp_path / "one" / "evenflow"),
        ("XDG_CACHE_HOME", str(tmp_path / "home"), tmp_path / "home" / "evenflow"),
    ]:
        with monkeypatch.context() as patched:
            for other in ("EVENFLOW_CACHE_DIR", "SPARK_LOCAL_DIRS", "XDG_CACHE_HOME"):
                patched.delenv(other, raising=False)
            patched.setenv(variable, value)
            CachedStorage(inner).put(NAME, [b"abc"])
            assert len(list((expected / "segments").iterdir())) == 1
    monkeypatch.setenv("EVENFLOW_CACHE_BYTES", "0")
    monkeypatch.setenv("EVENFLOW_CACHE_DIR", str(tmp_path / "none"))
    CachedStorage(inner).put(NAME, [b"abc"])
    assert not (tmp_path / "none").exists()
    monkeypatch.setenv("EVENFLOW_CACHE_BYTES", "4 GB")
    with pytest.raises(InputError, match="EVENFLOW_CACHE_BYTES is '4 GB'; give a number of bytes"):
        CachedStorage(inner).put(NAME, [b"abc"])
