"""Objects in this process's memory, for tests and simulations."""

from __future__ import annotations

import errno
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from threading import RLock
from typing import Any, ClassVar
from uuid import uuid4


class _Space:
    """What all storages of one name share."""

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}
        self.guard = RLock()


_spaces: dict[str, _Space] = {}
_guard = RLock()


def _space(name: str) -> _Space:
    with _guard:
        return _spaces.setdefault(name, _Space())


@dataclass(frozen=True)
class MemoryStorage:
    """A `Storage` in a dictionary of this process.

    All storages of one name share their objects, also copies that were pickled, until `clear`.

    Parameters:
        name: of the space that objects live in; a new one if not given.
        folder: what all names are relative to, with a `/` at its end.

    Example:
        >>> storage = MemoryStorage()
        >>> storage.create("a/b", b"one"), storage.create("a/b", b"two"), storage.create("a/b", b"one")
        (True, False, True)
        >>> storage.under("a").list("")
        ['b']
        >>> storage.clear()
    """

    name: str = field(default_factory=lambda: uuid4().hex)
    folder: str = ""
    concurrency: ClassVar[int] = 1
    _space: _Space = field(init=False, repr=False, compare=False, hash=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_space", _space(self.name))

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.name, self.folder)

    def clear(self) -> None:
        """Remove all objects of this name."""
        with self._space.guard:
            self._space.objects.clear()
        with _guard:
            if _spaces.get(self.name) is self._space:
                del _spaces[self.name]

    def where(self, name: str = "") -> str:
        """The address: `memory://NAME/…`."""
        return f"memory://{self.name}/{self.folder}{name}".rstrip("/")

    def under(self, folder: str) -> MemoryStorage:
        """The storage in a folder of this one."""
        return MemoryStorage(self.name, f"{self.folder}{folder.strip('/')}/")

    def size(self, name: str) -> int:
        """How many bytes an object has."""
        return len(self.read(name))

    def read(self, name: str) -> bytes:
        """The whole object."""
        try:
            return self._space.objects[self.folder + name]
        except KeyError:
            raise FileNotFoundError(errno.ENOENT, "No such object", self.where(name)) from None

    def read_ranges(self, name: str, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        """Some (start, end) ranges of an object; short only where they go past its end."""
        content = self.read(name)
        return [content[start:end] for start, end in ranges]

    def put(self, name: str, parts: Iterable[bytes | memoryview]) -> None:
        """Write an object, replacing the one that may be there."""
        content = b"".join(parts)
        with self._space.guard:
            self._space.objects[self.folder + name] = content

    def create(self, name: str, content: bytes) -> bool:
        """Write an object unless one of that name is there. Returns whether it has this content now."""
        with self._space.guard:
            return self._space.objects.setdefault(self.folder + name, bytes(content)) == content

    def unfinished(self, prefix: str) -> list[str]:
        """Always empty."""
        return []

    def list(self, prefix: str) -> list[str]:
        """The names that begin with `prefix`, sorted."""
        with self._space.guard:
            names = sorted(self._space.objects)
        start = len(self.folder)
        return [name[start:] for name in names if name.startswith(self.folder + prefix)]

    def copy(self, name: str, to: str) -> None:
        """Write an object with the content of another, replacing the one that may be there."""
        self.put(to, [self.read(name)])

    def delete(self, *names: str) -> None:
        """Remove objects; those that are not there are fine."""
        with self._space.guard:
            for name in names:
                self._space.objects.pop(self.folder + name, None)
