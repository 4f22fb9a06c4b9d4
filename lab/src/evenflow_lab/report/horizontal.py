"""The horizontal axis: numbers, names or time, and places for runs that have no such number."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from evenflow.report.style import FAINT, plain
from evenflow_lab.experiments import Plot
from evenflow_lab.report.arrangement import Curve, Rows, hashable
from evenflow_lab.report.scale import Scale, name_ticks, scale_of, tick_names, tick_places
from evenflow_lab.report.wording import (
    Row,
    column_label,
    is_number,
    scheme_label,
    stream_label,
    value_label,
)

F64 = npt.NDArray[np.float64]

_SLOT = 0.14  #: width of a place beside the numbers, as a share of the axis


@dataclass(frozen=True)
class Across:
    """Where the rows of a figure stand from left to right; the same in all panels.

    Parameters:
        column: the rows' column, or `time`.
        label: the axis' name.
        scale: the numbers' part of the axis.
        measured: the numbers that occur.
        slots: name → place, right of the numbers: streams that have no such number.
        categories: value → (place, name), instead of numbers.
    """

    column: str
    label: str
    scale: Scale
    measured: F64
    slots: Mapping[str, float] = field(default_factory=dict)
    categories: Mapping[Any, tuple[float, str]] = field(default_factory=dict)

    @property
    def whole(self) -> Scale:
        """The scale with the slots."""
        if not self.slots:
            return self.scale
        return Scale(
            self.scale.low, self.scale.beyond(_SLOT * (len(self.slots) + 0.2)), self.scale.log
        )

    def place(self, row: Row) -> float:
        """Where a row stands."""
        value = row.get(self.column)
        if self.categories:
            return self.categories[_category(self.column, row)][0]
        return float(value) if value is not None else self.slots[stream_label(row)]

    def parts(self, rows: Rows) -> Iterator[tuple[str, Rows]]:
        """The rows that a line may join (`joined`), and those that stand for themselves (`slots`)."""
        if self.column == "time":
            yield "joined", rows
            return
        if self.categories:
            yield "slots", rows
            return
        numbered = [row for row in rows if row.get(self.column) is not None]
        others = [row for row in rows if row.get(self.column) is None]
        for kind, part in (("joined", numbered), ("slots", others)):
            if part:
                yield kind, part

    def moved_aside(self, curve: Curve, position: int, count: int) -> Curve:
        """The curve of the i-th of n series, so that marks in one slot stand beside each other."""
        share = (position - (count - 1) / 2) / max(count, 1)
        if self.categories:
            x = curve.x + 0.6 * share
        elif self.scale.log:
            x = curve.x * self.scale.step(0.8 * _SLOT * share)
        else:
            x = curve.x + self.scale.step(0.8 * _SLOT * share)
        return Curve(x, curve.median, curve.least, curve.greatest)

    def name(self, axes: Any, letters: int) -> None:
        """Sets the ends of the axis and writes its ticks; `letters` fit side by side."""
        if self.categories:
            axes.set_xlim(self.scale.low, self.scale.high)
            self._name_categories(axes, letters)
            return
        if self.scale.log:
            axes.set_xscale("log")
        axes.set_xlim(self.scale.low, self.scale.high)
        if not self.slots:
            name_ticks(axes.xaxis, self.scale, self.measured)
            return
        ends = self.whole.high
        axes.set_xlim(self.scale.low, ends)
        axes.axvline(self.scale.high, color=FAINT, lw=0.9, zorder=1)
        axes.axvspan(self.scale.high, ends, color="#f6f6f6", lw=0, zorder=0)
        ticks = tick_places(self.scale, self.measured)
        names = tick_names(ticks)
        slot_names = [plain(name, 30) for name in self.slots]
        axes.set_xticks([*ticks, *self.slots.values()], [*names, *slot_names])
        axes.set_xticks([], minor=True)
        for label in axes.get_xticklabels()[len(ticks) :]:
            label.set(rotation=90, fontsize=8)

    def _name_categories(self, axes: Any, letters: int) -> None:
        names = [name for _, name in self.categories.values()]
        places = [place for place, _ in self.categories.values()]
        longest = max(len(name) for name in names)
        room = letters / len(names)  # letters that each name may have
        every = 1
        if longest <= 6:
            every = max(1, int(np.ceil((longest + 1) / room)))
        words = max(len(word) for name in names for word in name.split() or [""])
        slanted = longest > 6 and words > room
        shown = [
            plain(name, 28) if slanted else textwrap.fill(plain(name), max(int(room), 6))
            for name in names
        ]
        axes.set_xticks(places[::every], shown[::every])
        axes.tick_params(axis="x", length=0)
        if slanted:
            for label in axes.get_xticklabels():
                label.set(rotation=35, ha="right", rotation_mode="anchor")


def across(plot: Plot, rows: Rows) -> Across:
    """The horizontal axis that suits the rows."""
    label = plot.x_label or column_label(plot.x)
    given = [row.get(plot.x) for row in rows]
    present = [value for value in given if value is not None]
    if plot.x == "time":
        moments = [point.get("time") for row in rows for point in row.get("timeline") or []]
        at = [float(moment) for moment in moments if is_number(moment)]
        return Across(
            "time", label, scale_of(at, plot.log_x, plot.x_limits, True, 0.01), np.array([])
        )
    numeric = all(is_number(value) for value in present) and bool(present)
    if plot.style in {"bars", "stacked"} or not numeric:
        return _by_category(plot, rows, label, numeric)
    measured = np.unique(np.array(present, dtype=np.float64))
    named = [float(line["x"]) for line in plot.lines if is_number(line.get("x"))]
    scale = _snug(scale_of([*measured, *named], plot.log_x, plot.x_limits, margin=0.04), measured)
    others = dict.fromkeys(stream_label(row) for row in rows if row.get(plot.x) is None)
    slots = {name: scale.beyond(_SLOT * (i + 0.6)) for i, name in enumerate(others)}
    return Across(plot.x, label, scale, measured, slots)


def _snug(scale: Scale, measured: F64) -> Scale:
    """No empty stretch from 0 to the least value, unless that is near 0 anyway."""
    low, high = float(measured.min()), float(measured.max())
    if scale.log or scale.low != 0.0 or low <= 0.15 * high or low == high:
        return scale
    return Scale(low - 0.04 * (high - low), scale.high)


def _by_category(plot: Plot, rows: Rows, label: str, numeric: bool) -> Across:
    ordered = sorted(rows, key=lambda row: row.get(plot.x) or 0) if numeric else rows
    names: dict[Any, str] = {}
    for row in ordered:
        names.setdefault(_category(plot.x, row), _category_name(plot.x, row))
    categories = {key: (float(i), name) for i, (key, name) in enumerate(names.items())}
    scale = Scale(-0.6, len(categories) - 0.4)
    return Across(plot.x, label, scale, np.arange(len(categories), dtype=float), {}, categories)


def _category(column: str, row: Row) -> Any:
    if column == "workload_name" or row.get(column) is None:
        return stream_label(row)
    return hashable(row[column])


def _category_name(column: str, row: Row) -> str:
    if column == "grouping":
        return scheme_label(row)
    if column == "workload_name" or row.get(column) is None:
        return stream_label(row)
    return value_label(row[column])
