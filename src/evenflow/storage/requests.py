"""How many requests a piece of work makes to a store: what it waits for and is billed for."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from threading import Lock

KINDS = ("reads", "writes", "lists", "deletes", "read_bytes", "written_bytes", "cached_bytes")


class Requests:
    """The requests of one piece of work, by kind; all zero where the store is a local disk.

    `reads`, `writes`, `lists` and `deletes` are requests, a copy being a write; `read_bytes` and
    `written_bytes` went over the network; `cached_bytes` would have, but for the cache.
    """

    def __init__(self) -> None:
        self._counts = dict.fromkeys(KINDS, 0)
        self._guard = Lock()

    def add(self, **counts: int) -> None:
        """Count some more, by kind."""
        with self._guard:
            for kind, number in counts.items():
                self._counts[kind] += number

    def to_dict(self) -> dict[str, int]:
        """Plain numbers, by kind."""
        return dict(self._counts)


_current: ContextVar[Requests | None] = ContextVar("requests", default=None)


@contextmanager
def counting() -> Iterator[Requests]:
    """Count the requests that are made in this context, and not in the one around it.

    Example:
        >>> with counting() as outer:
        ...     count(reads=1, read_bytes=10)
        ...     with counting() as inner:
        ...         count(writes=1)
        >>> outer.to_dict()["reads"], outer.to_dict()["writes"], inner.to_dict()["writes"]
        (1, 0, 1)
    """
    requests = Requests()
    token = _current.set(requests)
    try:
        yield requests
    finally:
        _current.reset(token)


def count(**counts: int) -> None:
    """Count requests of a remote store, by the names in `KINDS`; nothing happens if nobody counts."""
    requests = _current.get()
    if requests is not None:
        requests.add(**counts)
