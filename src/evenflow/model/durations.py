"""Durations in Spark's notation, in microseconds."""

from __future__ import annotations

import re
from datetime import timedelta
from fractions import Fraction

from evenflow.model.errors import InputError

_UNITS = {
    "microsecond": 1,
    "millisecond": 1_000,
    "second": 1_000_000,
    "minute": 60_000_000,
    "hour": 3_600_000_000,
    "day": 86_400_000_000,
    "week": 604_800_000_000,
}
_CALENDAR = ("month", "quarter", "year")
_PART = re.compile(r"\s*([+-]?[0-9]{1,40}(?:\.[0-9]{1,40})?)\s*([a-z]+)\s*,?", re.IGNORECASE)
_MOST = 1 << 62  # sums with any point in time that Spark knows stay within 64 bits


def microseconds(what: str, duration: str | timedelta, least: int = 1) -> int:
    """A duration in microseconds.

    Guarantee: the same result as Spark for the same text. Months, quarters and years are rejected, as
    in Spark's windows: they have no fixed length.

    Parameters:
        what: the duration's name, for messages.
        duration: "10 minutes", "1 hour 30 minutes" (weeks, days, hours, minutes, seconds,
            milliseconds, microseconds), or a `datetime.timedelta`.
        least: reject anything shorter.

    Example:
        >>> microseconds("size", "1 minute 500 milliseconds")
        60500000
        >>> microseconds("size", timedelta(seconds=2))
        2000000
    """
    if isinstance(duration, timedelta):
        found = duration // timedelta(microseconds=1)
    elif isinstance(duration, str):
        found = _parsed(what, duration)
    else:
        raise InputError(
            f'{what} takes a duration such as "10 minutes" or a timedelta, got {duration!r}'
        )
    if not least <= found <= _MOST:
        wanted = "longer than nothing" if least > 0 else "of at least nothing"
        raise InputError(f"{what} must be {wanted} and below 146,000 years, got {duration!r}")
    return found


def _parsed(what: str, text: str) -> int:
    rest = re.sub(r"^\s*interval\b", "", text, flags=re.IGNORECASE).strip()
    total = Fraction(0)
    if not rest:
        raise _refused(what, text)
    while rest:
        part = _PART.match(rest)
        if part is None:
            raise _refused(what, text)
        unit = part[2].lower().removesuffix("s")
        if unit in _CALENDAR:
            raise InputError(
                f"{what}: {text!r} has no fixed length, because {unit}s differ; give it in days, hours "
                "or shorter units"
            )
        if unit not in _UNITS:
            raise _refused(what, text)
        total += Fraction(part[1]) * _UNITS[unit]
        rest = rest[part.end() :]
    if total.denominator != 1:
        raise InputError(f"{what}: {text!r} is not a whole number of microseconds")
    return int(total)


def _refused(what: str, text: str) -> InputError:
    return InputError(
        f'{what}: {text!r} is not a duration; write for instance "10 minutes" or '
        '"1 hour 30 seconds", with weeks, days, hours, minutes, seconds, milliseconds or microseconds'
    )
