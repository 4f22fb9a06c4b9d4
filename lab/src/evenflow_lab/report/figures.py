"""A figure of a paper, drawn from its rows as its declaration says."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from evenflow.model import InputError
from evenflow.report.style import GRID, QUIET, Look, house_style, plain, save_figure
from evenflow_lab.experiments import Figure
from evenflow_lab.report.arrangement import (
    Curve,
    Panel,
    Rows,
    Series,
    curve_over,
    curve_over_time,
    hashable,
    numbers,
    other_streams,
    panels_in_a_row,
    panels_of,
    series_key,
    series_of,
)
from evenflow_lab.report.horizontal import Across, across
from evenflow_lab.report.layout import Footer, Header, PanelGrid, begin
from evenflow_lab.report.looks import GREY, other_data_look
from evenflow_lab.report.marks import (
    Edges,
    Stack,
    draw_bars,
    draw_curve,
    draw_reference_lines,
    draw_stacks,
    part_look,
    reference_dash,
    stack_look,
)
from evenflow_lab.report.scale import Scale, name_ticks, scale_of
from evenflow_lab.report.wording import Row, column_label, is_number, parameter_label, stream_label

_BARS = ("bars", "stacked")


def draw_figure(figure: Figure, rows: list[dict[str, Any]], path: Path) -> Path:
    """Draws the rows of a figure, as a PNG of 1500 pixels' width.

    Guarantee: every row with a value is seen. What has no place on an axis (zero on a logarithmic
    one, values beyond limits that were given) stands at its edge with a mark of its own; what has
    no value at all is counted below the picture. The same rows give the same bytes.

    Parameters:
        figure: what is declared; `figure.plot` says how it is drawn.
        rows: as `figure_rows` gives them.
        path: the file to write.

    Example:
        >>> import tempfile
        >>> from evenflow_lab.experiments import Plot
        >>> figure = Figure("fig1", "Skew", "", "routing", Plot(x="zipf", y=("imbalance",)))
        >>> rows = [{"grouping": "key", "zipf": z, "imbalance": z / 9} for z in (0.5, 1.0)]
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     draw_figure(figure, rows, Path(folder) / "fig1.png").name
        'fig1.png'
    """
    with house_style():
        return save_figure(compose(figure, rows), path)


def compose(figure: Figure, rows: Rows) -> Any:
    """The picture as an object of matplotlib, for who wants to change it; within `house_style`."""
    where = f"{figure.paper}/{figure.id}" if figure.paper else figure.id
    if not rows:
        raise InputError(f"{where}: there is nothing to draw: no run gave a row")
    picture = _Picture(figure, rows, where)
    return picture.draw()


@dataclass
class _Picture:
    figure: Figure
    rows: Rows
    where: str
    notes: dict[str, None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        plot = self.figure.plot
        self.plot = plot
        self.panels: list[Panel] = panels_of(plot, self.rows)
        self.series: list[Series] = series_of(plot, self.rows)
        self.acrosses: list[Across] = [across(plot, self.rows)] * len(self.panels)
        self.shared_x = True
        if plot.x == "time":
            # Streams of very different lengths would be squeezed by an axis that all of them share.
            own = [across(plot, panel.rows) for panel in self.panels]
            lengths = [one.scale.high for one in own]
            self.shared_x = max(lengths) < 1.5 * min(lengths)
            self.acrosses = self.acrosses if self.shared_x else own
        # The columns of a stack are its parts; anywhere else each has a row of panels.
        self.levels: tuple[tuple[str, ...], ...] = (
            (plot.y,) if plot.style == "stacked" else tuple((y,) for y in plot.y)
        )

    def draw(self) -> Any:
        columns_of_panels = panels_in_a_row(self.plot, self.panels)
        grid = PanelGrid.of(len(self.panels), columns_of_panels, len(self.levels))
        footer = Footer(self._legend())
        scales = [self._scale(columns) for columns in self.levels]
        self._note_what_is_not_seen()
        picture, axes = begin(grid)
        for level, columns in enumerate(self.levels):
            for i, panel in enumerate(self.panels):
                self._draw_panel(axes[grid.place(level, i)], i, columns, scales[level])
                draw_reference_lines(
                    axes[grid.place(level, i)],
                    self._lines(columns),
                    scales[level],
                    named=grid.is_last_in_row(i),
                )
                if level == 0 and panel.title:
                    axes[grid.place(level, i)].set_title(
                        _in_whole_phrases(plain(panel.title), grid.letters_a_panel),
                        loc="left", fontsize=10,
                    )  # fmt: skip
        self._name_axes(grid, axes, scales)
        header = Header(self.figure.title or self.figure.id, self._context())
        footer.finish(picture, header, grid, self._all_notes())
        return picture

    # What is drawn ------------------------------------------------------------------------------

    def _draw_panel(self, axes: Any, at: int, columns: tuple[str, ...], scale: Scale) -> None:
        panel, horizontal = self.panels[at], self.acrosses[at]
        axes.grid(color=GRID, lw=0.8, axis="y" if self.plot.style in _BARS else "both")
        if self.plot.style in _BARS:
            beside = self.plot.x not in self.plot.series
            if self.plot.style == "stacked":
                self._note(draw_stacks(axes, self._stacks(panel, columns), scale, beside))
            else:
                of = [(s, self._curve(r, columns[0])) for s, r in self._rows_of(panel)]
                self._note(draw_bars(axes, of, scale, beside))
            return
        present, edges = list(self._rows_of(panel)), Edges()
        for i, (series, rows) in enumerate(present):
            for kind, part in horizontal.parts(rows):
                curve = self._curve(part, columns[0])
                if kind == "slots":
                    peers = [s.key for s, _ in present if s.key[1] == series.key[1]]
                    curve = horizontal.moved_aside(curve, peers.index(series.key), len(peers))
                joined = kind == "joined" and self.plot.style == "lines"
                self._note(
                    draw_curve(
                        axes, curve, series, (horizontal.whole, scale), joined,
                        (i, len(present)), edges,
                    )
                )  # fmt: skip
        edges.draw(axes)
        for position, line in enumerate(self._lines(columns)):
            if isinstance(line.get("y"), str):
                for kind, part in horizontal.parts(panel.rows):
                    bound = self._curve(part, line["y"])
                    y = scale.place(bound.median)[0]
                    dash = reference_dash(position) if kind == "joined" else "none"
                    marker = None if kind == "joined" else "_"
                    axes.plot(
                        bound.x, y, color=QUIET, lw=1.1, ls=dash, marker=marker, ms=16, zorder=1.5
                    )

    def _stacks(self, panel: Panel, columns: tuple[str, ...]) -> Sequence[Stack]:
        """Several columns are the parts of each series' bars; of one column, the series are."""
        if len(columns) == 1:
            place = {series.key: i for i, series in enumerate(self.series)}
            return [
                [
                    (stack_look(s.look, place[s.key]), self._curve(rows, columns[0]))
                    for s, rows in self._rows_of(panel)
                ]
            ]
        return [
            [(part_look(s.look.colour, i), self._curve(rows, y)) for i, y in enumerate(columns)]
            for s, rows in self._rows_of(panel)
        ]

    def _rows_of(self, panel: Panel) -> Iterator[tuple[Series, list[Row]]]:
        of: dict[Any, list[Row]] = {}
        for row in panel.rows:
            of.setdefault(series_key(self.plot, row), []).append(row)
        for series in self.series:
            if series.key in of:
                yield series, of[series.key]

    def _curve(self, rows: Rows, column: str) -> Curve:
        if self.plot.x == "time":
            return curve_over_time(rows, column, self.where)
        places = [self.acrosses[0].place(row) for row in rows]
        return curve_over(places, self._numbers(rows, column))

    def _numbers(self, rows: Rows, column: str) -> list[float]:
        # A single run may lack a column that others have; a column that none has is a mistake.
        if not any(column in row for row in self.rows):
            return numbers(self.rows, column, self.where)
        return numbers([{column: row.get(column)} for row in rows], column, self.where)

    def _scale(self, columns: tuple[str, ...]) -> Scale:
        bars = self.plot.style in _BARS
        log = self.plot.log_y
        values = [float(line["y"]) for line in self._lines(columns) if _is_fixed(line, "y")]
        for panel in self.panels:
            if self.plot.style == "stacked":
                for stack in self._stacks(panel, columns):
                    values += _totals([curve for _, curve in stack])
            else:
                for _, rows in self._rows_of(panel):
                    curve = self._curve(rows, columns[0])
                    values += [*curve.median, *curve.least, *curve.greatest]
            for line in self._lines(columns):
                if isinstance(line.get("y"), str):
                    values += self._numbers(panel.rows, line["y"])
        # The least bar of a logarithmic axis must still be a bar.
        margin = 0.15 if bars and log else 0.05
        scale = scale_of(values, log, self.plot.y_limits, from_zero=bars, margin=margin)
        if bars and not log and scale.low > 0 and self.plot.y_limits is None:
            scale = Scale(0.0, scale.high)
        return scale

    def _lines(self, columns: tuple[str, ...]) -> list[Mapping[str, Any]]:
        """The reference lines of a row of panels; one with a `column` is for that column only."""
        return [line for line in self.plot.lines if line.get("column", columns[0]) in columns]

    # What is said about it ----------------------------------------------------------------------

    def _name_axes(self, grid: PanelGrid, axes: Any, scales: Sequence[Scale]) -> None:
        plot = self.plot
        for level, scale in enumerate(scales):
            label = (plot.y_label[level : level + 1] or plot.y_label[:1] or ("",))[0]
            if not label and (plot.style != "stacked" or len(plot.y) == 1):
                label = column_label(plot.y[level], over_time=plot.x == "time")
            for i in range(len(self.panels)):
                one = axes[grid.place(level, i)]
                if scale.log:
                    one.set_yscale("log")
                one.set_ylim(scale.low, scale.high)
                name_ticks(one.yaxis, scale)
                self.acrosses[i].name(one, letters=grid.letters_a_panel)
                one.tick_params(labelsize=9)
                if grid.is_first_in_row(i):
                    one.set_ylabel(_in_even_lines(plain(label), 34), fontsize=10)
                else:
                    one.tick_params(labelleft=False)
                if grid.is_lowest(level, i) or (not self.shared_x and level == grid.levels - 1):
                    across = _in_even_lines(plain(self.acrosses[i].label), grid.letters_a_panel)
                    one.set_xlabel(across, fontsize=10)
                else:
                    one.tick_params(labelbottom=False)

    def _legend(self) -> list[tuple[str, dict[str, Any]]]:
        """(label, how it is drawn) of everything that needs a name."""
        plot, entries = self.plot, []
        how = {"bar": plot.style in _BARS, "joined": plot.style == "lines"}
        if not set(plot.series) <= {*plot.panels, plot.x}:
            named: dict[Any, Series] = {}
            for series in self.series:
                named.setdefault(series.key[0], series)
            entries = [(s.label, {"look": s.look, **how}) for s in named.values() if s.label]
        if plot.style == "stacked" and len(plot.y) == 1:
            return [(s.label, {"patch": stack_look(s.look, i)}) for i, s in enumerate(self.series)]
        # Colour and shape name the scheme; dashes and filling, once for all schemes, the data.
        for position, stream in enumerate(other_streams(self.series)):
            look = other_data_look(Look(QUIET, "o", "-"), position)
            entries.append((f"on {stream}", {"look": look, **how}))
        if plot.style == "stacked" and len(plot.y) > 1:
            entries += [
                (column_label(y), {"patch": part_look(GREY, i)}) for i, y in enumerate(plot.y)
            ]
        for position, line in enumerate(plot.lines):
            label = str(line.get("label") or "")
            if isinstance(line.get("y"), str):
                label = label or column_label(line["y"])
            elif not _is_fixed(line, "x"):
                continue
            if label:
                entries.append((label, {"look": Look(QUIET, "", reference_dash(position))}))
        return entries

    def _context(self) -> str:
        """What is the same in all runs, and not said by axes, panels or legend."""
        plot = self.plot
        said = {plot.x, *plot.series, *plot.panels}
        own = [row for row in self.rows if not row.get("extra")] or self.rows
        words = []
        if "workload_name" not in said:
            words += [_streams(own)]
        # Skew and keys are a Zipf stream's parameters; of others they are mere by-products.
        chosen = all(row.get("workload_name") in (None, "zipf") for row in own)
        columns = ("zipf", "keys") if chosen else ()
        for column in (*columns, "messages", "workers", "sources"):
            values = {hashable(row.get(column)) for row in own}
            if column not in said and len(values) == 1 and is_number(own[0].get(column)):
                everywhere = all(row.get(column) == own[0][column] for row in self.rows)
                of = "" if everywhere else f" ({_streams(own)})"
                words.append(parameter_label(column, own[0]) + of)
        return ", ".join(word for word in words if word)

    def _note(self, notes: Iterable[str]) -> None:
        self.notes.update(dict.fromkeys(sorted(notes)))

    def _note_what_is_not_seen(self) -> None:
        for columns in self.levels:
            for column in columns:
                if self.plot.x == "time":
                    missing = sum(1 for row in self.rows if not row.get("timeline"))
                    what = "a timeline"
                else:
                    missing = int(np.isnan(self._numbers(self.rows, column)).sum())
                    what = f"“{column_label(column)}”"
                if missing == len(self.rows):
                    raise InputError(f"{self.where}: no row has {what}: there is nothing to draw")
                if missing:
                    self.notes[f"{missing} of {len(self.rows)} runs have no value for {what}"] = (
                        None
                    )

    def _all_notes(self) -> list[str]:
        streams = dict.fromkeys(
            stream_label({**row, "stand_in": False}) for row in self.rows if row.get("stand_in")
        )
        stand_in = [f"stand-in data: {', '.join(streams)}"] if streams else []
        return [*stand_in, *self.notes]


