"""What users write, such as `/data/ckpt` or `s3://bucket/ckpt`, and the storage that it means."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

from evenflow.model.errors import InputError
from evenflow.storage.hdfs_addresses import HDFS_SCHEMES, hdfs_storage
from evenflow.storage.memory import MemoryStorage
from evenflow.storage.object_address import OBJECT_SCHEMES
from evenflow.storage.object_store import ObjectStorage
from evenflow.storage.posix import PosixStorage
from evenflow.storage.protocol import Storage
from evenflow.storage.store_options import known_names

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):")
_SUPPORTED = (
    "a path that the driver and all executors share, plain or as file:/…; s3://, s3a:// or "
    "gs://BUCKET/FOLDER; abfss://CONTAINER@ACCOUNT.dfs.core.windows.net/FOLDER; "
    "hdfs://NAMENODE:8020/FOLDER; or a Databricks volume, /Volumes/…"
)


def storage_at(
    path: str | os.PathLike[str] | Storage, options: Mapping[str, str] | None = None
) -> Storage:
    """The storage at an address.

    Parameters:
        path: a path, `file:/…`, `file:///…`, `/Volumes/…`, `s3://…`, `s3a://…`, `gs://…`, `abfss://…`,
            `az://…`, `hdfs://…`, `webhdfs://…`, `swebhdfs://…`, or `memory://NAME` for tests; or a
            storage, as it is.
        options: of an object store, under obstore's names, those of environment variables, of fsspec or
            of delta-rs; what is not given comes from the environment. For HDFS, as in `hdfs_storage`.
            `options_for` has those that Spark knows.

    Example:
        >>> storage_at("file:///data/ckpt")
        PosixStorage(root='/data/ckpt')
        >>> storage_at("s3://bucket/ckpt", {"AWS_REGION": "eu-west-1"}).where("x")
        's3://bucket/ckpt/x'
        >>> storage_at("memory://test/ckpt").where("x")
        'memory://test/ckpt/x'
    """
    if not isinstance(path, str | os.PathLike):
        return path
    text = os.fspath(path)
    found = _SCHEME.match(text)
    scheme = found[1].lower() if found else "file"
    if scheme in OBJECT_SCHEMES:
        named = known_names(OBJECT_SCHEMES[scheme], options or {})
        return ObjectStorage(text, tuple(sorted(named.items())))
    if scheme == "memory":
        name, _, folder = text.removeprefix("memory://").partition("/")
        if not name:
            raise InputError(f"{text} has no name; give memory://NAME")
        storage = MemoryStorage(name)
        return storage.under(folder) if folder.strip("/") else storage
    if scheme in HDFS_SCHEMES:
        return hdfs_storage(text, options or {})
    return PosixStorage(str(local_path(path)))


def local_path(path: str | os.PathLike[str]) -> Path:
    """The directory or file that a user means, refused if it is not on a POSIX file system.

    Example:
        >>> local_path("file:/data/ckpt").as_posix()
        '/data/ckpt'
        >>> local_path("dbfs:/Volumes/main/default/state").as_posix()
        '/Volumes/main/default/state'
    """
    text = os.fspath(path)
    scheme = _SCHEME.match(text)
    if scheme and scheme[1] == "dbfs" and re.match("dbfs:/+Volumes/", text):
        return Path("/" + text.removeprefix("dbfs:").lstrip("/"))
    if scheme and scheme[1] != "file":
        text = text.partition("?")[0].rpartition("@")[2]
        if scheme[1].lower() in {*OBJECT_SCHEMES, *HDFS_SCHEMES}:
            raise InputError(
                f"{text} is on a remote store, and a path on a file system is needed here; give one, "
                "plain or as file:/…"
            )
        raise InputError(
            f"{text} is on {scheme[1]}, which evenflow does not support; give {_SUPPORTED}"
        )
    if scheme:
        text = re.sub("^//[^/]*", "", text[len("file:") :])
    if not text:
        raise InputError("the path is empty; give a directory")
    if "\0" in text:
        raise InputError(f"the path {text!r} has a NUL, which no file system allows; remove it")
    try:
        return Path(text).expanduser().absolute()
    except RuntimeError:
        raise InputError(
            f"{text} names the home of a user whom this machine does not know; give the directory"
        ) from None
