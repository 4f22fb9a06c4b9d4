"""The reader's side: a state machine that gives a key's messages in the order sent, although the key
moved between partitions. It knows nothing of any broker."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from evenflow.ordering.headers import FIRST, LAST, MESSAGE, NO_PARTITION, NO_SET, Header

DONE = 3  #: beside the kinds of records in a log: the old owner's word, with the key's state


class Item(NamedTuple):
    """Something that waits: a message, a marker, or a `done` that came before its `first`.

    `number` is unique within the partition and grows, so that what waits can be saved one by one.
    """

    number: int
    kind: int
    key: bytes
    value: bytes | None
    set: int = NO_SET
    other: int = NO_PARTITION


class Done(NamedTuple):
    """The old owner's word to the new one: all messages of the key before this set are processed."""

    partition: int  #: to whom
    key: bytes
    set: int  #: that may begin


class Effects(Protocol):
    """What a reader wants done, in this order; `install` and `send` concern a key's own state."""

    def process(self, key: bytes, value: bytes | None) -> None:
        """The next message of a key."""

    def install(self, key: bytes, state: bytes | None) -> None:
        """The key's state has come from its old owner."""

    def send(self, done: Done) -> None:
        """Send this with the key's state to the new owner, and forget the state here."""


class Snapshot(NamedTuple):
    """All that a reader remembers, to be saved with its place in the log."""

    positions: dict[int, tuple[int, int]]
    next_number: int
    items: tuple[Item, ...]


@dataclass
class _Waiting:
    """A key that is not simply here: what waits of it, in order, and what has come for it."""

    queue: deque[Item] = field(default_factory=deque)
    arrived: dict[int, Item] = field(default_factory=dict)


class Reader:
    """Reads one partition's records in its order, and the `done` messages sent to the partition, in
    any order between the two.

    A key is *here*: its messages are processed at once. Or it is *awaited*: the first marker of a set
    was read and the old owner's `done` has not come; messages wait, and so do later markers of the
    key, in their turn. A last marker whose turn has come sends `done` to the key's new partition.
    Nothing is remembered of keys that are here.

    Guarantee: if every partition has one reader, and what a reader remembers is saved together with
    its effects and its places in the two logs, every key's messages are processed in the order
    sent, each once, however reading is interleaved, whatever part of a partition is written again,
    and wherever readers are restarted from what they saved.

    Parameters:
        effects: who does what this decides.
        snapshot: what an earlier reader of this partition saved.
        buffering: off, messages do not wait. Only to show that a checker sees what then happens.

    Example:
        >>> class Print:
        ...     def process(self, key, value): print("process", value)
        ...     def install(self, key, state): print("state", state)
        ...     def send(self, done): print("done to", done.partition)
        >>> reader = Reader(Print())
        >>> reader.read(b"k", None, Header(FIRST, 7, 1, 0, set=5, other=0))
        >>> reader.read(b"k", b"second", Header(MESSAGE, 7, 1, 1, set=5))
        >>> reader.held
        1
        >>> reader.done(b"k", 5, b"after the first")
        state b'after the first'
        process b'second'

    Paper: SMALOPS, §II, Figure 5.
    """

    def __init__(
        self, effects: Effects, snapshot: Snapshot | None = None, buffering: bool = True
    ) -> None:
        self.effects = effects
        self.buffering = buffering
        self.positions: dict[int, tuple[int, int]] = {}
        self.waiting: dict[bytes, _Waiting] = {}
        self.held = 0  #: messages that wait
        self.duplicates = 0  #: records dropped because they were read before
        self.added: dict[int, Item] = {}  #: what waits since the last `saved`
        self.removed: set[int] = set()  #: what was saved before and does not wait any more
        self.next_number = 0  #: of what will have to wait next
        if snapshot is not None:
            self._restore(snapshot)

    def read(self, key: bytes, value: bytes | None, header: Header | None) -> None:
        """The next record of the partition. Records without headers are processed at once."""
        if header is None:
            self.effects.process(key, value)
            return
        kind, writer, epoch, sequence, set_id, other, _ = header
        position = (epoch, sequence)
        if position <= self.positions.get(writer, _BEFORE_ALL):
            self.duplicates += 1
            return
        self.positions[writer] = position
        waiting = self.waiting.get(key)
        if waiting is None:
            if kind == MESSAGE:
                self.effects.process(key, value)
                return
            if kind == LAST:
                self.effects.send(Done(other, key, set_id))
                return
            if not self.buffering:
                return
            waiting = self.waiting[key] = _Waiting()
        item = self._keep(kind, key, value, set_id, other)
        waiting.queue.append(item)
        self._advance(key, waiting)

    def done(self, key: bytes, set_id: int, state: bytes | None) -> None:
        """The old owner's word that a set may begin, with the key's state."""
        if not self.buffering:
            self.effects.install(key, state)
            return
        waiting = self.waiting.get(key)
        if waiting is None:
            waiting = self.waiting[key] = _Waiting()
        waiting.arrived[set_id] = self._keep(DONE, key, state, set_id)
        self._advance(key, waiting)

    def oldest_awaited(self) -> int | None:
        """The smallest message set whose `done` has not come, None if none is awaited."""
        sets = [entry.queue[0].set for entry in self.waiting.values() if entry.queue]
        return min(sets, default=None)

    def snapshot(self) -> Snapshot:
        """All that must be saved."""
        items = [item for entry in self.waiting.values() for item in entry.queue]
        items += [item for entry in self.waiting.values() for item in entry.arrived.values()]
        return Snapshot(dict(self.positions), self.next_number, tuple(sorted(items)))

    def saved(self) -> None:
        """What waits has been saved: `added` and `removed` begin anew."""
        self.added.clear()
        self.removed.clear()

    def _advance(self, key: bytes, waiting: _Waiting) -> None:
        queue, arrived = waiting.queue, waiting.arrived
        while queue:
            item = queue[0]
            if item.kind == FIRST:
                done = arrived.pop(item.set, None)
                if done is None:
                    return
                self._release(done)
                self.effects.install(key, done.value)
            elif item.kind == LAST:
                self.effects.send(Done(item.other, key, item.set))
            else:
                self.effects.process(key, item.value)
            queue.popleft()
            self._release(item)
        if not arrived:
            del self.waiting[key]

    def _keep(
        self, kind: int, key: bytes, value: bytes | None, set_id: int, other: int = NO_PARTITION
    ) -> Item:
        item = Item(self.next_number, kind, key, value, set_id, other)
        self.next_number += 1
        self.added[item.number] = item
        self.held += kind == MESSAGE
        return item

    def _release(self, item: Item) -> None:
        self.held -= item.kind == MESSAGE
        if self.added.pop(item.number, None) is None:
            self.removed.add(item.number)

    def _restore(self, snapshot: Snapshot) -> None:
        self.positions = dict(snapshot.positions)
        self.next_number = snapshot.next_number
        for item in sorted(snapshot.items):
            waiting = self.waiting.setdefault(item.key, _Waiting())
            if item.kind == DONE:
                waiting.arrived[item.set] = item
            else:
                waiting.queue.append(item)
                self.held += item.kind == MESSAGE


_BEFORE_ALL = (-1, -1)
