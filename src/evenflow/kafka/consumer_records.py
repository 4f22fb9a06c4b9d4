"""The binary format of an ordered consumer's `done` messages and changelog.

Numbers are big-endian. A `done` message has the key, the key's state as its value (null for none), and
the header `evenflow-done`: version (1 byte), message set that may begin (8), source partition (4).

The changelog is a compacted topic with as many partitions as the data topic. It has three kinds of
keys:

- `m`: version (1), next offset of the data partition (8) and of the control partition (8), next
  number (8), messages set aside (8), then for each writer its number, epoch and sequence (8 each);
- `s` and a key: the key's state;
- `i` and a number (8), a waiting item: version (1), kind (1), message set (8), other partition (4),
  offset in the data partition (8), length of the key (4; minus one minus the length if there is no
  value), key, value.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import NamedTuple

from evenflow.model import InputError
from evenflow.ordering import Item, Snapshot

DONE_HEADER = "evenflow-done"
VERSION = 2
UNKNOWN = -1  #: the offset of a partition of which nothing was read yet

META = b"m"
STATE = b"s"
ITEM = b"i"

_DONE = struct.Struct(">BQi")
_META = struct.Struct(">BqqQQ")
_WRITER = struct.Struct(">QQQ")
_ITEM = struct.Struct(">BBQiqi")
_NUMBER = struct.Struct(">Q")


class Saved(NamedTuple):
    """The saved state of a partition: its offsets, its reader's snapshot, its keys' states, and how
    many messages it has set aside."""

    data_offset: int
    control_offset: int
    snapshot: Snapshot
    states: dict[bytes, bytes]
    set_aside: int = 0


def pack_done(set_id: int, source: int) -> list[tuple[str, bytes]]:
    """The headers of a `done` message.

    Example:
        >>> unpack_done(pack_done(set_id=17, source=3))
        (17, 3)
    """
    return [(DONE_HEADER, _DONE.pack(VERSION, set_id, source))]


def unpack_done(headers: Iterable[tuple[str, bytes]] | None) -> tuple[int, int]:
    """Message set and source of a `done` message."""
    for name, value in headers or ():
        if name == DONE_HEADER and value is not None and len(value) == _DONE.size:
            if value[0] != VERSION:
                continue
            _, set_id, source = _DONE.unpack(value)
            return set_id, source
    raise InputError(
        "a record in the control topic is not a done message of this version of evenflow; nothing "
        "else may write there, and all consumers of a group must run the same version"
    )


def pack_meta(
    data_offset: int,
    control_offset: int,
    next_number: int,
    positions: dict[int, tuple[int, int]],
    set_aside: int = 0,
) -> bytes:
    """The offsets and positions of a partition's reader."""
    parts = [_META.pack(VERSION, data_offset, control_offset, next_number, set_aside)]
    parts += [_WRITER.pack(writer, *position) for writer, position in sorted(positions.items())]
    return b"".join(parts)


def item_key(number: int) -> bytes:
    """The changelog key of a waiting item."""
    return ITEM + _NUMBER.pack(number)


def pack_item(item: Item) -> bytes:
    """The changelog value of a waiting item."""
    length = len(item.key) if item.value is not None else -1 - len(item.key)
    head = _ITEM.pack(VERSION, item.kind, item.set, item.other, item.offset, length)
    return head + item.key + (item.value or b"")


def unpack_item(number: int, value: bytes) -> Item:
    """The inverse of `pack_item`.

    Example:
        >>> unpack_item(4, pack_item(Item(4, 0, b"key", None)))
        Item(number=4, kind=0, key=b'key', value=None, set=0, other=-1, offset=-1)
    """
    _check_version(value)
    if len(value) < _ITEM.size:
        raise _damaged("a waiting message is cut short")
    _, kind, set_id, other, offset, length = _ITEM.unpack_from(value)
    end = _ITEM.size + (length if length >= 0 else -1 - length)
    if end > len(value) or (length < 0 and end != len(value)):
        raise _damaged("the key of a waiting message is longer or shorter than it says")
    content = value[end:] if length >= 0 else None
    return Item(number, kind, value[_ITEM.size : end], content, set_id, other, offset)


class SavedBuilder:
    """Builds the saved state of a partition from its changelog; the latest value of a key counts."""

    def __init__(self) -> None:
        self._meta: bytes | None = None
        self._states: dict[bytes, bytes] = {}
        self._items: dict[int, Item] = {}

    def add(self, key: bytes | None, value: bytes | None) -> None:
        """Add the next record."""
        if key is None:
            raise _damaged("a record has no key")
        kind, rest = key[:1], key[1:]
        if kind == META:
            self._meta = value
        elif kind == STATE:
            if value is None:
                self._states.pop(rest, None)
            else:
                self._states[rest] = value
        elif kind == ITEM:
            if len(rest) != _NUMBER.size:
                raise _damaged("the number of a waiting message is cut short")
            (number,) = _NUMBER.unpack(rest)
            if value is None:
                self._items.pop(number, None)
            else:
                self._items[number] = unpack_item(number, value)

    def saved(self) -> Saved:
        """The state after all records."""
        data = control = UNKNOWN
        number, aside, positions = 0, 0, {}
        if self._meta is not None:
            _check_version(self._meta)
            rest = len(self._meta) - _META.size
            if rest < 0 or rest % _WRITER.size:
                raise _damaged("the positions of a partition are cut short")
            _, data, control, number, aside = _META.unpack_from(self._meta)
            for writer, epoch, sequence in _WRITER.iter_unpack(self._meta[_META.size :]):
                positions[writer] = (epoch, sequence)
        items = tuple(self._items[key] for key in sorted(self._items))
        return Saved(data, control, Snapshot(positions, number, items), self._states, aside)


def _check_version(value: bytes) -> None:
    if value[:1] != bytes([VERSION]):
        raise InputError(
            f"the changelog has version {value[0] if value else 'none'}, but this evenflow reads "
            f"version {VERSION}; all consumers of a group must run the same version"
        )


def _damaged(what: str) -> InputError:
    return InputError(
        f"the changelog is damaged: {what}; nothing but the consumers of its group may write there, so "
        "restore the topic, or delete it and let the group start over"
    )
