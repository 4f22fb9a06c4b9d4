"""The paper's words as numbers, its names for schemes and streams, and its percentages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from evenflow_lab.experiments import FigureRows, Verdict, reading
from evenflow_lab.experiments.claims import Row

# The paper's own words for small imbalances, from which every threshold is taken that it does not
# give itself.
LOW = 1e-3  #: "very low imbalance (smaller than 0.1 %)", §I
IDEAL = 1e-4  #: ε, the imbalance that the paper tolerates of a source, Table III
S_EPSILON = 5e-4  #: what is to be expected of D-C in the worst case, §V-B
MAGNITUDE = 10  #: what is told apart on the paper's logarithmic axes


def floored(imbalance: float) -> float:
    """An imbalance below ε counts as ε: what is smaller is chance, and the paper tolerates it.

    Wherever two imbalances are compared, both are floored.

    Example:
        >>> floored(2e-6), floored(0.01)
        (0.0001, 0.01)
    """
    return max(imbalance, IDEAL)


PKG, D_C, W_C, RR = "partial-key", "d-choices", "w-choices", "round-robin-head"
SYMBOLS = {PKG: "PKG", D_C: "D-C", W_C: "W-C", RR: "RR"}

# Verified for two such runs, of our form: WP with seed 1 on 50 workers gives the top key 4 different
# workers among its d = 7, and it needs 4.66; Zipf with z = 1.2 gives it 9 among 12, and it needs 9.48.
COLLISIONS = (
    "Proposition 4.1 counts the workers that d hashes reach on average. Where the top key's hashes "
    "collide more often than that, its workers are fewer than it needs, whatever the others have."
)


def stream(row: Row) -> str:
    """The stream as the paper calls it.

    Example:
        >>> stream({"workload_name": "flights", "key": "route"}), stream({"workload_name": "wp"})
        ('flights by route', 'WP')
    """
    name = str(row["workload_name"])
    return f"flights by {row['key']}" if name == "flights" else name.upper()


def percent(share: float) -> str:
    """A share as a percentage of three digits.

    Example:
        >>> percent(0.03661), percent(0.000012), percent(3e-8), percent(0)
        ('3.66 %', '0.0012 %', '<0.0001 %', '0 %')
    """
    if share == 0:
        return "0 %"
    return f"{100 * share:.3g} %" if abs(share) >= 9.9e-7 else "<0.0001 %"


def over(rows: FigureRows, name: str, column: str, **fields: Any) -> str:
    """The values of a column over those of a field: `5: 0.1 %, 10: 0.2 %`."""
    chosen = reading.where(rows, **fields)
    return ", ".join(
        f"{value}: {percent(reading.typical(chosen, column, **{name: value}))}"
        for value in reading.values(chosen, name)
    )


def seeds(rows: FigureRows, points: Sequence[str], column: str) -> str:
    """`3 seeds, at most 0.02 % apart`: how far the runs of one setting differ.

    Example:
        >>> seeds([{"n": 5, "seed": 1, "i": 0.1}, {"n": 5, "seed": 2, "i": 0.3}], ["n"], "i")
        '2 seeds, at most 20 % apart in a setting'
    """
    count = len(reading.values(rows, "seed")) or 1
    apart = percent(reading.apart(rows, ("grouping", *points), column))
    return f"{count} seeds, at most {apart} apart in a setting" if count > 1 else "1 seed"


def judged(held: object, measured: str, why_not: str = "") -> Verdict:
    """A verdict whose `measured` says itself by what it was judged."""
    return reading.judged(held, measured, why_not=why_not)
