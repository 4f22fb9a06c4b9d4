"""Labels beside marks that do not overlap."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

_RINGS = (10, *range(20, 200, 12))  #: distances from the mark that are tried, in points
_DIRECTIONS = ((1, 0), (0.7, 0.7), (0.7, -0.7), (-1, 0), (-0.7, 0.7), (-0.7, -0.7), (0, 1), (0, -1))
_FREE_OF_A_LINE = 10


def place_labels(
    axes: Any,
    spots: Sequence[tuple[float, float]],
    names: Sequence[str],
    colour: str,
    line: str,
) -> None:
    """Writes each name at the nearest place to its spot where it covers no mark and no other name.

    A name that is further away gets a thin line to its mark. The axes' limits must be final.
    """
    figure = axes.figure
    figure.draw_without_rendering()  # settles the layout, on which positions in pixels depend
    renderer = figure.canvas.get_renderer()
    pixels_per_point = figure.dpi / 72
    marks = [tuple(axes.transData.transform(spot)) for spot in spots]
    taken = [_around(x, y, 6 * pixels_per_point) for x, y in marks]
    legend = axes.get_legend()
    if legend is not None:
        taken.append(legend.get_window_extent(renderer).extents)
    inside = axes.get_window_extent(renderer).extents

    # From the top down, so that the names of a column of marks keep the marks' order.
    for i in sorted(range(len(spots)), key=lambda i: -marks[i][1]):
        text = axes.annotate(
            names[i], spots[i], xytext=(0, 0), textcoords="offset points", fontsize=10, color=colour
        )
        distance, offset, align = _best_place(text, renderer, taken, inside)
        _move(text, offset, align)
        taken.append(text.get_window_extent(renderer).extents)
        if distance > _FREE_OF_A_LINE:
            leader = {"arrowstyle": "-", "color": line, "lw": 0.9, "shrinkA": 0, "shrinkB": 5}
            axes.annotate(
                "", spots[i], xytext=offset, textcoords="offset points", arrowprops=leader
            )


def _best_place(text: Any, renderer: Any, taken: Sequence[Any], inside: Any) -> Any:
    """(distance, offset, alignment) of the nearest free place."""
    fallback = None
    for distance in _RINGS:
        for dx, dy in _DIRECTIONS:
            offset = (dx * distance, dy * distance)
            align = (
                "left" if dx > 0 else "right" if dx < 0 else "center",
                "bottom" if dy > 0.9 else "top" if dy < -0.9 else "center",
            )
            _move(text, offset, align)
            box = text.get_window_extent(renderer).extents
            if not _within(box, inside):
                continue
            fallback = fallback or (distance, offset, align)
            if not any(_overlap(box, other) for other in taken):
                return distance, offset, align
    return fallback or (_RINGS[0], (_RINGS[0], 0), ("left", "center"))


def _move(text: Any, offset: tuple[float, float], align: tuple[str, str]) -> None:
    text.set(position=offset, ha=align[0], va=align[1])


def _around(x: float, y: float, radius: float) -> tuple[float, float, float, float]:
    return (x - radius, y - radius, x + radius, y + radius)


def _overlap(a: Any, b: Any) -> bool:
    return bool(a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3])


def _within(box: Any, frame: Any) -> bool:
    return bool(
        frame[0] <= box[0] and box[2] <= frame[2] and frame[1] <= box[1] and box[3] <= frame[3]
    )
