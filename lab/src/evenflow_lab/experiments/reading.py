"""How claims read the rows of a figure: choosing them, comparing them, putting numbers into words.

What differs from paper to paper (thresholds, names, what a row means) is in the papers' folders.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise
from statistics import median
from typing import Any

from evenflow_lab.experiments.claims import UNKNOWN, Verdict
from evenflow_lab.experiments.seeds import FigureRows, Row
from evenflow_lab.experiments.seeds import number as number

Curve = Mapping[Any, float]  #: x → y
Average = Callable[[Sequence[float]], float]  #: over the seeds, such as the median


def where(rows: FigureRows, **fields: Any) -> list[Row]:
    """The rows with these values.

    Example:
        >>> where([{"workers": 5}, {"workers": 10}], workers=5)
        [{'workers': 5}]
    """
    return [row for row in rows if all(row.get(name) == want for name, want in fields.items())]


def values(rows: FigureRows, name: str) -> list[Any]:
    """The values of a field, each once, in ascending order.

    Example:
        >>> values([{"n": 9}, {"n": 3}, {"n": 9}, {"n": None}, {}], "n")
        [3, 9]
    """
    return sorted({row[name] for row in rows if row.get(name) is not None})


def each(rows: FigureRows, name: str, **fields: Any) -> list[float]:
    """The values of all seeds, in ascending order."""
    return sorted(float(row[name]) for row in where(rows, **fields))


def worst(rows: Iterable[Row], name: str) -> Row:
    """The row with the largest value."""
    return max(rows, key=lambda row: float(row[name]))


def typical(rows: FigureRows, name: str, average: Average = median, **fields: Any) -> float:
    """The median (or another average) over the rows with these values: over the seeds, if the rest is
    given.

    Example:
        >>> typical([{"z": 1, "d": 3}, {"z": 1, "d": 9}, {"z": 1, "d": 4}], "d", z=1)
        4.0
    """
    found = [row[name] for row in where(rows, **fields) if row.get(name) is not None]
    if not found:
        raise LookupError(f"no row with {name} and {fields}")
    return float(average(found))


def along(
    rows: FigureRows, x: str, y: str, average: Average = median, **fields: Any
) -> dict[Any, float]:
    """x → the typical y, by ascending x.

    Example:
        >>> along([{"w": 5, "c": 2.0}, {"w": 1, "c": 4.0}], "w", "c")
        {1: 4.0, 5: 2.0}
    """
    chosen = where(rows, **fields)
    return {value: typical(chosen, y, average, **{x: value}) for value in values(chosen, x)}


def pivot(
    rows: FigureRows, points: Sequence[str], series: str, value: str
) -> dict[tuple[Any, ...], dict[Any, float]]:
    """Point of the grid → series → value, the median of several (the seeds).

    Example:
        >>> pivot([{"n": 5, "grouping": "key", "load": 0.25}], ["n"], "grouping", "load")
        {(5,): {'key': 0.25}}
    """
    table: dict[tuple[Any, ...], dict[Any, list[float]]] = {}
    for row in rows:
        at = table.setdefault(tuple(row[name] for name in points), {})
        at.setdefault(row[series], []).append(row[value])
    return {
        at: {name: median(found) for name, found in by_series.items()}
        for at, by_series in table.items()
    }


def apart(rows: FigureRows, points: Sequence[str], value: str) -> float:
    """The largest difference between rows at one point of the grid: between the seeds.

    Example:
        >>> apart([{"n": 5, "load": 1.0}, {"n": 5, "load": 4.0}, {"n": 9, "load": 7.0}], ["n"], "load")
        3.0
    """
    found: dict[tuple[Any, ...], list[float]] = {}
    for row in rows:
        found.setdefault(tuple(row.get(name) for name in points), []).append(row[value])
    return max((max(values) - min(values) for values in found.values()), default=0.0)


def ratios(above: Curve, below: Curve) -> dict[Any, float]:
    """One curve over another, where both have a value and the lower one is not 0."""
    return {x: above[x] / below[x] for x in above if below.get(x)}


def percent_below(low: float, high: float) -> float:
    """By how many percent the first is below the second.

    Example:
        >>> percent_below(27.0, 100.0)
        73.0
    """
    return 100 * (1 - low / high) if high else 0.0


def rising(numbers: Sequence[float]) -> bool:
    """Is each above the one before it?

    Example:
        >>> rising([1, 2, 5]), rising([1, 1])
        (True, False)
    """
    return all(a < b for a, b in pairwise(numbers))


def rank_correlation(curve: Curve) -> float:
    """Spearman's, equal values sharing their ranks: 1 where y grows whenever x does.

    Example:
        >>> rank_correlation({1: 10, 2: 20, 3: 15}), rank_correlation({1: 5, 2: 5})
        (0.5, 0.0)
    """
    first, second = _ranks(list(curve)), _ranks(list(curve.values()))
    middle = (len(curve) + 1) / 2
    together = sum((a - middle) * (b - middle) for a, b in zip(first, second, strict=True))
    apart = sum((a - middle) ** 2 for a in first) * sum((b - middle) ** 2 for b in second)
    return round(together / apart**0.5, 12) if apart else 0.0


def _ranks(of: Sequence[float]) -> list[float]:
    return [sum(b < a for b in of) + (sum(b == a for b in of) + 1) / 2 for a in of]


def several(numbers: Sequence[float], unit: str = "") -> str:
    """Several numbers in words.

    Example:
        >>> several([1.0, 2.5], " %")
        '1 %, 2.5 %'
    """
    return ", ".join(f"{number(value)}{unit}" for value in numbers)


def listed(curve: Curve, unit: str = "") -> str:
    """A curve in words.

    Example:
        >>> listed({1: 4.0, 5000: 2.0}, " %")
        '1: 4 %, 5,000: 2 %'
    """
    return ", ".join(
        f"{x:,}: {number(y)}{unit}" if isinstance(x, int) else f"{x:g}: {number(y)}{unit}"
        for x, y in curve.items()
    )


def all_listed(curves: Mapping[Any, Curve], unit: str = "") -> str:
    """Several curves in words, each after its name.

    Example:
        >>> all_listed({"a": {1: 4.0}, "b": {1: 2.0}})
        'a 1: 4; b 1: 2'
    """
    return "; ".join(f"{name} {listed(curve, unit)}" for name, curve in curves.items())


def spanned(numbers: Mapping[str, float]) -> str:
    """The least and the largest of several numbers, with their names.

    Example:
        >>> spanned({"n = 5": 2.0, "n = 10": 0.5, "n = 20": 1.0})
        '0.5 (n = 10) … 2 (n = 5)'
    """
    low, high = (end(numbers, key=lambda name: numbers[name]) for end in (min, max))
    return f"{number(numbers[low])} ({low}) … {number(numbers[high])} ({high})"


def named(numbers: Mapping[str, float]) -> str:
    """Numbers after their names.

    Example:
        >>> named({"COR-GLB": 1.5, "LLF-GLB": 2})
        'COR-GLB 1.5, LLF-GLB 2'
    """
    return ", ".join(f"{name} {number(value)}" for name, value in numbers.items())


def judged(held: object, measured: str, held_if: str = "", why_not: str = "") -> Verdict:
    """A verdict that says by what it was judged, and explains itself where the claim did not hold.

    Example:
        >>> judged(1 < 2, "it is 1", "below 2")
        Verdict(held=True, measured='it is 1 (held if below 2).', why='')
    """
    why = why_not or UNKNOWN
    text = f"{measured} (held if {held_if})." if held_if else measured
    return Verdict(bool(held), text, "" if held else why)
