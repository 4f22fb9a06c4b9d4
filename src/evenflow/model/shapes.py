"""The shape of plain JSON values: what was read from a file is checked before it is believed.

A check returns None for a value that fits, else what is wrong with it, such as "partitions is not a
whole number". Checksums protect from accidents; shapes say in words what is wrong with a file that
another version or another program wrote.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

Check = Callable[[Any, str], str | None]

WORD = 1 << 64  #: fingerprints are below it
_LONGEST = 20  # digits of a fingerprint


def whole(least: int = -(1 << 63), most: int = (1 << 63) - 1) -> Check:
    """A whole number within bounds.

    Example:
        >>> whole(0)(3, "n"), whole(0)(True, "n"), whole(0)(-1, "n")
        (None, 'n is not a whole number', 'n is -1')
    """

    def check(value: Any, what: str) -> str | None:
        if type(value) is not int:
            return f"{what} is not a whole number"
        return None if least <= value <= most else f"{what} is {str(value)[:40]}"

    return check


def number(least: float = -math.inf, most: float = math.inf) -> Check:
    """A finite number within bounds."""

    def check(value: Any, what: str) -> str | None:
        if type(value) not in (int, float) or not abs(value) < 1e300:
            return f"{what} is not a number"
        return None if least <= value <= most else f"{what} is {value}"

    return check


def truth(value: Any, what: str) -> str | None:
    """True or false."""
    return None if type(value) is bool else f"{what} is neither true nor false"


def text(value: Any, what: str) -> str | None:
    """A text that can be written down."""
    if type(value) is not str:
        return f"{what} is not a text"
    return None if value.isascii() or _encodable(value) else f"{what} is not a valid text"


def anything(value: Any, what: str) -> str | None:
    """Any JSON value."""
    return None


def a_list(of: Check) -> Check:
    """A list whose elements all fit."""

    def check(value: Any, what: str) -> str | None:
        if type(value) not in (list, tuple):
            return f"{what} is not a list"
        return next((wrong for one in value if (wrong := of(one, f"an element of {what}"))), None)

    return check


def mapping(of: Check, keys: Check = text) -> Check:
    """An object whose names and values all fit."""

    def check(value: Any, what: str) -> str | None:
        if not isinstance(value, Mapping):
            return f"{what} is not an object"
        for name, one in value.items():
            if wrong := keys(name, f"a name in {what}") or of(one, f"a value in {what}"):
                return wrong
        return None

    return check


def fields(needed: Mapping[str, Check], optional: Mapping[str, Check] | None = None) -> Check:
    """An object with these fields, maybe the optional ones, and maybe others.

    Example:
        >>> check = fields({"n": whole(0)}, {"why": text})
        >>> check({"n": 1}, "it"), check({"why": ""}, "it"), check({"n": 1, "why": 2}, "it")
        (None, 'n is missing', 'why is not a text')
    """
    known = {**needed, **(optional or {})}

    def check(value: Any, what: str) -> str | None:
        if not isinstance(value, Mapping):
            return f"{what} is not an object"
        for name in needed:
            if name not in value:
                return f"{name} is missing"
        given = (name for name in known if name in value)
        return next((wrong for name in given if (wrong := known[name](value[name], name))), None)

    return check


def fingerprint(value: Any, what: str) -> str | None:
    """A fingerprint as the name of a field: decimal digits."""
    fits = (
        type(value) is str and 0 < len(value) <= _LONGEST and value.isascii() and value.isdecimal()
    )
    return None if fits and int(value) < WORD else f"{what} is not a fingerprint"


def or_none(of: Check) -> Check:
    """None, or what fits."""
    return lambda value, what: None if value is None else of(value, what)


def _encodable(value: str) -> bool:
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True
