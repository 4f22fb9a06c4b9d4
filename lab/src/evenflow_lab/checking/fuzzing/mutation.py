"""Seeded mutations of valid inputs: of bytes, and of JSON by its structure."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from copy import deepcopy
from typing import Any

DEEP = 3000  #: brackets within each other
_DEEP_MARK = "\x00deep\x00"
_DEEP_TEXT = json.dumps(_DEEP_MARK)

#: What is put in place of a value: other types, and values at and beyond all edges.
ODD: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, 255, 2**31, -(2**31) - 1, 2**53, 2**63, 2**64, -(2**63) - 1, 10**30,
    10**400, 0.5, -0.0, 1e308, 1e-308, float("nan"), float("inf"), "", "0", "-1", "x", "\0", "é" * 9,
    "\ud800", "9" * 5000, "../..", [], [[]], {}, {"": None}, [None, "a", 1], {"0": {"0": []}},
    _DEEP_MARK,
)  # fmt: skip

_EDGES = (0, 1, 0x7F, 0x80, 0xFF)
_TOKENS = (
    b"\0", b"\xff\xfe", b"{", b"}", b"[", b"]", b'"', b":", b",", b"null", b"true", b"NaN", b"1e999",
    b"-", b"9" * 400, b"\\u0000", b"\r\n", b"%s", b"[" * DEEP, b'{"a":' * DEEP, b"=", b"[[", b"'''",
)  # fmt: skip


def mutated_bytes(chance: random.Random, corpus: Sequence[bytes]) -> bytes:
    """One of the corpus with one to four changes: flipped bits, other bytes, cuts, splices, tokens."""
    content = bytearray(chance.choice(corpus))
    for _ in range(chance.choice((1, 1, 1, 2, 3, 4))):
        at = chance.randrange(len(content) + 1)
        how = chance.randrange(9)
        if how == 0 and content:
            content[at % len(content)] ^= 1 << chance.randrange(8)
        elif how == 1 and content:
            content[at % len(content)] = chance.choice(_EDGES)
        elif how == 2:
            del content[at:]
        elif how == 3:
            del content[at : at + chance.randrange(1, 17)]
        elif how == 4:
            other = chance.choice(corpus)
            cut = chance.randrange(len(other) + 1)
            content[at:] = other[cut:]
        elif how == 5:
            content[at:at] = chance.choice(_TOKENS)
        elif how == 6:
            content[at:at] = bytes(chance.randrange(1, 65))
        elif how == 7 and content:
            size = chance.choice((2, 4, 8))
            number = chance.choice((0, 1, 2 ** (8 * size) - 1, 2 ** (8 * size - 1)))
            content[at : at + size] = number.to_bytes(size, chance.choice(("little", "big")))
        else:
            content[at:at] = content[max(0, at - chance.randrange(1, 33)) : at]
    return bytes(content)


def mutated_plain(chance: random.Random, plain: Any) -> Any:
    """A copy of plain JSON values in which one to three are replaced, removed, doubled or renamed."""
    copy = json.loads(json.dumps(plain))
    for _ in range(chance.choice((1, 1, 1, 2, 3))):
        holder = [copy]
        places = list(_places(holder))
        inside, key = chance.choice(places)
        how = chance.randrange(6)
        if how == 0 and inside is not holder:
            del inside[key]
        elif how == 1 and isinstance(inside, dict):
            inside[chance.choice(("", "0", "-1", "x", "\0", "9" * 30))] = deepcopy(inside[key])
        elif how == 2 and isinstance(inside, list) and inside is not holder:
            inside.insert(key, deepcopy(inside[key]))
        elif how == 3:
            other, there = chance.choice(places)
            inside[key] = json.loads(json.dumps(other[there]))
        else:
            inside[key] = deepcopy(chance.choice(ODD))
        copy = holder[0]
    return copy


def dumped(plain: Any) -> bytes:
    """Plain values as JSON, also those that are too deep for a value."""
    return deepened(json.dumps(plain)).encode()


def deepened(text: str) -> str:
    """JSON with what is too deep for a value in place of its mark."""
    return text.replace(_DEEP_TEXT, "[" * DEEP + "]" * DEEP)


def shallow(plain: Any) -> Any:
    """Plain values with something moderate in place of what is too deep for a value."""
    return json.loads(json.dumps(plain).replace(_DEEP_TEXT, "[" * 50 + "]" * 50))


def _places(value: Any) -> Any:
    """(container, key) of everything in it."""
    found = [(value, 0)]
    for inside, key in found:
        one = inside[key]
        if isinstance(one, dict):
            found += [(one, name) for name in one]
        elif isinstance(one, list):
            found += [(one, i) for i in range(len(one))]
    return found
