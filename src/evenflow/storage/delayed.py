"""A storage whose requests take their time, as over a network, for tests and measurements."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from evenflow.storage.protocol import Storage
from evenflow.storage.requests import count

_PAGE = 1000  # names that one request lists or deletes, as on S3


@dataclass(frozen=True)
class DelayedStorage:
    """Another storage, with so many seconds before each request, and requests that are counted.

    Parameters:
        inner: where the objects are.
        seconds: that each request takes.
        concurrency: how many of them go side by side.

    Example:
        >>> from evenflow.storage.memory import MemoryStorage
        >>> from evenflow.storage.requests import counting
        >>> storage = DelayedStorage(MemoryStorage(), seconds=0.001)
        >>> with counting() as requests:
        ...     storage.put("a", [b"abc"])
        ...     storage.read_ranges("a", [(0, 1), (2, 3)])
        [b'a', b'c']
        >>> requests.to_dict()["writes"], requests.to_dict()["reads"]
        (1, 2)
    """

    inner: Storage
    seconds: float = 0.02
    concurrency: int = 16

    def where(self, name: str = "") -> str:
        """As the inner storage says."""
        return self.inner.where(name)

    def under(self, folder: str) -> DelayedStorage:
        """The inner storage in a folder, as slow."""
        return DelayedStorage(self.inner.under(folder), self.seconds, self.concurrency)

    def size(self, name: str) -> int:
        """How many bytes an object has, in one request."""
        self._request("reads")
        return self.inner.size(name)

    def read(self, name: str) -> bytes:
        """The whole object, in one request."""
        self._request("reads")
        content = self.inner.read(name)
        count(read_bytes=len(content))
        return content

    def read_ranges(self, name: str, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        """Some (start, end) ranges of an object, each a request of its own, side by side."""
        self._request("reads", len(ranges))
        contents = self.inner.read_ranges(name, ranges)
        count(read_bytes=sum(map(len, contents)))
        return contents

    def put(self, name: str, parts: Iterable[bytes | memoryview]) -> None:
        """Write an object, in one request."""
        content = b"".join(parts)
        self._request("writes")
        count(written_bytes=len(content))
        self.inner.put(name, [content])

    def create(self, name: str, content: bytes) -> bool:
        """Write an object unless one of that name is there, in one request."""
        self._request("writes")
        count(written_bytes=len(content))
        return self.inner.create(name, content)

    def unfinished(self, prefix: str) -> list[str]:
        """As the inner storage says: remote ones show none, so this is not a request."""
        return self.inner.unfinished(prefix)

    def list(self, prefix: str) -> list[str]:
        """The names that begin with `prefix`, 1000 in a request."""
        names = self.inner.list(prefix)
        for _ in range(len(names) // _PAGE + 1):
            self._request("lists")
        return names

    def copy(self, name: str, to: str) -> None:
        """Copy an object, in one request."""
        self._request("writes")
        self.inner.copy(name, to)

    def delete(self, *names: str) -> None:
        """Remove objects, 1000 in a request."""
        for first in range(0, len(names), _PAGE):
            self._request("deletes")
            self.inner.delete(*names[first : first + _PAGE])

    def _request(self, kind: str, number: int = 1) -> None:
        count(**{kind: number})
        for _ in range(0, number, self.concurrency):
            time.sleep(self.seconds)
