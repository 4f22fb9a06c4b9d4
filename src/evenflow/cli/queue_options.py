"""The options of `simulate` that give workers capacities and queues."""

from __future__ import annotations

from typing import TYPE_CHECKING

from evenflow.model.errors import InputError
from evenflow.model.validation import check_positive, check_whole

if TYPE_CHECKING:
    from evenflow.simulator import Cluster


def cluster_of(
    workers: int,
    *,
    capacity: float | None,
    heterogeneity: str | None,
    change_at: list[str] | None,
    arrivals: str | None,
    slots: int | None,
    weights: str | None,
) -> Cluster | None:
    """The cluster that the options describe; None if none of them was given.

    Example:
        >>> nothing = dict(capacity=None, change_at=None, arrivals=None, slots=None, weights=None)
        >>> cluster_of(10, heterogeneity="3,5", **nothing).heterogeneity
        (3, 5.0)
    """
    given = (capacity, heterogeneity, change_at or None, arrivals, slots)
    if all(option is None for option in given):
        return None
    if weights is not None:
        raise InputError(
            f"--weights {weights} gives the schemes the capacities of the workers, which they have to "
            "learn in a simulation with queues; use --heterogeneity instead"
        )
    from evenflow.simulator import Cluster

    if capacity is not None:
        check_positive("--capacity", capacity)
    if slots is not None:
        check_whole("--slots", slots, least=1)
    return Cluster(
        workers=workers,
        utilisation=0.8 if capacity is None else capacity,
        heterogeneity=None if heterogeneity is None else _pair("--heterogeneity", heterogeneity),
        changes=tuple(_change(text) for text in change_at or ()),
        slots=slots,
        arrivals=arrivals or "constant",
    )


def _pair(option: str, text: str) -> tuple[int, float]:
    try:
        strong, times = text.split(",")
        return int(strong), float(times)
    except ValueError:
        raise InputError(
            f"{option} takes the number of stronger machines and how many times stronger they are, "
            f"such as 3,5; got {text!r}"
        ) from None


def _change(text: str) -> tuple[int, tuple[int, float]]:
    after, colon, pair = text.partition(":")
    try:
        messages = int(after)
    except ValueError:
        messages = -1
    if not colon or messages < 0:
        raise InputError(
            "--change-at takes a number of messages and a heterogeneity, such as 600000:5,4; "
            f"got {text!r}"
        )
    return messages, _pair(f"--change-at {after}:", pair)
