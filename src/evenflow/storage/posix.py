"""Objects as files below a directory."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from evenflow.storage.durable import TEMPORARY, make_directory, sync_directory, write_whole

_COPIED = 1 << 20  # bytes at a time


@dataclass(frozen=True)
class PosixStorage:
    """A `Storage` in a directory of a file system, local or mounted by all machines.

    Guarantee: that of the protocol, where the file system has atomic `rename` and `link` and
    `fsync`, as local ones and NFS 4 have; `write_whole` says what holds without `link`.
    Directories are made when they are needed. A name that ends with `.tmp` is an unfinished object's.

    Parameters:
        root: the directory.

    Example:
        >>> import tempfile
        >>> storage = PosixStorage(tempfile.mkdtemp())
        >>> storage.create("plans/0.json", b"{}"), storage.create("plans/0.json", b"[]")
        (True, False)
        >>> storage.list("plans/"), storage.read_ranges("plans/0.json", [(1, 2), (1, 9)])
        (['plans/0.json'], [b'}', b'}'])
    """

    root: str
    concurrency: ClassVar[int] = 1

    def where(self, name: str = "") -> str:
        """The full path of a name."""
        return f"{self.root.rstrip('/')}/{name}" if name else self.root

    def under(self, folder: str) -> PosixStorage:
        """The storage in a directory of this one."""
        return PosixStorage(self.where(folder))

    def size(self, name: str) -> int:
        """How many bytes an object has."""
        return os.stat(self.where(name)).st_size

    def read(self, name: str) -> bytes:
        """The whole object."""
        with open(self.where(name), "rb", buffering=0) as file:
            return file.read()

    def read_ranges(self, name: str, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        """Some (start, end) ranges of an object; short only where they go past its end."""
        descriptor = os.open(self.where(name), os.O_RDONLY | os.O_CLOEXEC)
        try:
            return [_read_range(descriptor, start, end) for start, end in ranges]
        finally:
            os.close(descriptor)

    def put(self, name: str, parts: Iterable[bytes | memoryview]) -> None:
        """Write an object, replacing the one that may be there."""
        write_whole(self._path(name), parts)

    def create(self, name: str, content: bytes) -> bool:
        """Write an object unless one of that name is there. Returns whether it has this content now."""
        path = self._path(name)
        try:
            write_whole(path, [content], replace=False)
        except FileExistsError:
            if path.read_bytes() != content:
                return False
            sync_directory(path.parent)  # whoever linked it may have died before that
        return True

    def unfinished(self, prefix: str) -> list[str]:
        """The names of temporary files."""
        return [name for name in self._names(prefix) if name.endswith(TEMPORARY)]

    def list(self, prefix: str) -> list[str]:
        """The names that begin with `prefix`, sorted; no unfinished ones."""
        return [name for name in self._names(prefix) if not name.endswith(TEMPORARY)]

    def copy(self, name: str, to: str) -> None:
        """Write an object with the content of another, replacing the one that may be there."""
        with open(self.where(name), "rb") as file:
            write_whole(self._path(to), iter(lambda: file.read(_COPIED), b""))

    def delete(self, *names: str) -> None:
        """Remove objects; those that are not there are fine."""
        for name in names:
            with suppress(FileNotFoundError, NotADirectoryError):
                os.unlink(self.where(name))

    # --- files -----------------------------------------------------------------------------------

    def _path(self, name: str) -> Path:
        """Where to write an object; its directory exists."""
        path = Path(self.where(name))
        if not path.parent.is_dir():
            make_directory(path.parent)
        return path

    def _names(self, prefix: str) -> Sequence[str]:
        folder = prefix.rpartition("/")[0]
        found = _files(self.where(folder), f"{folder}/" if folder else "")
        return sorted(name for name in found if name.startswith(prefix))


def _files(directory: str, before: str) -> Iterator[str]:
    try:
        entries = list(os.scandir(directory))
    except (FileNotFoundError, NotADirectoryError):
        return
    for entry in entries:
        if entry.is_dir():
            yield from _files(entry.path, f"{before}{entry.name}/")
        else:
            yield f"{before}{entry.name}"


def _read_range(descriptor: int, start: int, end: int) -> bytes:
    content = os.pread(descriptor, end - start, start)
    if len(content) == end - start or not content:
        return content
    parts, at = [content], start + len(content)
    while at < end and (part := os.pread(descriptor, end - at, at)):
        parts.append(part)
        at += len(part)
    return b"".join(parts)
