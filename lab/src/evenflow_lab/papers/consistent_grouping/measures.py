"""What the claims read off a row: imbalance, memory, and how they went over time."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from statistics import fmean
from typing import Any

from evenflow_lab.experiments import FigureRows, reading
from evenflow_lab.experiments.claims import Row
from evenflow_lab.experiments.reading import number, rising
from evenflow_lab.papers.consistent_grouping.terms import EPSILON, SYMBOLS, UTILISATION

Measure = Callable[[Row], float]


def where(rows: FigureRows, **fields: Any) -> list[Row]:
    """The rows with these values, without runs on other data than the paper's.

    Example:
        >>> where([{"workers": 5}, {"workers": 10}, {"workers": 5, "extra": True}], workers=5)
        [{'workers': 5}]
    """
    return reading.where([row for row in rows if not row.get("extra")], **fields)


def one(rows: FigureRows, **fields: Any) -> Row:
    """The only row with these values."""
    found = where(rows, **fields)
    if len(found) != 1:
        raise LookupError(f"{len(found)} rows with {fields}")
    return found[0]


def values(rows: FigureRows, name: str) -> list[Any]:
    """The values of a field, each once, in ascending order."""
    return reading.values(where(rows), name)


def has(rows: FigureRows, *groupings: str) -> list[str]:
    """Those of the schemes that the rows have."""
    present = {row["grouping"] for row in where(rows)}
    return [grouping for grouping in groupings if grouping in present]


def chosen(rows: FigureRows, *groupings: str) -> list[Row]:
    """The rows of these schemes."""
    return [row for row in where(rows) if row["grouping"] in groupings]


def beside(rows: FigureRows, row: Row, grouping: str) -> Row:
    """The row of another scheme at the same point of the grid."""
    point = {name: row[name] for name in ("workers", "zipf") if name in row}
    return one(rows, grouping=grouping, **point)


def symbol(row: Row) -> str:
    """The scheme as the paper calls it."""
    return SYMBOLS.get(row["grouping"], str(row["grouping"]))


def relative(row: Row) -> float:
    """Imbalance ÷ average load: I(m) in units of m/n.

    Example:
        >>> relative({"imbalance": 0.002, "workers": 10})
        0.02
    """
    return float(row["imbalance"] * row["workers"])


def in_messages(row: Row) -> float:
    """I(m) itself: messages that the largest load is above the average."""
    return float(row["imbalance"] * row["messages"])


def excess(row: Row) -> float:
    """By how many messages the imbalance is above ε · m/n."""
    return (relative(row) - EPSILON) * float(row["messages"]) / float(row["workers"])


def memory(row: Row) -> float:
    """Replicas per key: memory relative to that of KG."""
    return float(row["replicas"] / row["distinct_keys"])


def extreme(rows: Iterable[Row], measure: Measure, least: bool = False) -> str:
    """`PoRC 0.0099 (n = 100, z = 1.4)`: the largest (or least) of a measure and where it was."""
    row = (min if least else max)(rows, key=measure)
    return f"{symbol(row)} {number(measure(row))} ({place(row)})"


def place(row: Row) -> str:
    """Where in the grid a row is."""
    names = {"workers": "n", "zipf": "z", "epsilon": "ε", "sources": "s", "virtual": "virtual"}
    shown = [
        f"{letter} = {row[name]:g}"
        for name, letter in names.items()
        if row.get(name) is not None
        and (name, row[name]) != ("sources", 1)
        # A stand-in has a skew too, but nobody chose it.
        and not (name == "zipf" and row.get("stand_in"))
    ]
    return ", ".join([*shown, *([row["arrivals"]] if row.get("arrivals") else [])])


def over(rows: FigureRows, name: str, measure: Measure) -> str:
    """A measure over a field of the grid, for each scheme: `KG 4.3, 8.8, 46 (n = 50, 100, 500)`."""
    parts = []
    for grouping in dict.fromkeys(row["grouping"] for row in rows):
        chosen = sorted(where(rows, grouping=grouping), key=lambda row: float(row[name]))
        parts.append(f"{symbol(chosen[0])} {', '.join(number(measure(row)) for row in chosen)}")
    points = ", ".join(f"{value:g}" for value in values(rows, name))
    return f"{'; '.join(parts)} (at {points})"


def series(row: Row, column: str) -> list[float]:
    """A column of the timeline; a slot without a value (no message came) counts as 0."""
    return [float(slot[column] or 0.0) for slot in row["timeline"]]


def mean_over(row: Row, column: str, begin: float = 0.0, end: float = 1.0) -> float:
    """The mean of a column between two moments, given as shares of the slots.

    Example:
        >>> mean_over({"timeline": [{"q": 1}, {"q": 2}, {"q": 3}, {"q": 5}]}, "q", 0.5)
        4.0
    """
    line = series(row, column)
    first = min(int(begin * len(line)), len(line) - 1)
    last = max(first + 1, int(end * len(line)))
    return fmean(line[first:last])


def quarters(row: Row, column: str) -> list[float]:
    """The mean of a column in the last twentieth of each quarter of the stream."""
    return [mean_over(row, column, q - 0.05, q) for q in (0.25, 0.5, 0.75, 1.0)]


def grows(row: Row, column: str) -> bool:
    """Is each quarter's end above the one before it?"""
    ends = quarters(row, column)
    return rising(ends)


def settled_after(row: Row, window: int = 15) -> float:
    """The share of the stream after which the utilisation difference has halved.

    Smoothed over 15 slots, and compared with that of the first slot; 1 where it never does.
    """
    line = series(row, UTILISATION)
    for i in range(len(line)):
        if fmean(line[i : i + window]) <= line[0] / 2:
            return i / len(line)
    return 1.0


def hours(share: float) -> str:
    """A share of the day that WP's stream takes."""
    return f"{24 * share:.1f} h"


def day(rows: FigureRows, column: str) -> str:
    """Means over the stream, each scheme and arrival curve: `KG 772,828 (hourly)`."""
    return ", ".join(
        f"{symbol(row)} {number(mean_over(row, column))} ({row['arrivals']})" for row in rows
    )
