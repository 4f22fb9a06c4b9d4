"""A remote storage whose immutable objects are kept on the disk of the machine that reads them."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache, partial

from evenflow.model.errors import InputError
from evenflow.storage.concurrent import together
from evenflow.storage.page_files import PageDirectory, PageFile
from evenflow.storage.protocol import Storage
from evenflow.storage.requests import count

LIMIT = 4 << 30  #: bytes on the disk, unless EVENFLOW_CACHE_BYTES says otherwise


@dataclass(frozen=True)
class CachedStorage:
    """Another storage, with a cache of those of its objects that never change.

    What a task reads of them, or writes, stays on the local disk for the next task that runs as the
    same user on the same machine, in whichever process. The directory is `EVENFLOW_CACHE_DIR`, else
    that which Spark gives its executor, else the user's own cache; there, `segments`.

    Guarantee: what it returns is what the inner storage returns. A full, read-only or otherwise unfit
    disk costs requests, never an error; a directory or a file of another user is not used. Whoever
    finds that some content is damaged calls `forget` and reads it again, from the store.

    Parameters:
        inner: where the objects are.
        immutable: how the names begin of objects that are written once and never replaced.
        directory: where to keep them; None: as above, in the process that reads.
        limit: how many bytes to keep; None: `EVENFLOW_CACHE_BYTES`, else 4 GiB. Never more than a
            tenth of the free disk. 0: nothing is kept.

    Example:
        >>> import tempfile
        >>> from evenflow.storage.memory import MemoryStorage
        >>> inner = MemoryStorage()
        >>> storage = CachedStorage(inner, directory=tempfile.mkdtemp())
        >>> storage.put("segments/a", [b"abc"])
        >>> inner.delete("segments/a")
        >>> storage.read_ranges("segments/a", [(1, 3)])
        [b'bc']
    """

    inner: Storage
    immutable: str = "segments/"
    directory: str | None = None
    limit: int | None = None

    @property
    def concurrency(self) -> int:
        """As the inner storage says."""
        return self.inner.concurrency

    def where(self, name: str = "") -> str:
        """As the inner storage says."""
        return self.inner.where(name)

    def under(self, folder: str) -> CachedStorage:
        """The inner storage in a folder, with the same cache."""
        return CachedStorage(self.inner.under(folder), self.immutable, self.directory, self.limit)

    def size(self, name: str) -> int:
        """How many bytes an object has."""
        return self.inner.size(name)

    def read(self, name: str) -> bytes:
        """The whole object, from the store."""
        return self.inner.read(name)

    def read_ranges(self, name: str, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        """Some (start, end) ranges of an object; what the cache does not have comes in few requests."""
        file = self._file(name) if ranges else None
        if file is None:
            return self.inner.read_ranges(name, ranges)
        contents = file.read(ranges)
        fetched = 0
        if contents is None and (missing := file.missing(ranges)):
            read = [partial(self.inner.read_ranges, name, [part]) for part in missing]
            for (start, end), (content,) in zip(missing, together(self, read), strict=True):
                file.write(start, end, content)
                fetched += len(content)
            contents = file.read(ranges)
        if contents is None:
            return self.inner.read_ranges(name, ranges)
        count(cached_bytes=max(sum(map(len, contents)) - fetched, 0))
        return contents

    def put(self, name: str, parts: Iterable[bytes | memoryview]) -> None:
        """Write an object, and keep it if it never changes."""
        self._forget(name)
        file = self._file(name)
        if file is None:
            self.inner.put(name, parts)
        else:
            self.inner.put(name, file.copied(parts))
            file.finish()

    def create(self, name: str, content: bytes) -> bool:
        """Write an object unless one of that name is there."""
        return self.inner.create(name, content)

    def unfinished(self, prefix: str) -> list[str]:
        """As the inner storage says."""
        return self.inner.unfinished(prefix)

    def list(self, prefix: str) -> list[str]:
        """The names that begin with `prefix`, sorted."""
        return self.inner.list(prefix)

    def copy(self, name: str, to: str) -> None:
        """Write an object with the content of another."""
        self._forget(to)
        self.inner.copy(name, to)

    def delete(self, *names: str) -> None:
        """Remove objects, from the cache, too."""
        for name in names:
            self._forget(name)
        self.inner.delete(*names)

    # --- the cache -------------------------------------------------------------------------------

    def _forget(self, name: str) -> bool:
        pages = _pages(self.directory, self.limit)
        if pages is None or not name.startswith(self.immutable):
            return False
        return pages.drop(self._key(name))

    def _file(self, name: str) -> PageFile | None:
        pages = _pages(self.directory, self.limit)
        if pages is None or not name.startswith(self.immutable):
            return None
        return pages.file(self._key(name))

    def _key(self, name: str) -> str:
        """The address, so that two checkpoints never meet; short and safe as the name of a file."""
        return hashlib.sha256(self.where(name).encode()).hexdigest()[:40]


def cached(storage: Storage) -> Storage:
    """The storage with a cache of state, if its requests are waited for; else as it is."""
    return CachedStorage(storage) if storage.concurrency > 1 else storage


def forget(storage: Storage, name: str) -> bool:
    """Drop what a cache holds of an object, because it was damaged; whether there was anything."""
    return isinstance(storage, CachedStorage) and storage._forget(name)


def _pages(directory: str | None, limit: int | None) -> PageDirectory | None:
    """The pages in a directory; None where nothing is kept."""
    given = os.environ.get("EVENFLOW_CACHE_BYTES", str(LIMIT))
    try:
        limit = int(given) if limit is None else limit
    except ValueError:
        raise InputError(f"EVENFLOW_CACHE_BYTES is {given!r}; give a number of bytes") from None
    return _directory(os.path.join(directory or _base(), "segments"), limit) if limit > 0 else None


@cache
def _directory(path: str, limit: int) -> PageDirectory:
    """One for all storages of this process, as it counts what they add."""
    return PageDirectory(path, limit)


def _base() -> str:
    if given := os.environ.get("EVENFLOW_CACHE_DIR"):
        return given
    # Spark tells its Python workers where the executor's own files are; they go away with it.
    if local := os.environ.get("SPARK_LOCAL_DIRS"):
        return os.path.join(local.split(",")[0], "evenflow")
    user = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return os.path.join(user, "evenflow")
