"""How the claims read rows: choosing them, comparing them, and the words for what was measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

from evenflow_lab.experiments import Verdict

Rows = Sequence[Any]

# The paper's words as numbers, where it gives none itself.
THETA = 0.08  #: the default θmax, Table II
ALIKE = 1.10  #: "the same size", "stable": within a tenth
ABOUT = 1.25  #: "almost", "around", "similarly", "catches", "acts as": within a quarter
MUCH = 1.5  #: "much lower", "much larger", "jumps"; "a little" is less than that
GREATLY = 2.0  #: "by a large margin", "decreases greatly", "drastically", "a poor option"
MAGNITUDE = 10.0  #: "by an order of magnitude"
GROWS = 0.8  #: the rank correlation from which on something "grows"

MIXED, MIN_TABLE, MIN_MIG, BRUTE_FORCE, READJ = "mixed", "min-table", "min-mig", "mixed-bf", "readj"
TIME, COST, TABLE = "generation_ms", "migration_cost", "table_size"


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
    """The median over the rows with these values: over the seeds, if the rest is given.

    Example:
        >>> typical([{"z": 1, "d": 3}, {"z": 1, "d": 9}, {"z": 1, "d": 4}], "d", z=1)
        4.0
    """
    found = [row[name] for row in where(rows, **fields) if row.get(name) is not None]
    if not found:
        raise LookupError(f"no row with {name} and {fields}")
    return float(median(found))


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


def grows(curve: Mapping[Any, float]) -> float:
    """The rank correlation of a curve with its x.

    Example:
        >>> grows({1: 10.0, 2: 20.0, 3: 15.0})
        0.5
    """
    return rank_correlation(list(curve.items()))


def rank_correlation(pairs: Sequence[tuple[float, float]]) -> float:
    """Spearman's, equal values sharing their ranks: 1 where the second grows whenever the first does.

    Example:
        >>> rank_correlation([(1, 10), (2, 20), (3, 15)]), rank_correlation([(1, 5), (2, 5)])
        (0.5, 0.0)
    """
    first, second = _ranks([a for a, _ in pairs]), _ranks([b for _, b in pairs])
    middle = (len(pairs) + 1) / 2
    together = sum((a - middle) * (b - middle) for a, b in zip(first, second, strict=True))
    apart = sum((a - middle) ** 2 for a in first) * sum((b - middle) ** 2 for b in second)
    return round(together / apart**0.5, 12) if apart else 0.0


def _ranks(of: Sequence[float]) -> list[float]:
    return [sum(b < a for b in of) + (sum(b == a for b in of) + 1) / 2 for a in of]


def judged(held: Any, measured: str, held_if: str, why_not: str = "") -> Verdict:
    """A verdict that says by what it was judged, and explains itself where the claim did not hold."""
    why = why_not or "No reason is known; the numbers say how far off it is."
    return Verdict(bool(held), f"{measured} (held if {held_if}).", "" if held else why)
