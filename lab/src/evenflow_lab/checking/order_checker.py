"""Looks at a log for anomalies of order: what was sent against what had an effect.

It knows nothing of how order is kept, and imports nothing of evenflow. The sender numbers each key's
messages 0, 1, 2, …; a service notes, for each message it processes, the key, the message's number and
how many messages of the key it has counted, itself included.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field


@dataclass
class Anomalies:
    """How many messages have each fault, with a few examples.

    lost: sent, and without effect. twice: with more than one effect. out_of_order: processed after a
    later one of the same key. foreign: never sent. wrong_state: the service's count for the key was
    not the number of messages processed before it plus one.
    """

    messages: int = 0
    lost: int = 0
    twice: int = 0
    out_of_order: int = 0
    foreign: int = 0
    wrong_state: int = 0
    examples: list[str] = field(default_factory=list)

    @property
    def any(self) -> bool:
        return bool(
            self.lost or self.twice or self.out_of_order or self.foreign or self.wrong_state
        )

    def note(self, fault: str, key: bytes, number: int) -> None:
        setattr(self, fault, getattr(self, fault) + 1)
        if len(self.examples) < 20:
            self.examples.append(f"{fault}: message {number} of key {key!r}")


def check(
    sent: Mapping[bytes, int], processed: Iterable[tuple[bytes, int, int | None]]
) -> Anomalies:
    """Compares what was sent with what was processed.

    Parameters:
        sent: key → how many messages were sent of it.
        processed: (key, number of the message, the service's count or None), as they stand in the log
            of effects; only the order within a key matters.
    """
    found = Anomalies()
    seen: dict[bytes, bytearray] = {}
    highest: dict[bytes, int] = {}
    effects: dict[bytes, int] = {}
    for key, number, count in processed:
        found.messages += 1
        if not 0 <= number < sent.get(key, 0):
            found.note("foreign", key, number)
            continue
        effects[key] = effects.get(key, 0) + 1
        if count is not None and count != effects[key]:
            found.note("wrong_state", key, number)
        marks = seen.setdefault(key, bytearray(sent[key]))
        if marks[number]:
            found.note("twice", key, number)
        elif number < highest.get(key, -1):
            found.note("out_of_order", key, number)
        marks[number] = 1
        highest[key] = max(number, highest.get(key, -1))
    for key, count in sent.items():
        marks = seen.get(key, bytearray(count))
        if not all(marks):
            for number in range(count):
                if not marks[number]:
                    found.note("lost", key, number)
    return found
