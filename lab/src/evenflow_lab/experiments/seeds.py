"""What is measured once per seed, and how it is judged: by the median, with the spread beside it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from statistics import median
from typing import Any, NamedTuple

from evenflow.model import InputError

Row = Mapping[str, Any]
FigureRows = Sequence[Row]
Rows = Mapping[str, FigureRows]  #: figure id → its rows


def number(value: float) -> str:
    """Three digits.

    Example:
        >>> number(0.012345), number(1234.5), number(2.0), number(0)
        ('0.0123', '1,234', '2', '0')
    """
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


@dataclass(frozen=True)
class Threshold:
    """Where a measured figure must lie for its claim to hold. It is declared with the claim, before a
    run.

    Parameters:
        figure: what is measured, in words: `latency of LLF-GLB over that of COR-GLB`.
        least, most: the ends of the band, both within it.
        unit: stands behind the numbers.

    Example:
        >>> band = Threshold("correlation", 0.55, 0.75)
        >>> band.holds(0.6), band.holds(0.8), str(band)
        (True, False, 'from 0.55 to 0.75')
        >>> str(Threshold("ratio", least=1.5)), str(Threshold("time", most=6, unit=" ms"))
        ('at least 1.5', 'at most 6 ms')
    """

    figure: str
    least: float = -inf
    most: float = inf
    unit: str = ""

    def __post_init__(self) -> None:
        if self.least == -inf and self.most == inf:
            raise InputError(
                f"the threshold of {self.figure!r} has no end; give least, most or both"
            )
        if self.least > self.most:
            raise InputError(
                f"the threshold of {self.figure!r} is empty: {self.least} > {self.most}"
            )

    def holds(self, value: float) -> bool:
        """Whether the value is in the band."""
        return bool(self.least <= value <= self.most)

    def __str__(self) -> str:
        least, most = number(self.least), number(self.most)
        if self.least == -inf:
            return f"at most {most}{self.unit}"
        if self.most == inf:
            return f"at least {least}{self.unit}"
        return f"from {least} to {most}{self.unit}"


@dataclass(frozen=True)
class Measured:
    """What the function of a claim with a threshold returns.

    Parameters:
        value: the figure that the threshold is about.
        words: further numbers, in a sentence.
        why: the reason, should the claim not hold.
    """

    value: float
    words: str = ""
    why: str = ""


class Spread(NamedTuple):
    """The median over the seeds, and how far they lie apart.

    Example:
        >>> Spread.of([2.0, 1.0, 4.0]).words(" ms"), Spread.of([2.0]).words()
        ('2 ms (1 … 4 over 3 seeds)', '2')
    """

    median: float
    least: float
    most: float
    seeds: int

    @classmethod
    def of(cls, values: Iterable[float]) -> Spread:
        found = list(values)
        return cls(median(found), min(found), max(found), len(found))

    def words(self, unit: str = "") -> str:
        """The numbers, with a unit."""
        typical = f"{number(self.median)}{unit}"
        if self.seeds == 1:
            return typical
        return f"{typical} ({number(self.least)} … {number(self.most)} over {self.seeds} seeds)"


def by_seed(rows: Rows) -> dict[Any, Rows]:
    """Seed → the rows of that seed alone. Figures whose rows have no seed are in all of them.

    Only seeds that all of the figures have; none at all where no figure has seeds.

    Example:
        >>> split = by_seed({"a": [{"seed": 1, "x": 5}, {"seed": 2, "x": 6}], "b": [{"y": 7}]})
        >>> split[2]
        {'a': [{'seed': 2, 'x': 6}], 'b': [{'y': 7}]}
    """
    seeds: list[set[Any]] = [
        {row["seed"] for row in of_figure if row.get("seed") is not None}
        for of_figure in rows.values()
    ]
    seeded = [of_figure for of_figure in seeds if of_figure]
    common = set.intersection(*seeded) if seeded else set()
    return {
        seed: {
            figure: [row for row in of_figure if row.get("seed") in (None, seed)]
            for figure, of_figure in rows.items()
        }
        for seed in sorted(common)
    }
