"""The metrics of a query, read piece by piece while it runs: what is newest comes first."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from evenflow.state.checkpoint import IDENTITY
from evenflow.state.errors import explained, no_checkpoint
from evenflow.state.metrics import METRICS, MetricsObject, metrics_in, metrics_objects
from evenflow.storage import Storage

_BYTES = 4 << 20  # of an object with many batches, read at once


class MetricsReader:
    """Reads each batch's metrics once, the newest first, however often it is asked.

    Guarantee: `read` returns every batch that `read_metrics` does, each once, whatever is compacted in
    between; a batch that was put since the last call comes before older ones that were not read yet.
    No more than 4 MiB and one batch's metrics are in memory, however many batches there are.

    Parameters:
        storage: the checkpoint's.

    Example:
        >>> from evenflow.state.metrics import put_metrics
        >>> from evenflow.storage import MemoryStorage
        >>> storage = MemoryStorage()
        >>> reader = MetricsReader(storage)
        >>> put_metrics(storage, {"batch": 0}), put_metrics(storage, {"batch": 1})
        (None, None)
        >>> [batch["batch"] for batch in reader.read()], list(reader.read())
        ([1, 0], [])
        >>> storage.clear()
    """

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._seen: set[int] = set()
        self._unread: dict[str, int] = {}  # name → how many of its bytes, from its start

    def check(self) -> None:
        """Refuse a location that is not a checkpoint's."""
        where = self._storage.where(IDENTITY)
        with explained("read", where):
            if not self._storage.list(IDENTITY):
                raise no_checkpoint(where)

    def left(self) -> int:
        """How many batches are there and were not read, at most."""
        found = self._objects()
        numbers = {n for one in found for n in range(one.first, one.last + 1)}
        return len(numbers - self._seen)

    def read(self) -> Iterator[dict[str, Any]]:
        """The batches that were not read yet, newest first. It may be left before its end."""
        for one in self._objects():
            if self._unread.get(one.name) == 0:
                continue
            if all(batch in self._seen for batch in range(one.first, one.last + 1)):
                continue
            try:
                yield from self._single(one) if one.single else self._many(one)
            except FileNotFoundError:
                continue  # compacted since it was listed: the next call finds it elsewhere

    def _objects(self) -> list[MetricsObject]:
        """Newest first."""
        with explained("list", self._storage.where(METRICS)):
            found = metrics_objects(self._storage)
        names = {one.name for one in found}
        self._unread = {name: left for name, left in self._unread.items() if name in names}
        return sorted(found, key=lambda one: (-one.last, -one.first))

    def _single(self, one: MetricsObject) -> Iterator[dict[str, Any]]:
        rows = list(metrics_in(self._storage.read(one.name)))
        self._unread[one.name] = 0
        yield from self._new(rows)

    def _many(self, one: MetricsObject) -> Iterator[dict[str, Any]]:
        """An object of lines, from its end."""
        if one.name not in self._unread:
            self._unread[one.name] = self._storage.size(one.name)
        while (end := self._unread[one.name]) > 0:
            start = end
            content = b""
            newline = -1
            while newline < 0 and start > 0:
                start, upper = max(0, start - _BYTES), start
                content = self._storage.read_ranges(one.name, [(start, upper)])[0] + content
                # Where the piece does not begin with a line, its first line is read with the next.
                newline = 0 if start == 0 else content.find(b"\n", 0, len(content) - 1) + 1 or -1
            lines = content[max(newline, 0) :].splitlines(keepends=True)
            for line in reversed(lines):
                self._unread[one.name] -= len(line)
                yield from self._new(list(metrics_in(line)))

    def _new(self, rows: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
        for row in rows:
            if row["batch"] not in self._seen:
                self._seen.add(row["batch"])
                yield row
