"""A storage on which things go wrong, when a test says so."""

from __future__ import annotations

import errno
import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from threading import RLock
from typing import Any, TypeVar
from uuid import uuid4
from weakref import WeakValueDictionary

from evenflow.storage.protocol import Storage

T = TypeVar("T")


class Crash(BaseException):
    """The process is dead from here on, as after SIGKILL: no `except Exception` may survive it."""


@dataclass(eq=False)
class Faults:
    """What goes wrong at which call. All storages that share one also share its count of calls.

    Parameters:
        crash_at: the number of the call, from 0, at which the process dies; None: it does not.
        applied: whether the effect of that call is there, and only its reply missing.
        errors: the share of calls that fail without effect, with an `OSError`.
        lost_replies: the share of calls that take effect and then fail with a `TimeoutError`.
        seed: decides which calls these are.
        calls: how many there have been so far.
        crashed: whether the process is dead. Every further call raises `Crash` again, so that nothing
            that runs while the stack unwinds can write.
        log: what each call was, such as `put manifests/0000000003.json`.

    Example:
        >>> from evenflow.storage import MemoryStorage
        >>> disk = MemoryStorage()
        >>> dying = FaultyStorage(disk, Faults(crash_at=1, applied=True))
        >>> dying.put("a", [b"1"])
        >>> try:
        ...     dying.put("b", [b"2"])
        ... except Crash as crash:
        ...     print(crash)
        after call 1: put b
        >>> disk.list("")
        ['a', 'b']
        >>> disk.clear()
    """

    crash_at: int | None = None
    applied: bool = False
    errors: float = 0.0
    lost_replies: float = 0.0
    seed: int = 0
    calls: int = field(default=0, init=False)
    crashed: bool = field(default=False, init=False)
    log: list[str] = field(default_factory=list, init=False)

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)
        self._guard = RLock()
        self._id = uuid4().hex
        _living[self._id] = self

    def __reduce__(self) -> tuple[Any, ...]:
        return _found, (self._id,)  # a copy counts the same calls

    def call(self, what: str, effect: Callable[[], T], fails: bool = True) -> T:
        """Do one call to the storage, or what goes wrong instead.

        Parameters:
            what: the call, in words.
            effect: does it.
            fails: whether it may be one of those that fail by chance.
        """
        with self._guard:
            if self.crashed:
                raise Crash(f"dead already: {what}")
            number = self.calls
            self.calls += 1
            self.log.append(what)
            chance = self._random.random() if fails else 1.0
        if number == self.crash_at and not self.applied:
            raise self._dead(f"before call {number}: {what}")
        if chance < self.errors:
            raise OSError(errno.EIO, f"injected error at call {number}: {what}")
        try:
            result = effect()
        finally:
            if number == self.crash_at:
                raise self._dead(f"after call {number}: {what}")
        if chance < self.errors + self.lost_replies:
            raise TimeoutError(errno.ETIMEDOUT, f"injected loss of reply {number}: {what}")
        return result

    def _dead(self, when: str) -> Crash:
        self.crashed = True
        return Crash(when)


_living: WeakValueDictionary[str, Faults] = WeakValueDictionary()


def _found(identity: str) -> Faults:
    return _living[identity]


@dataclass(frozen=True)
class FaultyStorage:
    """Another storage, with faults. See `Faults`.

    Parameters:
        inner: where the objects are.
        faults: what goes wrong, and when.
    """

    inner: Storage
    faults: Faults = field(default_factory=Faults)

    @property
    def concurrency(self) -> int:
        """One, so that the order of the calls is the same in every run."""
        return 1

    def where(self, name: str = "") -> str:
        """As the inner storage says. Not a call."""
        return self.inner.where(name)

    def under(self, folder: str) -> FaultyStorage:
        """The inner storage in a folder, with the same faults. Not a call."""
        return FaultyStorage(self.inner.under(folder), self.faults)

    def size(self, name: str) -> int:
        """Number of bytes, or a fault."""
        return self.faults.call(f"size {name}", lambda: self.inner.size(name))

    def read(self, name: str) -> bytes:
        """The whole object, or a fault."""
        return self.faults.call(f"read {name}", lambda: self.inner.read(name))

    def read_ranges(self, name: str, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        """Some ranges, or a fault."""
        return self.faults.call(f"read_ranges {name}", lambda: self.inner.read_ranges(name, ranges))

    def put(self, name: str, parts: Iterable[bytes | memoryview]) -> None:
        """Write, or a fault."""
        self.faults.call(f"put {name}", lambda: self.inner.put(name, parts))

    def create(self, name: str, content: bytes) -> bool:
        """Create, or a fault."""
        return self.faults.call(f"create {name}", lambda: self.inner.create(name, content))

    def unfinished(self, prefix: str) -> list[str]:
        """List unfinished writes, or a fault."""
        return self.faults.call(f"unfinished {prefix}", lambda: self.inner.unfinished(prefix))

    def list(self, prefix: str) -> list[str]:
        """List, or a fault."""
        return self.faults.call(f"list {prefix}", lambda: self.inner.list(prefix))

    def copy(self, name: str, to: str) -> None:
        """Copy, or a fault."""
        self.faults.call(f"copy {name} {to}", lambda: self.inner.copy(name, to))

    def delete(self, *names: str) -> None:
        """Delete, or a fault at any of the names."""
        for name in names:
            self.faults.call(f"delete {name}", partial(self.inner.delete, name))
