"""Axes whose ends are known before anything is drawn, so that nothing falls off them unseen."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from evenflow_lab.report.wording import short_number

F64 = npt.NDArray[np.float64]
Truth = npt.NDArray[np.bool_]

_MOST_DECADES = 8.0
_MOST_NAMED_VALUES = 8


@dataclass(frozen=True)
class Scale:
    """One axis: its ends, and where a value is drawn.

    Parameters:
        low, high: the ends.
        log: logarithmic.
    """

    low: float
    high: float
    log: bool = False

    def place(self, values: F64) -> tuple[F64, Truth, Truth]:
        """Where values are drawn, and which of them stand at the lower or the upper edge because
        they are beyond it (on a logarithmic axis, zero always is).

        Example:
            >>> Scale(0.01, 1.0, log=True).place(np.array([0.0, 0.5, 2.0]))[0].tolist()
            [0.01, 0.5, 1.0]
        """
        slack = 1e-9 * (self.high - self.low)
        below = values < self.low - (0 if self.log else slack)
        above = values > self.high + slack
        return np.clip(values, self.low, self.high), below, above

    def step(self, share: float) -> float:
        """`share` of the axis' length: to be added, or multiplied where it is logarithmic."""
        if self.log:
            return float((self.high / self.low) ** share)
        return (self.high - self.low) * share

    def beyond(self, share: float) -> float:
        """The place right of the end by `share` of the length."""
        return self.high * self.step(share) if self.log else self.high + self.step(share)


def scale_of(
    values: Iterable[float],
    log: bool,
    limits: tuple[float, float] | None = None,
    from_zero: bool = False,
    margin: float = 0.05,
) -> Scale:
    """The scale that shows `values`.

    A logarithmic one begins below the least positive value, at most eight decades below the
    greatest: what is zero, or smaller still, stands at its edge.

    Parameters:
        values: all that will be drawn.
        log: logarithmic.
        limits: the ends, where they are given.
        from_zero: a linear axis of values that are not negative begins at 0 (bars must).
        margin: room at both ends, as a share of the length.
    """
    seen = np.array([v for v in values if math.isfinite(v)])
    if limits is not None and (limits[0] > 0 or not log):
        return Scale(*limits, log)
    if log:
        return _log_scale(seen, margin)
    low, high = (float(seen.min()), float(seen.max())) if len(seen) else (0.0, 1.0)
    if low == high:
        low, high = (min(low, 0.0), max(high, 0.0)) if low else (0.0, 1.0)
    room = margin * (high - low)
    begins_at_zero = low >= 0 and (from_zero or low < 0.5 * high)
    return Scale(0.0 if begins_at_zero else low - room, high + room)


def _log_scale(seen: F64, margin: float) -> Scale:
    positive = seen[seen > 0]
    if not len(positive):
        return Scale(1e-6, 1.0, log=True)
    high = math.log10(positive.max())
    low = math.log10(positive.min())
    low = max(low, high - _MOST_DECADES)
    room = max(margin * (high - low), 0.04 if high - low > 0.05 else 0.1)
    hidden = bool(np.any(seen < 10**low * (1 - 1e-9)))
    # What stands at the edge must not look like a value that is there.
    below = max(2.5 * room, 0.4) if hidden else room
    return Scale(10 ** (low - below), 10 ** (high + room), log=True)


def name_ticks(axis: Any, scale: Scale, places: F64 | None = None) -> None:
    """Ticks with numbers that can be read, within the scale.

    Parameters:
        axis: matplotlib's.
        scale: where the numbers end.
        places: values that were measured; where they are few and not crowded, just those are named.
    """
    from matplotlib.ticker import NullFormatter

    ticks = tick_places(scale, places)
    axis.set_major_locator(_fixed(ticks))
    axis.set_ticklabels(tick_names(ticks))
    axis.set_minor_formatter(NullFormatter())
    axis.set_minor_locator(_fixed(_minor_places(scale, ticks)))
    axis.set_tick_params(which="minor", length=2)


def tick_places(scale: Scale, places: F64 | None = None) -> list[float]:
    """Where ticks stand.

    Example:
        >>> tick_places(Scale(0.0, 1.0)), tick_places(Scale(0.5, 200.0, log=True))
        ([0.0, 0.2, 0.4, 0.6, 0.8, 1.0], [1.0, 10.0, 100.0])
        >>> tick_places(Scale(0.005, 0.012, log=True))
        [0.006, 0.008, 0.01, 0.012]
    """
    from matplotlib.ticker import MaxNLocator

    if places is not None and 1 < len(places) <= _MOST_NAMED_VALUES:
        where = np.log(np.maximum(places, scale.low)) if scale.log else places
        if np.all(np.diff(where) > 0.08 * (where[-1] - where[0])):
            return [float(place) for place in places if scale.low <= place <= scale.high]
    if scale.log:
        ticks = _within(scale, _decades(scale, [1.0]))
        if len(ticks) > 2:
            return ticks[:: max(1, round(len(ticks) / 6))]
        ticks = _within(scale, _decades(scale, [1.0, 2.0, 5.0]))
        if len(ticks) > 3:
            return ticks
    # Less than a decade or so is read like a linear axis: 0.006, 0.008, 0.01.
    whole = places is not None and bool(np.all(places == np.round(places)))
    for most in (6, 9, 12):
        locator = MaxNLocator(nbins=most, integer=whole, steps=[1, 2, 2.5, 5, 10])
        ticks = _within(scale, locator.tick_values(scale.low, scale.high))
        if len(ticks) > 3 or whole:
            break
    return ticks


def tick_names(ticks: Sequence[float]) -> list[str]:
    """What stands at the ticks of one axis, written alike.

    Example:
        >>> tick_names([100.0, 1_000.0, 10_000.0]), tick_names([500.0, 1_000.0])
        (['100', '1k', '10k'], ['500', '1,000'])
    """
    names = [short_number(tick) for tick in ticks]
    if any(name.endswith(("k", "M", "G")) for name in names):
        names = [
            f"{tick / 1e3:.4g}k" if 1e3 <= abs(tick) < 1e4 else name
            for tick, name in zip(ticks, names, strict=True)
        ]
    return names


def _decades(scale: Scale, parts: Sequence[float]) -> list[float]:
    """The parts of every power of ten that the scale touches."""
    first, last = math.floor(math.log10(scale.low)), math.ceil(math.log10(scale.high))
    return [float(f"{part}e{power}") for power in range(first, last + 1) for part in parts]


def _within(scale: Scale, ticks: Iterable[float]) -> list[float]:
    # Rounded, since a locator's steps add up to 0.30000000000000004.
    rounded = (float(f"{tick:.12g}") for tick in ticks)
    slack = 1e-9 * (scale.high - scale.low)
    return [tick for tick in rounded if scale.low - slack <= tick <= scale.high + slack]


def _minor_places(scale: Scale, ticks: list[float]) -> list[float]:
    if not scale.log:
        return []
    short = scale.high / scale.low < 1e4
    every = _decades(scale, [float(part) for part in range(1, 10)] if short else [1.0])
    return [place for place in _within(scale, every) if place not in ticks]


def _fixed(places: list[float]) -> Any:
    from matplotlib.ticker import FixedLocator

    return FixedLocator(places)
