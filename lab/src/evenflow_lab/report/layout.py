"""Where things stand in a picture: title, panels, legend, notes; nothing clipped, nothing covered."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from evenflow.report.style import QUIET, Look, new_figure, plain
from evenflow_lab.report.marks import bar_look

_WIDTH = 10.0  #: inches; 1500 pixels
_MOST_COLUMNS = 4
_MARGIN = 0.12
_LINE = 1.32 / 72  #: height of a line of text, in inches a point


@dataclass(frozen=True)
class PanelGrid:
    """Panels in rows and columns; where there are several y columns, a row of panels for each.

    Parameters:
        panels: how many.
        columns: panels beside each other.
        levels: y columns, below each other.
    """

    panels: int
    columns: int
    levels: int

    @classmethod
    def of(cls, count: int, columns: int | None, levels: int) -> PanelGrid:
        """The grid for `count` panels; without `columns`, as many beside each other as fit."""
        return cls(count, min(columns or _columns(count), count), levels)

    @property
    def rows(self) -> int:
        return math.ceil(self.panels / self.columns) * self.levels

    @property
    def letters_a_panel(self) -> int:
        """How many letters of small print fit into a panel's width."""
        return int(118 / self.columns) - 4

    @property
    def height(self) -> float:
        """Of all panels, in inches."""
        if self.rows == 1:
            return 4.4 if self.columns == 1 else 3.6 if self.columns == 2 else 3.2
        return self.rows * (2.7 if self.columns <= 2 else 2.45)

    def place(self, level: int, panel: int) -> tuple[int, int]:
        """Row and column."""
        block, column = divmod(panel, self.columns)
        return block * self.levels + level, column

    def is_first_in_row(self, panel: int) -> bool:
        return panel % self.columns == 0

    def is_last_in_row(self, panel: int) -> bool:
        return panel % self.columns == self.columns - 1 or panel == self.panels - 1

    def is_lowest(self, level: int, panel: int) -> bool:
        """Is nothing below it?"""
        return level == self.levels - 1 and panel + self.columns >= self.panels


def _columns(count: int) -> int:
    """As many as fit, without a last row that is nearly empty.

    Example:
        >>> [_columns(count) for count in (1, 3, 4, 5, 6, 7, 9)]
        [1, 3, 4, 3, 3, 4, 3]
    """
    rows = math.ceil(count / _MOST_COLUMNS)
    return math.ceil(count / rows)


def begin(grid: PanelGrid) -> tuple[Any, Any]:
    """An empty picture and its axes, as a table that `PanelGrid.place` points into."""
    picture = new_figure(_WIDTH, grid.height)
    picture.set_layout_engine("constrained", w_pad=0.06, h_pad=0.06, wspace=0.03, hspace=0.03)
    axes = picture.subplots(grid.rows, grid.columns, squeeze=False)
    used = {grid.place(level, i) for level in range(grid.levels) for i in range(grid.panels)}
    for row in range(grid.rows):
        for column in range(grid.columns):
            if (row, column) not in used:
                axes[row, column].set_axis_off()
    return picture, axes


@dataclass(frozen=True)
class Header:
    """The title and a line with what is the same in all runs."""

    title: str
    context: str

    def lines(self) -> list[tuple[str, dict[str, Any]]]:
        title = textwrap.wrap(plain(self.title, 200), 86) or [""]
        context = textwrap.wrap(plain(self.context, 300), 120)
        return [
            *((line, {"fontsize": 13, "fontweight": "bold"}) for line in title),
            *((line, {"fontsize": 9.5, "color": QUIET}) for line in context),
        ]


@dataclass(frozen=True)
class Footer:
    """The legend and the notes, below all panels.

    Parameters:
        entries: (label, how it is drawn).
    """

    entries: Sequence[tuple[str, dict[str, Any]]]

    def finish(self, picture: Any, header: Header, grid: PanelGrid, notes: Sequence[str]) -> None:
        """Writes header and footer, and makes the picture as high as all of it needs."""
        above = header.lines()
        below = [line for note in notes for line in textwrap.wrap(plain(note, 400), 135)]
        header_height = _MARGIN + sum(style["fontsize"] * _LINE for _, style in above) + 0.04
        notes_height = len(below) * 8.5 * _LINE
        legend = self._legend(picture)
        pixels = picture.dpi
        renderer = picture.canvas.get_renderer()
        legend_height = legend.get_window_extent(renderer).height / pixels + 0.12 if legend else 0.0
        footer_height = _MARGIN + notes_height + legend_height
        height = header_height + grid.height + footer_height
        picture.set_size_inches(_WIDTH, height)
        picture.get_layout_engine().set(
            rect=(0.005, footer_height / height, 0.99, grid.height / height)
        )
        y = height - _MARGIN
        for line, style in above:
            picture.text(_MARGIN / _WIDTH, y / height, line, va="top", **style)
            y -= style["fontsize"] * _LINE
        y = _MARGIN + notes_height - 0.02
        for line in below:
            picture.text(_MARGIN / _WIDTH, y / height, line, va="top", fontsize=8.5, color=QUIET)
            y -= 8.5 * _LINE
        if legend:
            legend.set_loc("lower center")
            legend.set_bbox_to_anchor((0.5, (_MARGIN + notes_height + 0.08) / height))

    def _legend(self, picture: Any) -> Any:
        """The legend with as many columns as the width allows."""
        if not self.entries:
            return None
        handles = [_handle(**how) for _, how in self.entries]
        labels = [plain(label) for label, _ in self.entries]
        for most in range(min(len(labels), 6), 0, -1):
            # No nearly empty last row: 6 entries are 3 and 3 rather than 5 and 1.
            columns = math.ceil(len(labels) / math.ceil(len(labels) / most))
            legend = picture.legend(
                handles, labels, loc="lower center", ncols=columns, frameon=False, fontsize=9.5,
                handlelength=3.2, columnspacing=1.6, borderpad=0.1, borderaxespad=0,
            )  # fmt: skip
            legend.set_in_layout(False)
            width = legend.get_window_extent(picture.canvas.get_renderer()).width
            if width <= (_WIDTH - 2 * _MARGIN) * picture.dpi or columns == 1:
                return legend
            legend.remove()
        return None


def _handle(
    look: Look | None = None,
    bar: bool = False,
    joined: bool = True,
    patch: dict[str, Any] | None = None,
) -> Any:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    if patch is not None:
        return Patch(**patch)
    assert look is not None
    if bar:
        return Patch(**bar_look(look))
    return Line2D([], [], **{**look.mark, **(look.line if joined else {})})
