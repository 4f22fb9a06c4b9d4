"""Curves, bars and reference lines on one pair of axes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from evenflow.report.style import INK, QUIET, Dash, Look, plain
from evenflow_lab.report.arrangement import Curve, Series
from evenflow_lab.report.looks import DASH_DOT, DASHED, DOTTED, shade
from evenflow_lab.report.scale import Scale

F64 = npt.NDArray[np.float64]
Stack = Sequence[tuple[dict[str, Any], Curve]]  #: (how it is filled, heights) from the bottom up

BELOW = "▽ zero, or below the axis; drawn at its edge"
ABOVE = "△ above the axis; drawn at its edge"
LEFT = "◁ zero, or left of the axis; drawn at its edge"
BAND = "shaded: from the least to the greatest of several runs; the line is their median"
RANGE = "thin lines: from the least to the greatest of several runs"

_HATCHES = ("", "////", "....", "xxxx", "\\\\\\\\", "++++")
_REFERENCES: tuple[Dash, ...] = (DOTTED, DASHED, DASH_DOT, (0, (8, 2)))
_PART_SHADES = (0.0, 0.55, 0.3, 0.75)
_EDGE = {"ls": "none", "mfc": "white", "mew": 1.3, "ms": 7, "clip_on": False, "zorder": 6}
_MOST_MARKS = 12
_MANY_POINTS = 60


def draw_curve(
    axes: Any,
    curve: Curve,
    series: Series,
    scales: tuple[Scale, Scale],
    joined: bool,
    order: tuple[int, int],
    edges: Edges,
) -> set[str]:
    """Draws a curve with its band, and returns the notes that a reader of it needs.

    Parameters:
        scales: of the x and the y axis; what is beyond their ends is drawn at the edge, hollow.
        joined: with a line.
        order: (i, n): the i-th of n series.
        edges: where marks at the edge are collected.
    """
    look, notes = series.look, set[str]()
    x, left, _ = scales[0].place(curve.x)
    y, below, above = scales[1].place(curve.median)
    drawn = ~(left | below | above)
    # Marks on every point of a long line are a smear; offset, so that those of two lines that lie
    # on each other can both be seen.
    every = max(1, -(-len(x) // _MOST_MARKS))
    shown = np.zeros(len(x), bool)
    shown[(order[0] * every // max(order[1], 1)) % every :: every] = True
    if joined:
        crowded = len(x) > _MANY_POINTS
        axes.plot(x, y, **(look.line | ({"lw": 1.1} if crowded else {})), zorder=3)
    marks = drawn & shown
    if marks.any():  # an empty line that is not clipped would count as lying at the origin
        axes.plot(x[marks], y[marks], **look.mark, clip_on=False, zorder=4)
    if curve.spread:
        least, greatest = scales[1].place(curve.least)[0], scales[1].place(curve.greatest)[0]
        if joined:
            axes.fill_between(x, least, greatest, color=look.colour, alpha=0.18, lw=0, zorder=2)
            notes.add(BAND)
        else:
            axes.vlines(x, least, greatest, color=look.colour, lw=1, zorder=3)
            notes.add(RANGE)
    for at_edge, marker, note in ((below, "v", BELOW), (above, "^", ABOVE), (left, "<", LEFT)):
        if at_edge.any():
            # A few points each get their mark, of a long line at the edge only some.
            marked = at_edge & shown if (at_edge & shown).any() else at_edge
            edges.add(x[marked], y[marked], marker, look.colour)
            notes.add(note)
    return notes


@dataclass
class Edges:
    """Marks of what is beyond an axis; those in one place are drawn beside each other."""

    _marks: list[tuple[float, float, str, str]] = field(default_factory=list)

    def add(self, x: F64, y: F64, marker: str, colour: str) -> None:
        self._marks += [(a, b, marker, colour) for a, b in zip(x, y, strict=True)]

    def draw(self, axes: Any) -> None:
        from matplotlib.transforms import offset_copy

        crowds = Counter(mark[:3] for mark in self._marks)
        drawn: Counter[tuple[float, float, str]] = Counter()
        for x, y, marker, colour in self._marks:
            place = (x, y, marker)
            points = (drawn[place] - (crowds[place] - 1) / 2) * 6.5
            drawn[place] += 1
            beside = offset_copy(axes.transData, fig=axes.figure, x=points, units="points")
            axes.plot([x], [y], marker, mec=colour, transform=beside, **_EDGE)


def draw_bars(
    axes: Any, curves: Sequence[tuple[Series, Curve]], scale: Scale, beside: bool
) -> set[str]:
    """Bars of each series at its places, beside each other or (where no two share one) centred."""
    notes = set[str]()
    width = 0.8 / max(len(curves), 1) if beside else 0.7
    for i, (series, curve) in enumerate(curves):
        at = curve.x + (i - (len(curves) - 1) / 2) * width if beside else curve.x
        fill = bar_look(series.look)
        notes |= _bar(axes, at, np.zeros(len(at)), curve.median, scale, width, fill)
        if curve.spread:
            least, greatest = scale.place(curve.least)[0], scale.place(curve.greatest)[0]
            axes.vlines(at, least, greatest, color=INK, lw=1, zorder=4)
            notes.add(RANGE)
    return notes


def draw_stacks(axes: Any, stacks: Sequence[Stack], scale: Scale, beside: bool) -> set[str]:
    """Bars whose parts lie on each other, told apart by colour, shade and hatching."""
    notes = set[str]()
    width = 0.8 / max(len(stacks), 1) if beside else 0.7
    for i, stack in enumerate(stacks):
        reached: dict[float, float] = {}
        for fill, part in stack:
            under = np.array([reached.get(x, 0.0) for x in part.x])
            at = part.x + (i - (len(stacks) - 1) / 2) * width if beside else part.x
            notes |= _bar(axes, at, under, part.median, scale, width, fill)
            reached.update(zip(part.x, under + part.median, strict=True))
    return notes


def _bar(
    axes: Any, at: F64, under: F64, height: F64, scale: Scale, width: float, fill: dict[str, Any]
) -> set[str]:
    top, below, above = scale.place(under + height)
    base = scale.place(under)[0]
    axes.bar(at, top - base, width * 0.94, base, zorder=2, **fill)
    notes = set[str]()
    for beyond, marker, note in ((below, "v", BELOW), (above, "^", ABOVE)):
        if beyond.any():
            axes.plot(at[beyond], top[beyond], marker, mec=INK, **_EDGE)
            notes.add(note)
    return notes


def part_look(colour: str, part: int) -> dict[str, Any]:
    """How the i-th part of a bar is filled."""
    return {
        "facecolor": shade(colour, _PART_SHADES[part % len(_PART_SHADES)]) if part else colour,
        "hatch": _HATCHES[part % len(_HATCHES)],
        "edgecolor": "white" if part == 0 else shade(colour, -0.25),
        "linewidth": 0.6,
    }


def stack_look(look: Look, part: int) -> dict[str, Any]:
    """How the i-th part of a bar is filled where each part has its own colour."""
    return part_look(look.colour, 0) | {"hatch": _HATCHES[part % len(_HATCHES)]}


def bar_look(look: Look) -> dict[str, Any]:
    """How the bars of a series are filled; those on other data are not full."""
    if look.fill == "full":
        return part_look(look.colour, 0)
    hatch = _HATCHES[1 if look.fill == "none" else 2]
    return {"facecolor": "white", "edgecolor": look.colour, "hatch": hatch, "linewidth": 1.0}


def reference_dash(position: int) -> Dash:
    """The dashes of the i-th reference line; grey and thin, unlike any series."""
    return _REFERENCES[position % len(_REFERENCES)]


def draw_reference_lines(
    axes: Any, lines: Sequence[Mapping[str, Any]], scale: Scale, named: bool
) -> None:
    """Draws the lines at fixed places, and (`named`) the labels of level ones where no data is: to
    the right. An upright line has no such place, and is named in the legend.

    A line whose `y` is the name of a column is a curve, and not drawn here.
    """
    for position, line in enumerate(lines):
        look = {"color": QUIET, "lw": 1.4, "ls": reference_dash(position), "zorder": 2.5}
        label = plain(str(line.get("label", "")), 40)
        if isinstance(line.get("y"), int | float):
            y = float(line["y"])
            if scale.low <= y <= scale.high:
                axes.axhline(y, **look)
                if named and label:
                    axes.annotate(
                        label, (1, y), xycoords=("axes fraction", "data"), xytext=(4, 0),
                        textcoords="offset points", va="center", fontsize=9, color=QUIET,
                        annotation_clip=False,
                    )  # fmt: skip
        elif isinstance(line.get("x"), int | float):
            axes.axvline(float(line["x"]), **look)