def _streams(rows: Rows) -> str:
    return " and ".join(dict.fromkeys(s for row in rows if (s := stream_label(row))))


def _in_whole_phrases(text: str, width: int) -> str:
    """Wrapped after commas, where that is enough.

    Example:
        >>> _in_whole_phrases("W-C (w-choices), 100 workers", 24).splitlines()
        ['W-C (w-choices),', '100 workers']
    """
    lines: list[str] = []
    for phrase in text.replace(", ", ",\n").split("\n"):
        if lines and len(lines[-1]) + 1 + len(phrase) <= width:
            lines[-1] += f" {phrase}"
        else:
            lines += textwrap.wrap(phrase, width)
    return "\n".join(lines)


def _in_even_lines(text: str, width: int) -> str:
    """Wrapped into as few lines as `width` allows, none of them a single left-over word.

    Example:
        >>> _in_even_lines("utilisation over the day, max − min", 34).splitlines()
        ['utilisation over', 'the day, max − min']
    """
    lines = textwrap.wrap(text, width)
    for narrower in range(width - 1, 0, -1):
        even = textwrap.wrap(text, narrower)
        if len(even) > len(lines):
            break
        lines = even
    return "\n".join(lines)


def _totals(parts: Sequence[Curve]) -> list[float]:
    total: dict[float, float] = {}
    for part in parts:
        for x, y in zip(part.x, part.median, strict=True):
            total[x] = total.get(x, 0.0) + y
    return list(total.values())


def _is_fixed(line: Mapping[str, Any], axis: str) -> bool:
    return isinstance(line.get(axis), int | float)
