"""Checks of numeric parameters, with one wording. NaN fails all of them."""

from __future__ import annotations

import math
from numbers import Integral
from typing import cast

from evenflow.model.errors import InputError

MOST_PARTITIONS = 10_000


def check_share(what: str, value: float | None) -> None:
    """Reject a share that is not in (0, 1]; None stands for a default."""
    if value is not None and not 0 < value <= 1:
        raise InputError(f"{what} must lie in (0, 1], got {value}")


def check_positive(what: str, value: float) -> None:
    """Reject a number that is not finite and above 0."""
    if not 0 < value < math.inf:
        raise InputError(f"{what} must be a finite number above 0, got {value}")


def check_not_negative(what: str, value: float) -> None:
    """Reject a number that is not finite and at least 0."""
    if not 0 <= value < math.inf:
        raise InputError(f"{what} must be a finite number of at least 0, got {value}")


def check_whole(what: str, value: object, least: int) -> None:
    """Reject anything but a whole number (an `int`) of at least `least`."""
    if isinstance(value, bool) or not isinstance(value, Integral) or value < least:
        raise InputError(f"{what} must be a whole number of at least {least}, got {value}")


def check_truth(what: str, value: object) -> None:
    """Reject anything but True or False."""
    if not isinstance(value, bool):
        raise InputError(f"{what} must be true or false, got {value}")


def check_partitions(value: object) -> None:
    """Reject a number of partitions that no query has use for."""
    check_whole("partitions", value, least=1)
    if cast(int, value) > MOST_PARTITIONS:
        raise InputError(
            f"partitions must be at most {MOST_PARTITIONS:,}, got {value:,}: every batch starts as "
            "many tasks; take a few times the number of cores"
        )


def check_one_each(owners: str, count: int, what: str, values: tuple[float, ...] | None) -> None:
    """Reject values unless there is one positive number per owner; None stands for equal values."""
    if values is None:
        return
    if len(values) != count:
        raise InputError(f"{count} {owners}, but {len(values)} {what}")
    if not all(0 < value < math.inf for value in values):
        raise InputError(f"{what} must be finite and above 0, got {values}")
