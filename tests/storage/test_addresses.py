"""What users write, and the storage that it means."""

from pathlib import Path

import pytest

from evenflow.model import InputError
from evenflow.storage import MemoryStorage, PosixStorage, local_path, storage_at


@pytest.mark.parametrize("path", ["s3://bucket/x", "dbfs:/x", "abfss://a@b/c"])
def test_other_schemes_are_refused_by_name(path):
    scheme = path.partition(":")[0]
    for call in (local_path, storage_at):
        with pytest.raises(InputError, match=f"is on {scheme}, .*does not support.*give a path"):
            call(path)


@pytest.mark.parametrize("path", ["", "file:", "memory://", "memory:///x"])
def test_an_address_without_a_name_is_refused(path):
    with pytest.raises(InputError, match="give"):
        storage_at(path)


@pytest.mark.parametrize(
    "path", ["/a/b", "/a/b/", "file:/a/b", "file:///a/b", "file://localhost/a/b", Path("/a/b")]
)
def test_local_paths_in_every_spelling(path):
    assert local_path(path) == Path("/a/b")
    assert storage_at(path) == PosixStorage("/a/b")


def test_relative_paths_and_home_are_made_absolute(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", "/somebody")
    assert storage_at("x") == PosixStorage(f"{tmp_path}/x")
    assert storage_at("~/x") == PosixStorage("/somebody/x")


def test_memory_by_name_is_the_same_memory_everywhere():
    storage = storage_at("memory://by-name/some/folder")
    storage.put("x", [b"1"])
    assert MemoryStorage("by-name").list("") == ["some/folder/x"]
    assert storage_at("memory://by-name").read("some/folder/x") == b"1"
    assert storage_at(storage.where("")) == storage
    MemoryStorage("by-name").clear()
    assert MemoryStorage("by-name").list("") == []
