"""From rows to panels, series and curves: what a picture shows, before anything is drawn."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from evenflow.model import InputError
from evenflow.report.style import Look
from evenflow_lab.experiments import Plot
from evenflow_lab.report.looks import (
    category_look,
    ordered_look,
    other_data_look,
    scheme_looks,
    variant_look,
)
from evenflow_lab.report.wording import Row, is_number, parameter_label, stream_label, value_label

F64 = npt.NDArray[np.float64]
Rows = Sequence[Row]


@dataclass(frozen=True)
class Panel:
    """One small picture: the rows that share the values of the panels' columns."""

    title: str
    rows: Rows
    values: tuple[Any, ...] = ()  #: of the panels' columns


@dataclass(frozen=True)
class Series:
    """Rows that are drawn alike, in every panel.

    Parameters:
        key: what `series_key` gives for its rows.
        label: its name in the legend; empty where there is only one, which needs none.
        look: colour, mark and dashes.
    """

    key: Any
    label: str
    look: Look


@dataclass(frozen=True)
class Curve:
    """One series in one panel: places on the x axis, and the runs' median, least and greatest."""

    x: F64
    median: F64
    least: F64
    greatest: F64

    @property
    def spread(self) -> bool:
        """Do several runs share a place and differ?"""
        return bool(np.any(self.greatest > self.least))


def panels_of(plot: Plot, rows: Rows) -> list[Panel]:
    """The panels, in the order in which the rows have the values of each column.

    Runs on other data go into the panel of their values where there is one, else into one of their
    own that bears the name of the data.
    """
    if not plot.panels:
        return [Panel("", rows)]
    places: dict[Any, tuple[str, list[Row]]] = {}
    ranks: list[dict[Any, int]] = [{} for _ in range(len(plot.panels) + 1)]
    for row in sorted(rows, key=_is_extra):
        key: Any = tuple(hashable(row.get(name)) for name in plot.panels)
        has = [name for name in plot.panels if row.get(name) is not None]
        words = [parameter_label(name, row) for name in has]
        if (*key, None) not in places and _is_extra(row):
            key = (*key, stream_label(row))
            words += [stream_label(row)] if "workload_name" not in has else []
        else:
            key = (*key, None)
        for rank, value in zip(ranks, key, strict=True):
            rank.setdefault(value, len(rank))
        places.setdefault(key, (", ".join(words), []))[1].append(row)

    def order(key: Any) -> list[int]:
        # Other data last; the figure's own in rows and columns, as a table would have them.
        return [ranks[-1][key[-1]], *(r[v] for r, v in zip(ranks, key, strict=False))]

    return [Panel(*places[key], values=key[:-1]) for key in sorted(places, key=order)]


def panels_in_a_row(plot: Plot, panels: Sequence[Panel]) -> int | None:
    """As many as the last column has values, where panels are a table of two columns."""
    across = len({panel.values[-1] for panel in panels}) if len(plot.panels) == 2 else 0
    down = len({panel.values[0] for panel in panels}) if across else 0
    is_table = across * down == len(panels) and 2 <= across <= 5
    return plot.panel_columns or (across if is_table else None)


def series_key(plot: Plot, row: Row) -> Any:
    """Equal for rows of the same series."""
    values = tuple(hashable(row.get(name)) for name in plot.series)
    return values, stream_label(row) if _is_extra(row) else None


def series_of(plot: Plot, rows: Rows) -> list[Series]:
    """The series of a figure, in the order of the rows, each with its look.

    A scheme looks the same in all figures. What else distinguishes series changes its shade, its
    marks and its dashes. Numbers without a scheme go from dark to light.
    """
    first: dict[Any, Row] = {}
    for row in sorted(rows, key=_is_extra):
        first.setdefault(series_key(plot, row), row)
    looks = _looks(plot, first)
    series = []
    for key, row in first.items():
        has = [name for name in plot.series if row.get(name) is not None]
        label = ", ".join(parameter_label(name, row) for name in has)
        series.append(Series(key, label, looks[key]))
    return series


def other_streams(series: Sequence[Series]) -> list[str]:
    """The data beside the figure's own, in the order in which their looks are chosen."""
    return list(dict.fromkeys(s.key[1] for s in series if s.key[1] is not None))


