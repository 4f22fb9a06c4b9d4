"""What users write, such as `/data/ckpt` or `file:///data/ckpt`, and the storage that it means."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from evenflow.model.errors import InputError
from evenflow.storage.hdfs_addresses import HDFS_SCHEMES, hdfs_storage
from evenflow.storage.memory import MemoryStorage
from evenflow.storage.posix import PosixStorage
from evenflow.storage.protocol import Storage

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):")


def storage_at(
    path: str | os.PathLike[str] | Storage, options: Mapping[str, Any] | None = None
) -> Storage:
    """The storage at an address.

    Parameters:
        path: a path, `file:/…`, `file:///…`, `hdfs://…` (also `webhdfs://…` and `swebhdfs://…`), or
            `memory://NAME` for tests; or a storage, as it is.
        options: for HDFS: as in `hdfs_storage`.

    Example:
        >>> storage_at("file:///data/ckpt")
        PosixStorage(root='/data/ckpt')
        >>> storage_at("memory://test/ckpt").where("x")
        'memory://test/ckpt/x'
    """
    if not isinstance(path, str | os.PathLike):
        return path
    text = os.fspath(path)
    if text.startswith("memory://"):
        name, _, folder = text.removeprefix("memory://").partition("/")
        if not name:
            raise InputError(f"{text} has no name; give memory://NAME")
        storage = MemoryStorage(name)
        return storage.under(folder) if folder.strip("/") else storage
    if text.startswith(HDFS_SCHEMES):
        return hdfs_storage(text, options or {})
    return PosixStorage(str(local_path(path)))


def local_path(path: str | os.PathLike[str]) -> Path:
    """The directory or file that a user means, refused if it is not on a POSIX file system.

    Example:
        >>> local_path("file:/data/ckpt").as_posix()
        '/data/ckpt'
    """
    text = os.fspath(path)
    scheme = _SCHEME.match(text)
    if scheme and scheme[1] != "file":
        raise InputError(
            f"{text} is on {scheme[1]}, which evenflow does not support yet; give a path, plain or as "
            "file:/…, on a file system that the driver and all executors share"
        )
    if scheme:
        text = re.sub("^//[^/]*", "", text[len("file:") :])
    if not text:
        raise InputError("the path is empty; give a directory")
    return Path(text).expanduser().absolute()
