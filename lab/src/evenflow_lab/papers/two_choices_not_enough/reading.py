"""How the claims read rows: choosing them, and the words for what was measured."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from statistics import median
from typing import Any

from evenflow_lab.experiments import Verdict

Rows = Sequence[Any]

# The paper's own words for small imbalances, from which every threshold is taken that it does not
# give itself.
LOW = 1e-3  #: "very low imbalance (smaller than 0.1 %)", §I
IDEAL = 1e-4  #: ε, the imbalance that the paper tolerates of a source, Table III
S_EPSILON = 5e-4  #: what is to be expected of D-C in the worst case, §V-B
MAGNITUDE = 10  #: what is told apart on the paper's logarithmic axes

PKG, D_C, W_C, RR = "partial-key", "d-choices", "w-choices", "round-robin-head"
SYMBOLS = {PKG: "PKG", D_C: "D-C", W_C: "W-C", RR: "RR"}


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
    found = [row[name] for row in where(rows, **fields)]
    if not found:
        raise LookupError(f"no row with {fields}")
    return float(median(found))


def worst(rows: Iterable[Any], name: str) -> Any:
    """The row with the largest value."""
    return max(rows, key=lambda row: row[name])


def stream(row: Any) -> str:
    """The stream as the paper calls it.

    Example:
        >>> stream({"workload_name": "flights", "key": "route"}), stream({"workload_name": "wp"})
        ('flights by route', 'WP')
    """
    name = row["workload_name"]
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


def over(rows: Rows, name: str, column: str, **fields: Any) -> str:
    """The values of a column over those of a field: `5: 0.1 %, 10: 0.2 %`."""
    chosen = where(rows, **fields)
    return ", ".join(
        f"{value}: {percent(typical(chosen, column, **{name: value}))}"
        for value in values(chosen, name)
    )


# Verified for two such runs: WP with seed 1 on 50 workers gives the top key 4 different workers among
# its d = 7, and it needs 4.66; Zipf with z = 1.2 gives it 9 among 12, and it needs 9.48.
COLLISIONS = (
    "Proposition 4.1 counts the workers that d hashes reach on average. Where the top key's hashes "
    "collide more often than that, its workers are fewer than it needs, whatever the others have."
)


def judged(held: Any, measured: str, why_not: str = "") -> Verdict:
    """A verdict that explains itself where the claim did not hold."""
    why = why_not or "No reason is known; the numbers say how far off it is."
    return Verdict(bool(held), measured, "" if held else why)


def rank_correlation(pairs: Sequence[tuple[float, float]]) -> float:
    """Spearman's, without ties: 1 where the second grows whenever the first does.

    Example:
        >>> rank_correlation([(1, 10), (2, 20), (3, 15)])
        0.5
    """
    n = len(pairs)
    if n < 2:
        return 1.0
    first = sorted(range(n), key=lambda i: pairs[i][0])
    second = {i: rank for rank, i in enumerate(sorted(range(n), key=lambda i: pairs[i][1]))}
    return 1 - 6 * sum((rank - second[i]) ** 2 for rank, i in enumerate(first)) / (n * (n**2 - 1))
