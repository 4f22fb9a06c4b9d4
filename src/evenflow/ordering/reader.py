"""The reader: a state machine that restores the order of a key's messages after the key moved between
partitions. It is independent of any broker."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from evenflow.ordering.headers import FIRST, LAST, MESSAGE, NO_PARTITION, NO_SET, Header, writer_of

NO_OFFSET = -1
DONE = 3  #: a fourth kind, beside those of a log: the old owner's message, with the key's state


class Item(NamedTuple):
    """A waiting record: a message, a marker, or a `done` that arrived before its `first`.

    `number` is unique within the partition and increases, so that items can be saved one by one.
    """

    number: int
    kind: int
    key: bytes
    value: bytes | None
    set: int = NO_SET
    other: int = NO_PARTITION
    offset: int = NO_OFFSET  #: in the log


class Done(NamedTuple):
    """From the old owner to the new one: all messages of the key before this set are processed."""

    partition: int  #: the new owner
    key: bytes
    set: int  #: the set that may begin


class Effects(Protocol):
    """The actions of a reader, called in order."""

    def process(self, key: bytes, value: bytes | None) -> None:
        """Process the next message of a key."""

    def install(self, key: bytes, state: bytes | None) -> None:
        """Install the key's state, received from its old owner."""

    def send(self, done: Done) -> None:
        """Send this with the key's state to the new owner, and drop the state here."""


class Snapshot(NamedTuple):
    """The state of a reader, to be saved with its offset in the log."""

    positions: dict[int, tuple[int, int]]
    next_number: int
    items: tuple[Item, ...]


@dataclass
class _Waiting:
    """An awaited key: its waiting records in order, and the `done` messages that have arrived."""

    queue: deque[Item] = field(default_factory=deque)
    arrived: dict[int, Item] = field(default_factory=dict)


class Reader:
    """Reads one partition's records in order, and the `done` messages sent to the partition, in any
    interleaving of the two.

    A key is either *here*, and its messages are processed at once, or *awaited*: the first marker of a
    set was read, but the old owner's `done` has not arrived. Messages and later markers of an awaited
    key wait in order. When a last marker's turn comes, it sends `done` to the key's new partition. Keys
    that are here need no state.

    Guarantee: if every partition has one reader, and its state is saved together with its effects and
    its offsets in the two logs, every key's messages are processed in the order sent, each once: for
    any interleaving, whatever part of a partition is written again, and wherever readers are restarted
    from their snapshots.

    Parameters:
        effects: carries out the actions.
        snapshot: saved by an earlier reader of this partition.
        buffering: False to let messages overtake; only for testing that a checker notices.

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
        self.positions: dict[int, tuple[int, int]] = {}  #: of each writer's lanes in its last epoch
        self.writers: dict[int, tuple[int, list[int]]] = {}  #: their last epochs, and lanes in them
        self.offset = NO_OFFSET  #: in the log, of the message that is processed
        self.waiting: dict[bytes, _Waiting] = {}
        self.held = 0  #: waiting messages
        self.duplicates = 0  #: records dropped because they were read before
        self.added: dict[int, Item] = {}  #: waiting since the last `saved`
        self.removed: set[int] = set()  #: saved before, and no longer waiting
        self.next_number = 0  #: of the next item
        if snapshot is not None:
            self._restore(snapshot)

    def read(
        self, key: bytes, value: bytes | None, header: Header | None, offset: int = NO_OFFSET
    ) -> None:
        """Read the next record of the partition. One without headers is processed at once."""
        self.offset = offset
        if header is None:
            self.effects.process(key, value)
            return
        kind, writer, epoch, sequence, set_id, other, _ = header
        position = (epoch, sequence)
        if not self._advance_position(writer, position):
            self.duplicates += 1
            return
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
        item = self._keep(kind, key, value, set_id, other, offset)
        waiting.queue.append(item)
        self._advance(key, waiting)

    def done(self, key: bytes, set_id: int, state: bytes | None) -> None:
        """Receive the old owner's `done`: the set may begin, with this state."""
        if not self.buffering:
            self.effects.install(key, state)
            return
        waiting = self.waiting.setdefault(key, _Waiting())
        waiting.arrived[set_id] = self._keep(DONE, key, state, set_id)
        self._advance(key, waiting)

    def oldest_awaited(self) -> int | None:
        """The smallest message set whose `done` has not arrived; None if none is awaited."""
        sets = [entry.queue[0].set for entry in self.waiting.values() if entry.queue]
        return min(sets, default=None)

    def snapshot(self) -> Snapshot:
        """The state to save."""
        items = [item for entry in self.waiting.values() for item in entry.queue]
        items += [item for entry in self.waiting.values() for item in entry.arrived.values()]
        return Snapshot(dict(self.positions), self.next_number, tuple(sorted(items)))

    def saved(self) -> None:
        """Mark all items as saved: clear `added` and `removed`."""
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
                self.offset = item.offset
                self.effects.process(key, item.value)
            queue.popleft()
            self._release(item)
        if not arrived:
            del self.waiting[key]

    def _advance_position(self, lane: int, position: tuple[int, int]) -> bool:
        """Whether a record is new. A writer that has begun an epoch writes nothing older again, so the
        positions of its lanes in earlier epochs are forgotten."""
        writer, epoch = writer_of(lane), position[0]
        latest, lanes = self.writers.get(writer, (-1, []))
        if epoch > latest:
            for old in lanes:
                del self.positions[old]
            self.writers[writer] = (epoch, [lane])
        elif epoch < latest or position <= self.positions.get(lane, _BEFORE_ALL):
            return False
        elif lane not in self.positions:
            lanes.append(lane)
        self.positions[lane] = position
        return True

    def _keep(
        self,
        kind: int,
        key: bytes,
        value: bytes | None,
        set_id: int,
        other: int = NO_PARTITION,
        offset: int = NO_OFFSET,
    ) -> Item:
        item = Item(self.next_number, kind, key, value, set_id, other, offset)
        self.next_number += 1
        self.added[item.number] = item
        self.held += kind == MESSAGE
        return item

    def _release(self, item: Item) -> None:
        self.held -= item.kind == MESSAGE
        if self.added.pop(item.number, None) is None:
            self.removed.add(item.number)

    def _restore(self, snapshot: Snapshot) -> None:
        for lane, position in sorted(snapshot.positions.items(), key=lambda item: item[1]):
            self._advance_position(lane, position)
        self.next_number = snapshot.next_number
        for item in sorted(snapshot.items):
            waiting = self.waiting.setdefault(item.key, _Waiting())
            if item.kind == DONE:
                waiting.arrived[item.set] = item
            else:
                waiting.queue.append(item)
                self.held += item.kind == MESSAGE


_BEFORE_ALL = (-1, -1)
