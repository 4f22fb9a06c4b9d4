"""Files that are there whole or not at all, also after a crash."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from uuid import uuid4

TEMPORARY = ".tmp"  #: how the name of an unfinished file ends
# What file systems say that cannot do a thing at all, such as mounts of object stores.
_UNABLE = frozenset({errno.EPERM, errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL})


def write_whole(path: Path, parts: Iterable[bytes | memoryview], replace: bool = True) -> None:
    """Write a file that appears under its name only when all of it is on the disk.

    Guarantee: whoever opens `path`, at any moment and after a crash at any moment, finds either what
    was there before or all of `parts`. An unfinished file keeps a name that ends with `.tmp`. On a file
    system without hard links, as that of Databricks volumes, a file that must not replace another is
    written under its own name: of those who want it one gets it, but while it is written it is short.

    Parameters:
        path: the final name, in a directory that exists.
        parts: the content, in order.
        replace: False: raise FileExistsError if there is a file of that name, and leave it alone.
    """
    temporary = path.with_name(f"{path.name}.{uuid4().hex[:12]}{TEMPORARY}")
    try:
        with open(temporary, "xb") as file:
            for part in parts:
                file.write(part)
            file.flush()
            os.fsync(file.fileno())
        if replace:
            os.rename(temporary, path)
        else:
            _link(temporary, path)
    finally:
        with suppress(OSError):
            os.unlink(temporary)
    sync_directory(path.parent)


def _link(temporary: Path, path: Path) -> None:
    """Give a file its name; fails if the name is taken, in one step."""
    try:
        os.link(temporary, path)
        return
    except OSError as error:
        if error.errno not in _UNABLE:
            raise
    with open(path, "xb") as file, open(temporary, "rb") as content:
        try:
            shutil.copyfileobj(content, file)
            file.flush()
            os.fsync(file.fileno())
        except BaseException:
            os.unlink(path)
            raise


def sync_directory(directory: Path) -> None:
    """Make the names in a directory durable: until then, a rename is in memory only."""
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in _UNABLE:
            raise
    finally:
        os.close(descriptor)


def make_directory(directory: Path) -> None:
    """Create a directory and those above it, durably; nothing happens if it is there."""
    missing = []
    for path in (directory, *directory.parents):
        if path.is_dir():
            break
        missing.append(path)
    for path in reversed(missing):
        path.mkdir(exist_ok=True)
        sync_directory(path.parent)