def _looks(plot: Plot, first: dict[Any, Row]) -> dict[Any, Look]:
    own = {key: row for key, row in first.items() if key[1] is None} or first
    looks: dict[Any, Look] = {}
    if "grouping" in plot.series:
        names = {key: _scheme_name(row) for key, row in first.items()}
        by_scheme = scheme_looks(list(names.values()))
        variants: dict[str, list[Any]] = {}
        for key in own:
            variants.setdefault(names[key], []).append(key[0])
        for key in first:
            of_scheme = variants.get(names[key], [])
            position = of_scheme.index(key[0]) if key[0] in of_scheme else 0
            looks[key] = variant_look(by_scheme[names[key]], position)
    else:
        looks = _looks_of_values(plot, own)
        for key in first:
            same = [other for other in own if other[0] == key[0]]
            looks.setdefault(key, looks[same[0]] if same else Look("#000000", "o", "-"))
    datasets = list(dict.fromkeys(key[1] for key in first if key[1] is not None))
    return {
        key: look if key[1] is None else other_data_look(look, datasets.index(key[1]))
        for key, look in looks.items()
    }


def _looks_of_values(plot: Plot, own: dict[Any, Row]) -> dict[Any, Look]:
    values = {key: row.get(plot.series[0]) for key, row in own.items()}
    if len(plot.series) == 1 and len(own) > 1 and all(map(is_number, values.values())):
        order = sorted(own, key=lambda key: float(values[key] or 0))
        return {key: ordered_look(order.index(key), len(order)) for key in own}
    return {key: category_look(i) for i, key in enumerate(own)}


def _scheme_name(row: Row) -> str:
    return str(row.get("scheme") or str(row.get("grouping", "")).partition(":")[0])


def _is_extra(row: Row) -> bool:
    return bool(row.get("extra"))


def hashable(value: Any) -> Any:
    """A value that can be a key of a dict, equal where the value is."""
    return json.dumps(value, sort_keys=True) if isinstance(value, list | dict | tuple) else value


def numbers(rows: Iterable[Row], column: str, figure: str) -> list[float]:
    """The column's values, NaN where a row has none; what is no number is refused."""
    values: list[float] = []
    found = False
    names: dict[str, None] = {}
    for row in rows:
        names.update(dict.fromkeys(row))
        value = row.get(column)
        found = found or column in row
        if value is not None and not isinstance(value, bool | int | float):
            raise InputError(
                f"{figure}: column {column!r} cannot be drawn: a number is needed, "
                f"got {value_label(value)!r}"
            )
        values.append(float("nan") if value is None else float(value))
    if not found and values:
        raise InputError(
            f"{figure}: there is no column {column!r} to draw; the rows have {', '.join(names)}"
        )
    return values


def curve_over(places: Sequence[float], values: Sequence[float]) -> Curve:
    """Runs at the same place become their median, least and greatest value.

    Example:
        >>> curve = curve_over([2, 1, 2], [5.0, 3.0, 7.0])
        >>> curve.x.tolist(), curve.median.tolist(), curve.greatest.tolist()
        ([1.0, 2.0], [3.0, 6.0], [3.0, 7.0])
    """
    at = np.asarray(places, dtype=np.float64)
    measured = np.asarray(values, dtype=np.float64)
    kept = ~np.isnan(measured) & ~np.isnan(at)
    x = np.unique(at[kept])
    groups = [measured[kept & (at == place)] for place in x]
    return Curve(
        x,
        np.array([np.median(group) for group in groups]),
        np.array([group.min() for group in groups]),
        np.array([group.max() for group in groups]),
    )


def curve_over_time(rows: Rows, column: str, figure: str) -> Curve:
    """The timelines of some runs as one curve; a moment without a value is a gap.

    Runs whose moments differ are read at the moments of the longest, between its own first and last.
    """
    lines = []
    for row in rows:
        timeline = row.get("timeline") or []
        if timeline:
            at = np.array(numbers(timeline, "time", figure))
            lines.append((at, np.array(numbers(timeline, column, figure))))
    if not lines:
        return Curve(*(np.array([]) for _ in range(4)))
    x = max((at for at, _ in lines), key=len)
    values = [
        y if len(at) == len(x) and np.allclose(at, x) else np.interp(x, at, y, np.nan, np.nan)
        for at, y in lines
    ]
    table = np.array(values)
    median, least, greatest = (np.full(len(x), np.nan) for _ in range(3))
    seen = ~np.isnan(table).all(axis=0)
    median[seen] = np.nanmedian(table[:, seen], axis=0)
    least[seen] = np.nanmin(table[:, seen], axis=0)
    greatest[seen] = np.nanmax(table[:, seen], axis=0)
    return Curve(x, median, least, greatest)
