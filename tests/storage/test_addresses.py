"""What users write, and the storage that it means."""

from pathlib import Path

import pytest

from evenflow.model import InputError
from evenflow.storage import MemoryStorage, PosixStorage, local_path, storage_at


@pytest.mark.parametrize("path", ["ftp://host/x", "dbfs:/x", "http://host/x", "oss://bucket/x"])
def test_other_schemes_are_refused_by_name_with_a_list_of_what_is_supported(path):
    scheme = path.partition(":")[0]
    for call in (local_path, storage_at):
        with pytest.raises(
            InputError, match=f"is on {scheme}, .*does not support; give a path.*s3://.*abfss://"
        ):
            call(path)


@pytest.mark.parametrize("path", ["s3://bucket/x", "gs://bucket/x", "abfss://a@b/c", "hdfs://a/b"])
def test_where_a_file_is_needed_a_remote_store_is_refused(path):
    with pytest.raises(InputError, match=r"is on a remote store, .*give one"):
        local_path(path)


@pytest.mark.parametrize(
    ("path", "kind", "container", "folder"),
    [
        ("s3://bucket/some/folder/", "s3", "bucket", "some/folder/"),
        ("s3a://bucket", "s3", "bucket", ""),
        ("s3n://bucket//x", "s3", "bucket", "x/"),
        ("gs://bucket/x", "gs", "bucket", "x/"),
        ("abfss://cont@acme.dfs.core.windows.net/x", "az", "cont", "x/"),
        ("abfs://cont@acme.dfs.core.windows.net/x", "az", "cont", "x/"),
        ("wasbs://cont@acme.blob.core.windows.net/x", "az", "cont", "x/"),
        ("az://cont/x", "az", "cont", "x/"),
    ],
)
def test_object_stores_in_every_spelling_keep_what_the_user_wrote(path, kind, container, folder):
    storage = storage_at(path)
    place = storage.address
    assert (place.kind, place.container, place.folder) == (kind, container, folder)
    assert storage.where("y") == f"{path.rstrip('/')}/y"
    assert storage_at(storage.where()) == storage


@pytest.mark.parametrize(
    ("path", "config"),
    [
        ("abfss://c@acme.dfs.core.windows.net/x", {"account_name": "acme"}),
        (
            "abfss://c@acme.dfs.core.chinacloudapi.cn/x",
            {
                "account_name": "acme",
                "endpoint": "https://acme.blob.core.chinacloudapi.cn",
            },
        ),
        (
            "abfss://c@onelake.dfs.fabric.microsoft.com/x",
            {"account_name": "onelake", "use_fabric_endpoint": "true"},
        ),
    ],
)
def test_an_azure_address_names_its_account(path, config):
    assert storage_at(path).address.config == config


@pytest.mark.parametrize(
    "path",
    [
        "s3://AKIAKEY:hush@bucket/x",
        "s3://bucket/x?X-Amz-Signature=hush",
        "az://cont/x?sig=hush",
        "wasbs://cont@acme.blob.core.windows.net/x?sig=hush",
        "s3a://AKIAKEY:hush@bucket/x?sig=hush",
    ],
)
def test_credentials_in_an_address_are_refused_and_not_repeated(path):
    with pytest.raises(InputError, match="storage_options") as raised:
        storage_at(path)
    assert "hush" not in str(raised.value)
    assert "AKIA" not in str(raised.value)


@pytest.mark.parametrize("path", ["s3://", "s3:///x", "gs://", "s3:bucket/x", "s3://b/../x"])
def test_an_object_store_without_a_proper_bucket_is_refused(path):
    with pytest.raises(InputError, match="give"):
        storage_at(path)


@pytest.mark.parametrize(
    "path",
    ["/Volumes/main/default/x", "dbfs:/Volumes/main/default/x", "dbfs:///Volumes/main/default/x"],
)
def test_a_databricks_volume_is_a_path(path):
    assert storage_at(path) == PosixStorage("/Volumes/main/default/x")


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
