"""Objects as files below a directory."""

from __future__ import annotations

import errno
import fcntl
import os
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from evenflow.storage.durable import TEMPORARY, make_directory, sync_directory, write_whole

_HOLDER_BYTES = 4096  # longer descriptions of a lock's holder are cut


class PosixLock:
    """Bound to an open file, so the kernel lets go of it however the process ends."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor: int | None = descriptor
        self._guard = threading.Lock()

    def release(self) -> None:
        """Let others in. A second call does nothing, from whichever thread it comes."""
        with self._guard:  # closed twice, the second time it might be somebody else's file
            descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)


@dataclass(frozen=True)
class PosixStorage:
    """A `Storage` in a directory of a file system, local or mounted by all machines.

    Guarantee: that of the protocol, where the file system has atomic `rename` and `link`, `fsync` and
    `flock`, as local ones and NFS 4 have. Directories are made when they are needed. A name that ends
    with `.tmp` is that of an unfinished object.

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

    def delete(self, name: str) -> None:
        """Remove an object; nothing happens if it is not there."""
        with suppress(FileNotFoundError, NotADirectoryError):
            os.unlink(self.where(name))

    def lock(self, name: str, holder: str) -> PosixLock:
        """Keep all others out until released or until this process ends, however it ends."""
        path = self._path(name)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, holder.encode()[:_HOLDER_BYTES], 0)
        except OSError as error:
            held = os.pread(descriptor, _HOLDER_BYTES, 0)
            os.close(descriptor)
            if error.errno in (errno.EWOULDBLOCK, errno.EACCES):
                text = held.decode(errors="replace")
                raise BlockingIOError(errno.EWOULDBLOCK, text, str(path)) from None
            raise
        return PosixLock(descriptor)

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
