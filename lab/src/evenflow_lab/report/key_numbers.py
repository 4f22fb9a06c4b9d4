"""The numbers of a figure in a small table: who reads an imbalance sees what it costs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from evenflow_lab.experiments import Figure
from evenflow_lab.report.wording import (
    Row,
    column_label,
    is_number,
    number,
    parameter_label,
    stream_label,
)

# A scheme that is balanced only on average is not balanced, and shuffling is balance at the price of
# memory: these stand together in every table that has one of them.
_TOGETHER = ("imbalance", "worst_window", "replicas")
_IN_TIME = ("latency_p99", "queue_max", "utilisation_difference")


@dataclass(frozen=True)
class KeyNumbers:
    """A table: what each line is about, the columns' names, and the lines.

    Parameters:
        about: headings of the leading columns, which name a line.
        columns: headings of the numbers.
        lines: (names, numbers); `smallest – largest` where runs differ.
    """

    about: tuple[str, ...]
    columns: tuple[str, ...]
    lines: tuple[tuple[tuple[str, ...], tuple[str, ...]], ...]


def key_numbers(figure: Figure, rows: Sequence[Row]) -> KeyNumbers:
    """One line a scheme and stream (and whatever else the figure's series tell apart).

    Example:
        >>> from evenflow_lab.experiments import Plot
        >>> figure = Figure("fig1", "", "", "routing", Plot(x="zipf", y=("imbalance",)))
        >>> rows = [{"grouping": "key", "imbalance": v, "replicas": 5} for v in (0.1, 0.2)]
        >>> table = key_numbers(figure, rows)
        >>> table.columns
        ('imbalance at the end', 'replicas (worker, key)')
        >>> table.lines
        ((('KG (key)', '2'), ('0.1 – 0.2', '5')),)
    """
    leading = ["grouping", *(name for name in figure.plot.series if name != "grouping")]
    leading = [name for name in leading if any(row.get(name) is not None for row in rows)]
    streams = {label for row in rows if (label := stream_label(row))}
    by_stream = len(streams) > 1 and "workload_name" not in leading
    groups: dict[tuple[str, ...], list[Row]] = {}
    for row in rows:
        names = [parameter_label(n, row) if row.get(n) is not None else "–" for n in leading]
        groups.setdefault((*names, *([stream_label(row)] if by_stream else [])), []).append(row)
    columns = _columns(figure, rows)
    about = (*(column_label(name) for name in leading), *(["stream"] if by_stream else []), "runs")
    lines = tuple(
        ((*names, number(len(inside))), tuple(_range(inside, column) for column in columns))
        for names, inside in groups.items()
    )
    return KeyNumbers(about, tuple(column_label(column) for column in columns), lines)


def _columns(figure: Figure, rows: Sequence[Row]) -> list[str]:
    bounds = [line["y"] for line in figure.plot.lines if isinstance(line.get("y"), str)]
    wanted = dict.fromkeys([*figure.plot.y, *bounds, *_TOGETHER, *_IN_TIME])
    first = [name for name in wanted if name not in _TOGETHER]
    if "imbalance" in figure.plot.y:
        first = []
    ordered = dict.fromkeys([*first, *_TOGETHER, *wanted])
    return [name for name in ordered if any(is_number(row.get(name)) for row in rows)]


def _range(rows: Sequence[Row], column: str) -> str:
    values: list[Any] = [row[column] for row in rows if is_number(row.get(column))]
    if not values:
        return "–"
    least, greatest = number(min(values)), number(max(values))
    return least if least == greatest else f"{least} – {greatest}"
