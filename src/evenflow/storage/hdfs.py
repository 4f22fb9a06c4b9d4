"""Objects as files of an HDFS, through WebHDFS."""

from __future__ import annotations

import errno
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import ClassVar
from uuid import uuid4

from evenflow.storage.concurrent import together
from evenflow.storage.webhdfs import WebHdfs

UNFINISHED = "._COPYING_"  #: as `hdfs dfs -put` names them; Spark does not read such files
_GAP = 1 << 18  # bytes: ranges that are closer than this are read in one request
_WRITES = 5  # how often an object is written whose unfinished file somebody else removes


@dataclass(frozen=True)
class HdfsStorage:
    """A `Storage` in a directory of an HDFS.

    Guarantee: that of the protocol. An object is written under a name of its own, closed, and renamed,
    which the NameNode does in one step and logs. `create` renames without replacing, so one of many
    succeeds. The DataNodes of the pipeline have called `fsync` when a write returns.

    Parameters:
        address: as users and Spark write it, such as `hdfs://namenode:8020/data`.
        client: how to reach that HDFS; `storage.hdfs_addresses` finds it for an address.

    Example:
        >>> storage = HdfsStorage("hdfs://nameservice/data", WebHdfs(("http://namenode:9870",)))
        >>> storage.under("ckpt").where("plans/0.json")
        'hdfs://nameservice/data/ckpt/plans/0.json'
    """

    address: str
    client: WebHdfs
    concurrency: ClassVar[int] = 16

    def where(self, name: str = "") -> str:
        """The address of a name, as Spark reads it."""
        return f"{self.address.rstrip('/')}/{name}" if name else self.address

    def under(self, folder: str) -> HdfsStorage:
        """The storage in a directory of this one."""
        return HdfsStorage(self.where(folder.strip("/")), self.client)

    def size(self, name: str) -> int:
        """How many bytes an object has."""
        status = self.client.status(self._path(name), self.where(name))
        if status["type"] != "FILE":
            raise FileNotFoundError(errno.ENOENT, "No such object", self.where(name))
        return int(status["length"])

    def read(self, name: str) -> bytes:
        """The whole object."""
        return self.client.open(self._path(name), self.where(name))

    def read_ranges(self, name: str, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        """Some (start, end) ranges of an object; near ones are read together, others side by side."""
        joined: list[list[int]] = []
        for start, end in sorted(one for one in ranges if one[0] < one[1]):
            if joined and start <= joined[-1][1] + _GAP:
                joined[-1][1] = max(joined[-1][1], end)
            else:
                joined.append([start, end])
        path, where = self._path(name), self.where(name)
        calls = [partial(self.client.open, path, where, a, b - a) for a, b in joined]
        found = list(zip(joined, together(self, calls), strict=True))

        def part(start: int, end: int) -> bytes:
            for (first, last), content in found:
                if first <= start < end <= last:
                    return content[start - first : end - first]
            return b""

        return [part(start, end) for start, end in ranges]

    def put(self, name: str, parts: Iterable[bytes | memoryview]) -> None:
        """Write an object, replacing the one that may be there."""
        self._write(name, b"".join(parts), replace=True)

    def create(self, name: str, content: bytes) -> bool:
        """Write an object unless one of that name is there. Returns whether it has this content now."""
        return self._write(name, bytes(content), replace=False)

    def unfinished(self, prefix: str) -> list[str]:
        """The names of files that were not renamed yet."""
        return [name for name in self._names(prefix) if name.endswith(UNFINISHED)]

    def list(self, prefix: str) -> list[str]:
        """The names that begin with `prefix`, sorted; no unfinished ones."""
        return [name for name in self._names(prefix) if not name.endswith(UNFINISHED)]

    def copy(self, name: str, to: str) -> None:
        """Write an object with the content of another, which passes through this process."""
        self.put(to, [self.read(name)])

    def delete(self, *names: str) -> None:
        """Remove objects, each in a request; those that are not there are fine."""
        together(self, [partial(self._delete, name) for name in names])

    # --- files -----------------------------------------------------------------------------------

    def _path(self, name: str) -> str:
        path = self.where(name).partition("://")[2].partition("/")[2]
        return f"/{path}"

    def _delete(self, name: str) -> None:
        with suppress(FileNotFoundError, NotADirectoryError):
            self.client.delete(self._path(name), self.where(name))

    def _write(self, name: str, content: bytes, replace: bool) -> bool:
        """Write an object; whether it has this content now."""
        path, where = self._path(name), self.where(name)
        for _ in range(_WRITES):
            made = self.client.create(path, content, where, _unfinished_name)
            try:
                self.client.rename(made, path, where, replace)
                return True
            except FileNotFoundError:
                pass  # renamed by a request whose reply was lost; or somebody removed it
            except FileExistsError:
                self.client.discard(made)
            except BaseException:
                self.client.discard(made)
                raise
            try:
                found = self.read(name)
            except FileNotFoundError:
                continue
            if found == content:
                return True
            if not replace:
                return False
        raise OSError(
            f"{where} was removed {_WRITES} times while it was being written; is another program "
            f"deleting files there that end with {UNFINISHED}?"
        )

    def _names(self, prefix: str) -> Sequence[str]:
        folder = prefix.rpartition("/")[0]
        names: list[str] = []
        level = [f"{folder}/" if folder else ""]
        while level:
            below: list[str] = []
            listings = together(self, [partial(self._entries, before) for before in level])
            for before, entries in zip(level, listings, strict=True):
                for entry, is_file in entries:
                    if (name := before + entry).startswith(prefix):
                        names.append(name) if is_file else below.append(f"{name}/")
            level = below
        return sorted(names)

    def _entries(self, folder: str) -> Sequence[tuple[str, bool]]:
        """The names in a directory, and whether each is a file."""
        folder = folder.rstrip("/")
        try:
            entries = self.client.entries(self._path(folder), self.where(folder))
        except (FileNotFoundError, NotADirectoryError):
            return []
        # A file lists itself, with an empty name.
        return [(e["pathSuffix"], e["type"] == "FILE") for e in entries if e["pathSuffix"]]


def _unfinished_name() -> str:
    return f".{uuid4().hex[:16]}{UNFINISHED}"
