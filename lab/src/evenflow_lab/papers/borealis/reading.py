"""How the claims read rows: choosing them, comparing them, and the words for what was measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

from evenflow_lab.experiments import Verdict

Rows = Sequence[Any]

# The paper's words as numbers, where it gives none itself.
ALIKE = (
    1.25  #: "almost the same", "does not matter", "very close", "almost as good": within a quarter
)
MUCH = 1.5  #: "much better", "much smaller", "much worse", "much more"
SENSITIVE = 2.0  #: largest over smallest from which on something "is sensitive" or "performs badly"
ZERO = 0.1  #: "around zero" for a correlation
POSITIVE = 0.3  #: "large" average load correlation

COR_GLB, LLF_GLB, RAND_GLB, MINIMUM = "COR-GLB", "LLF-GLB", "RAND-GLB", "MINIMUM"
COR_BAL, LLF_BAL, RAND_BAL = "COR-BAL", "LLF-BAL", "RAND-BAL"
RE_IMP, SE_IMP = "COR-RE-IMP", "COR-SE-IMP"
LATENCY, DEVIATION, MOVED = "latency_ratio", "deviation", "load_moved"


def where(rows: Rows, **fields: Any) -> list[Any]:
    """The rows with these values.

    Example:
        >>> where([{"workers": 5}, {"workers": 10}], workers=5)
        [{'workers': 5}]
    """
    return [row for row in rows if all(row.get(name) == want for name, want in fields.items())]


def values(rows: Rows, name: str) -> list[Any]:
    """The values of a field, each once, in ascending order."""
    return sorted({row[name] for row in rows if row.get(name) is not None})


def typical(rows: Rows, name: str, **fields: Any) -> float:
    """The average over the rows with these values: over the seeds, if the rest is given.

    Example:
        >>> typical([{"z": 1, "d": 3}, {"z": 1, "d": 9}, {"z": 1, "d": 3}], "d", z=1)
        5.0
    """
    found = [row[name] for row in where(rows, **fields) if row.get(name) is not None]
    if not found:
        raise LookupError(f"no row with {name} and {fields}")
    return fmean(found)


def along(rows: Rows, x: str, y: str, **fields: Any) -> dict[Any, float]:
    """x → the typical y, by ascending x.

    Example:
        >>> along([{"w": 5, "c": 2.0}, {"w": 1, "c": 4.0}], "w", "c")
        {1: 4.0, 5: 2.0}
    """
    chosen = where(rows, **fields)
    return {value: typical(chosen, y, **{x: value}) for value in values(chosen, x)}


def number(value: float) -> str:
    """Three digits.

    Example:
        >>> number(0.012345), number(1234.5), number(2.0)
        ('0.0123', '1,234', '2')
    """
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def listed(curve: Mapping[Any, float], unit: str = "") -> str:
    """A curve in words.

    Example:
        >>> listed({1: 4.0, 5: 2.0}, " %")
        '1: 4 %, 5: 2 %'
    """
    return ", ".join(
        f"{x:,}: {number(y)}{unit}" if isinstance(x, int) else f"{x:g}: {number(y)}{unit}"
        for x, y in curve.items()
    )


def ratios(above: Mapping[Any, float], below: Mapping[Any, float]) -> dict[Any, float]:
    """One curve over another, where both have a value and the lower one is not 0."""
    return {x: above[x] / below[x] for x in above if below.get(x)}


def curves(rows: Rows, x: str, y: str, *algorithms: str, **fields: Any) -> list[dict[Any, float]]:
    """A curve for each of these algorithms."""
    return [along(rows, x, y, grouping=name, **fields) for name in algorithms]


def judged(held: Any, measured: str, held_if: str, why_not: str = "") -> Verdict:
    """A verdict that says by what it was judged, and explains itself where the claim did not hold."""
    why = why_not or "No reason is known; the numbers say how far off it is."
    return Verdict(bool(held), f"{measured} (held if {held_if}).", "" if held else why)
