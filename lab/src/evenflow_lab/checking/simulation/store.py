"""A store in memory on which requests fail, come late, come twice, stay half done, or are lost."""

from __future__ import annotations

import errno
import zlib
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, TypeVar

from evenflow_lab.checking.simulation.world import World

T = TypeVar("T")
_UNFINISHED = ".unfinished"


@dataclass(eq=False)
class Store:
    """The objects, which of them a loss of power would take, and requests that are still under way.

    Parameters:
        world: whose calls they are.
        watch: told of every object that comes to be, with its content.
    """

    world: World
    watch: Callable[[str, bytes], None] = lambda name, content: None
    objects: dict[str, bytes] = field(default_factory=dict)
    unsynced: dict[str, bytes | None] = field(default_factory=dict)  #: what was there before
    under_way: list[tuple[int, Callable[[], object]]] = field(default_factory=list)
    fault: str | None = None  #: what happens to the next request that it can happen to
    length: int = 0  #: of the fault, in calls

    def write(self, name: str, content: bytes) -> None:
        self.objects[name] = content
        self.unsynced.pop(name, None)
        self.watch(name, content)

    def write_unsynced(self, name: str, content: bytes) -> None:
        before = self.objects.get(name)
        self.write(name, content)
        self.unsynced.setdefault(name, before)

    def lose_power(self, most: int) -> int:
        """The last objects that were never synced are gone, the others safe; how many are gone."""
        lost = list(self.unsynced.items())[-most:]
        for name, before in reversed(lost):
            if before is None:
                self.objects.pop(name, None)
            else:
                self.objects[name] = before
        self.unsynced.clear()
        return len(lost)

    def arrive(self, all_of_them: bool = False) -> None:
        """Let the requests arrive whose time has come."""
        due = [one for one in self.under_way if all_of_them or one[0] <= self.world.calls]
        for one in due:
            self.under_way.remove(one)
            one[1]()

    def later(self, effect: Callable[[], object]) -> None:
        self.under_way.append((self.world.calls + self.length, effect))


@dataclass(frozen=True, eq=False)
class SimulatedStorage:
    """A `Storage` in a simulated store.

    Guarantee: as `Storage` promises, but for what the store's fault does to a request.

    Parameters:
        store: where the objects are.
        folder: what all names are relative to.
        synced: whether writes survive a loss of power; those of Spark's own log do not at once.
    """

    store: Store
    folder: str = ""
    synced: bool = True

    concurrency = 1

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, SimulatedStorage)
            and self.store is other.store
            and self.folder == other.folder
        )

    def __hash__(self) -> int:
        return zlib.crc32(self.folder.encode())  # the same in every process

    def where(self, name: str = "") -> str:
        return f"memory://simulated/{self.folder}{name}".rstrip("/")

    def under(self, folder: str) -> SimulatedStorage:
        return SimulatedStorage(self.store, f"{self.folder}{folder.strip('/')}/", self.synced)

    def size(self, name: str) -> int:
        return len(self.read(name))

    def read(self, name: str) -> bytes:
        return self._ask(f"read {name}", lambda: self._found(name))

    def read_ranges(self, name: str, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        content = self._ask(f"read_ranges {name}", lambda: self._found(name))
        return [content[start:end] for start, end in ranges]

    def put(self, name: str, parts: Iterable[bytes | memoryview]) -> None:
        content = b"".join(parts)
        self._change(f"put {name}", name, lambda: self._write(name, content))

    def create(self, name: str, content: bytes) -> bool:
        def effect() -> bool:
            there = self.store.objects.get(self.folder + name)
            if there is None:
                self._write(name, bytes(content))
            return there is None or there == content

        return self._change(f"create {name}", name, effect)

    def unfinished(self, prefix: str) -> list[str]:
        names = self._ask(f"unfinished {prefix}", lambda: self._names(prefix))
        return [name for name in names if name.endswith(_UNFINISHED)]

    def list(self, prefix: str) -> list[str]:
        names = self._ask(f"list {prefix}", lambda: self._names(prefix))
        return [name for name in names if not name.endswith(_UNFINISHED)]

    def copy(self, name: str, to: str) -> None:
        def effect() -> None:
            self._write(to, self._found(name))

        self._change(f"copy {to}", to, effect)

    def delete(self, *names: str) -> None:
        for name in names:

            def effect(name: str = name) -> None:
                self.store.objects.pop(self.folder + name, None)
                self.store.unsynced.pop(self.folder + name, None)

            self._change(f"delete {name}", None, effect)

    # --- requests --------------------------------------------------------------------------------

    def _found(self, name: str) -> bytes:
        try:
            return self.store.objects[self.folder + name]
        except KeyError:
            raise FileNotFoundError(errno.ENOENT, "No such object", self.where(name)) from None

    def _names(self, prefix: str) -> Sequence[str]:
        start = len(self.folder)
        found = (name[start:] for name in self.store.objects if name.startswith(self.folder))
        return sorted(name for name in found if name.startswith(prefix))

    def _write(self, name: str, content: bytes) -> None:
        write = self.store.write if self.synced else self.store.write_unsynced
        write(self.folder + name, content)

    def _ask(self, what: str, effect: Callable[[], T]) -> T:
        store = self._begin(what)
        if store.fault in ("error", "lost reply"):
            raise self._failed(what)
        return effect()

    def _change(self, what: str, name: str | None, effect: Callable[[], T]) -> T:
        store = self._begin(what)
        fault = store.fault
        if fault == "error":
            raise self._failed(what)
        if fault == "partial write" and name is not None:
            # The store never shows the name itself: what is whole, and what is there, is one step.
            store.objects[f"{self.folder}{name}.{self.world.uuid4().hex}{_UNFINISHED}"] = b"?"
            raise self._failed(what)
        if fault == "delayed":
            self._done()
            store.later(lambda: _quietly(effect))
            raise TimeoutError(errno.ETIMEDOUT, f"injected delay: {what}")
        result = effect()
        if fault == "doubled":
            self._done()
            store.later(lambda: _quietly(effect))
        if fault == "lost reply":
            raise self._failed(what)
        # The process may die between the effect and its word of it.
        self.world.call(f"reply to {what}")
        return result

    @property
    def world(self) -> World:
        return self.store.world

    def _begin(self, what: str) -> Store:
        self.world.call(what)
        self.store.arrive()
        return self.store

    def _done(self) -> None:
        self.world.happened[str(self.store.fault)] += 1
        self.store.fault = None

    def _failed(self, what: str) -> OSError:
        lost = self.store.fault == "lost reply"
        self._done()
        if lost:
            return TimeoutError(errno.ETIMEDOUT, f"injected loss of a reply: {what}")
        return OSError(errno.EIO, f"injected error: {what}")


def _quietly(effect: Callable[[], Any]) -> None:
    """A request of somebody who no longer waits: nobody is told that it fails."""
    with suppress(OSError):
        effect()
