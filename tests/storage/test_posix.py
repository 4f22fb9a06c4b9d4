"""What only files have: processes that die while they write, locks of other processes, permissions."""

import errno
import os
import signal
import subprocess
import sys
import textwrap
import time

import pytest

from evenflow.storage import PosixStorage
from evenflow.storage.durable import write_whole


@pytest.fixture
def storage(tmp_path):
    return PosixStorage(str(tmp_path))


def child(code, *arguments):
    text = "import os, signal, sys\nfrom evenflow.storage import PosixStorage\n"
    return subprocess.Popen(
        [sys.executable, "-c", text + textwrap.dedent(code), *map(str, arguments)],
        stdout=subprocess.PIPE,
        text=True,
    )


def test_a_file_is_there_whole_or_not_at_all(tmp_path):
    def parts():
        yield b"half"
        raise RuntimeError("killed")

    with pytest.raises(RuntimeError):
        write_whole(tmp_path / "x", parts())
    assert list(tmp_path.iterdir()) == []


def test_a_process_that_is_killed_while_it_writes_leaves_no_half_object(storage):
    storage.put("a/old", [b"before"])
    code = """
        def parts():
            yield b"half" * 100_000
            os.kill(os.getpid(), signal.SIGKILL)
        PosixStorage(sys.argv[1]).put(sys.argv[2], parts())
        """
    for name in ("a/old", "a/new"):
        process = child(code, storage.root, name)
        process.communicate()
        assert process.returncode == -signal.SIGKILL
    assert storage.list("") == ["a/old"]
    assert storage.read("a/old") == b"before"
    left = storage.unfinished("a/")
    assert [name.partition(".")[0] for name in left] == ["a/new", "a/old"]
    for name in left:
        storage.delete(name)
    assert storage.unfinished("") == []


def test_processes_that_are_killed_at_random_leave_only_whole_objects(storage):
    code = """
        storage = PosixStorage(sys.argv[1])
        print("ready", flush=True)
        while True:
            for digit in b"0123456789":
                storage.put("same", [bytes([digit]) * 300_000])
                storage.create(f"new/{os.getpid()}-{digit}", bytes([digit]) * 1000)
        """
    for moment in (0.005, 0.02, 0.05):
        process = child(code, storage.root)
        assert process.stdout.readline() == "ready\n"
        time.sleep(moment)
        process.kill()
        process.communicate()
        for name in storage.list(""):
            content = storage.read(name)
            assert content == content[:1] * (300_000 if name == "same" else 1000)


def test_directories_are_made_where_they_are_needed(tmp_path):
    storage = PosixStorage(str(tmp_path / "not" / "there"))
    assert storage.list("") == []
    storage.delete("x/y")
    assert not (tmp_path / "not").exists(), "looking makes nothing"
    assert storage.create("x/y", b"1")
    assert storage.read("x/y") == b"1"


def test_a_file_in_the_way_of_a_directory_is_an_error(storage, tmp_path):
    (tmp_path / "file").touch()
    for call in (storage.put, storage.create):
        with pytest.raises(OSError, match="File exists"):
            call("file/x", b"")


def test_a_file_that_shrinks_gives_short_ranges(storage):
    storage.put("x", [b"a" * 100])
    os.truncate(storage.where("x"), 10)
    assert storage.read_ranges("x", [(0, 100), (50, 60), (5, 8)]) == [b"a" * 10, b"", b"aaa"]


def test_a_range_is_read_on_until_it_is_whole(storage, monkeypatch):
    """As the kernel may give less than was asked for."""
    real, content = os.pread, bytes(range(256))
    storage.put("x", [content])
    monkeypatch.setattr(os, "pread", lambda fd, n, at: real(fd, min(n, 7), at))
    assert storage.read_ranges("x", [(3, 200), (0, 300)]) == [content[3:200], content]


@pytest.mark.parametrize("number", [errno.EPERM, errno.ENOSYS, errno.EOPNOTSUPP])
def test_without_hard_links_one_of_many_creators_succeeds(storage, monkeypatch, number):
    """As on Databricks volumes, which are not tested themselves."""

    def unable(*_):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "link", unable)
    assert storage.create("m/1", b"mine")
    assert storage.create("m/1", b"mine")
    assert not storage.create("m/1", b"other")
    assert storage.read("m/1") == b"mine"
    assert storage.unfinished("") == []
    monkeypatch.setattr(os, "fsync", lambda _: unable() if storage.list("m/2") else None)
    with pytest.raises(OSError, match=os.strerror(number)):
        storage.create("m/2", b"lost")
    assert storage.list("") == ["m/1"], "what could not be written is not left half"
