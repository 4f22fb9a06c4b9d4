"""A check of what a gateway has written, from the log alone; it shares no code with readers.

Slow and obvious: drops what was seen by position, cuts every key's records into message sets at the
markers, and puts the sets one after the other.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Any, NamedTuple

from evenflow.ordering import FIRST, LAST, MESSAGE, unpack


class Written(NamedTuple):
    """One topic: what it held in all, after duplicates were dropped, and every key's values."""

    records: int
    duplicates: int
    markers: int
    moves: int
    values: dict[bytes | None, list[bytes]]


def written(partitions: Iterable[Iterable[Any]]) -> Written:
    """From `kafka_topics.consumed`. Fails where the log breaks a rule."""
    duplicates = markers = records = 0
    # (gateway, set) → (key, source, target) as each of its two markers has it
    moves: dict[tuple[int, int], list[tuple[bytes, int, int]]] = {}
    # key → {set: values}; set 0 before the first move
    pieces: dict[bytes | None, dict[int, list[bytes]]] = {}
    for number, log in enumerate(partitions):
        highest: dict[int, tuple[int, int]] = {}  # writer → position
        contents: dict[tuple[int, tuple[int, int]], Any] = {}  # what was written at a position
        latest: dict[int, int] = defaultdict(lambda: -1)  # gateway → the batch of its last message
        current: dict[Any, int | None] = {}  # key → the set that is current here; None: it has left
        for message in log:
            records += 1
            head = unpack(message.headers())
            assert head is not None, "a record that no gateway has written"
            position, gateway = (head.epoch, head.sequence), head.writer >> 24
            content = (message.key(), message.value(), message.headers())
            if position <= highest.get(head.writer, (-1, -1)):
                duplicates += 1
                earlier = contents.get((head.writer, position))
                assert earlier == content, "a position was written again with another content"
                continue
            highest[head.writer] = position
            contents[head.writer, position] = content
            key = message.key()
            if head.kind == MESSAGE:
                assert head.epoch >= latest[gateway], "a message of an older batch"
                latest[gateway] = head.epoch
                here = current.get(key, 0)
                assert here is not None, f"a message of {key!r} after it has left"
                pieces.setdefault(key, {}).setdefault(here, []).append(message.value())
                if head.set:
                    assert head.set == current.get(key), "a message of another set"
                continue
            markers += 1
            assert message.value() is None
            assert head.epoch > latest[gateway], "a marker after its batch's messages"
            if head.kind == LAST:
                assert current.get(key, 0) is not None, f"{key!r} leaves twice"
                current[key] = None
                move = (key, number, head.other)
            else:
                assert head.kind == FIRST
                current[key] = head.set
                move = (key, head.other, number)
            moves.setdefault((gateway, head.set), []).append(move)
    for ends in moves.values():
        assert len(ends) == 2, "a marker without its other side"
        assert ends[0] == ends[1], "the two markers of a move disagree"
    values = {
        key: [value for set_ in sorted(sets) for value in sets[set_]]
        for key, sets in pieces.items()
    }
    return Written(records, duplicates, markers, len(moves), values)
