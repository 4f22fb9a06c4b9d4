"""How the claims read rows: choosing them, following them over time, and telling what was measured."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from statistics import fmean
from typing import Any

from evenflow_lab.experiments import Verdict

Row = Any
Rows = Sequence[Any]

# The paper's own numbers, from which every threshold is taken that its words do not give.
EPSILON = 0.01  #: the slack of PoRC, CH and CG, §VII-B
NEARLY_OPTIMAL = (
    2.0  #: "nearly optimal memory overhead by allowing at most two workers per key", §VI-B
)
BAND = 0.10  #: between idle at 0.75 and busy at 0.85, §VII-A: what CG does not even try to even out
CLOSE = 1.1  #: "close", "very similar": a tenth
SAME_ON_LOG_AXIS = 2.0  #: "almost the same on a log scale": a factor of two is 0.3 of a decade
MAGNITUDE = 10.0  #: "very low", "high": told apart by an order of magnitude

KG, PKG, POTC, SG = "key", "partial-key", "two-choices", "shuffle"
PORC, PORC_0 = "random-choices", "random-choices:patience=0"
CH, CH_0 = "bounded-hashing", "bounded-hashing:patience=0"
CG, CG_0 = "consistent", "consistent:patience=0"
CG_100, CG_100_0 = "consistent:virtual=100", "consistent:virtual=100,patience=0"
BOUNDED = (PORC, PORC_0, CH, CH_0, CG, CG_0)
SYMBOLS = {
    KG: "KG", PKG: "PKG", POTC: "PoTC", SG: "SG", PORC: "PoRC", PORC_0: "PoRC₀", CH: "CH",
    CH_0: "CH₀", CG: "CG", CG_0: "CG₀", CG_100: "CG", CG_100_0: "CG₀",
}  # fmt: skip

QUEUE, LATENCY, UTILISATION = "queue_difference", "latency_difference", "utilisation_difference"
WORDS = {QUEUE: "queue", LATENCY: "latency", UTILISATION: "utilisation"}


def where(rows: Rows, **fields: Any) -> list[Row]:
    """The rows with these values, without runs on other data than the paper's.

    Example:
        >>> where([{"workers": 5}, {"workers": 10}, {"workers": 5, "extra": True}], workers=5)
        [{'workers': 5}]
    """
    return [
        row
        for row in rows
        if not row.get("extra") and all(row.get(name) == want for name, want in fields.items())
    ]


def one(rows: Rows, **fields: Any) -> Row:
    """The only row with these values."""
    found = where(rows, **fields)
    if len(found) != 1:
        raise LookupError(f"{len(found)} rows with {fields}")
    return found[0]


def values(rows: Rows, name: str) -> list[Any]:
    """The values of a field, each once, in ascending order."""
    return sorted({row[name] for row in where(rows) if row.get(name) is not None})


def has(rows: Rows, *groupings: str) -> list[str]:
    """Those of the schemes that the rows have."""
    present = {row["grouping"] for row in where(rows)}
    return [grouping for grouping in groupings if grouping in present]


def chosen(rows: Rows, *groupings: str) -> list[Row]:
    """The rows of these schemes."""
    return [row for row in where(rows) if row["grouping"] in groupings]


def beside(rows: Rows, row: Row, grouping: str) -> Row:
    """The row of another scheme at the same point of the grid."""
    point = {name: row[name] for name in ("workers", "zipf") if name in row}
    return one(rows, grouping=grouping, **point)


def symbol(row: Row) -> str:
    """The scheme as the paper calls it; ₀ marks capacities renewed at every message."""
    return SYMBOLS.get(row["grouping"], row["grouping"])


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
    """Replicas a key: memory relative to that of KG."""
    return float(row["replicas"] / row["distinct_keys"])


def extreme(rows: Iterable[Row], measure: Callable[[Row], float], least: bool = False) -> str:
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


def number(value: float) -> str:
    """
    Example:
        >>> number(0.012345), number(1234567), number(12.3456), number(0)
        ('0.0123', '1,234,567', '12.3', '0')
    """
    if value == 0:
        return "0"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def over(rows: Rows, name: str, measure: Callable[[Row], float]) -> str:
    """A measure over a field of the grid, for each scheme: `KG 4.3, 8.8, 46 (n = 50, 100, 500)`."""
    parts = []
    for grouping in dict.fromkeys(row["grouping"] for row in rows):
        chosen = sorted(where(rows, grouping=grouping), key=lambda row: float(row[name]))
        parts.append(f"{symbol(chosen[0])} {', '.join(number(measure(row)) for row in chosen)}")
    points = ", ".join(f"{value:g}" for value in values(rows, name))
    return f"{'; '.join(parts)} (at {points})"


def rising(numbers: Sequence[float]) -> bool:
    """Is each above the one before it?

    Example:
        >>> rising([1, 2, 5]), rising([1, 1])
        (True, False)
    """
    return all(a < b for a, b in pairwise(numbers))


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


def day(rows: Rows, column: str) -> str:
    """Means over the stream, each scheme and arrival curve: `KG 772,828 (hourly)`."""
    return ", ".join(
        f"{symbol(row)} {number(mean_over(row, column))} ({row['arrivals']})" for row in rows
    )


def judged(held: Any, measured: str, test: str, why_not: str = "") -> Verdict:
    """A verdict with its test; it explains itself where the claim did not hold."""
    return Verdict(bool(held), f"{measured}. Test: {test}.", "" if held else why_not)
