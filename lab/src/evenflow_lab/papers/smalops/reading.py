"""How the claims read rows: choosing them, comparing them, and the words for what was measured.

What the paper leaves open, and what was taken for it:

- *Partitions*: 20. Four servers of 20 cores each is all that is said. With fewer, hashing is more even;
  with more, the heaviest key is a larger part of a partition. The figure `load` has 4, 8, 20 and 50.
- *Rate*: by "50 [µs] processing time/message was just before the system is overloaded (tail latencies
  become really long)". A system is overloaded once its busiest partition is, so the rate is that at
  which this partition is 98 % busy under key hashing and 50 µs. Between 10 and 50 µs the rate stays.
  `load` shows what comes of 50 to 105 %.
- *Counting window*: 10 s, as long as the decision interval, which is given. `times` has others.
- *Hot*: 100 messages in a window, as in the paper's long run. Under the dynamic load, at 20 ms a
  message, a window has 5000 messages only; there a thousandth of them makes a key hot.
- *Threshold of Figure 9*, "flows that account for 10 % or more of the messages received": no key of
  its generator has more than 4.5 %, and "keeping this threshold as low as possible allows us to keep
  the number of keys being tracked lower", so it must be the share that the heaviest keys have
  together. Both readings are run; claims are judged by this one.
- *Dynamic load*: by how many keys the generator is shifted is not said. "A few new streams are
  introduced … a few streams stop altogether" is a small shift (10); the 14 K hot keys of the long run
  need one of about 1000 a minute. Both are run. The load is half of what consumers could do if it were
  even, so that hashing is near its limit in some minutes and not in others.
- *ms and µs*: §III-B has 50 µs and 50 ms for the same experiment, and 20 ms for Figure 10. Taken as
  50 µs and 20 ms; in the simulator only the relation of service time and rate matters, and that of
  both to the 10 s of the interval.
- *Hand-over*: 5 ms from "done" to the new consumer; what the paper's took is not said. `times` has a
  second.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

from evenflow_lab.experiments import Verdict

Rows = Sequence[Any]

# The paper's words as numbers, where it gives none itself.
SAME = 1.10  #: "indistinguishable", "nearly identical", "no significant impact": within a tenth
ABOUT = 1.25  #: "~", "no more than … or so": within a quarter
SHARPLY = 1.5  #: "drops sharply", "significantly improve", "degrades": a factor of 1.5
GROWS = 0.8  #: the rank correlation from which on something "keeps increasing"

KEY, SMALOPS, SHUFFLE = "key", "smalops", "shuffle"


def where(rows: Rows, **fields: Any) -> list[Any]:
    """The rows with these values.

    Example:
        >>> where([{"partitions": 5}, {"partitions": 10}], partitions=5)
        [{'partitions': 5}]
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


def each(rows: Rows, name: str, **fields: Any) -> list[float]:
    """The values of all seeds, in ascending order."""
    return sorted(float(row[name]) for row in where(rows, **fields))


def below(low: float, high: float) -> float:
    """By how many percent the first is below the second.

    Example:
        >>> below(27.0, 100.0)
        73.0
    """
    return 100 * (1 - low / high) if high else 0.0


def number(value: float) -> str:
    """Three digits.

    Example:
        >>> number(0.012345), number(1234.5), number(2.0)
        ('0.0123', '1,234', '2')
    """
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def several(numbers: Sequence[float], unit: str = "") -> str:
    """Several numbers in words.

    Example:
        >>> several([1.0, 2.5], " %")
        '1 %, 2.5 %'
    """
    return ", ".join(f"{number(value)}{unit}" for value in numbers)


def listed(curve: Mapping[Any, float], unit: str = "") -> str:
    """A curve in words.

    Example:
        >>> listed({10: 4.0, 50: 2.0}, " %")
        '10: 4 %, 50: 2 %'
    """
    return ", ".join(f"{x:g}: {number(y)}{unit}" for x, y in curve.items())


def rank_correlation(curve: Mapping[float, float]) -> float:
    """Spearman's, without ties: 1 where y grows whenever x does.

    Example:
        >>> rank_correlation({1: 10.0, 2: 20.0, 3: 15.0})
        0.5
    """
    xs, ys = list(curve), list(curve.values())
    n = len(xs)
    apart = sum(
        (sorted(xs).index(x) - sorted(ys).index(y)) ** 2 for x, y in zip(xs, ys, strict=True)
    )
    return 1 - 6 * apart / (n * (n * n - 1)) if n > 1 else 0.0


def judged(held: Any, measured: str, held_if: str, why_not: str = "") -> Verdict:
    """A verdict that says by what it was judged, and explains itself where the claim did not hold."""
    why = why_not or "No reason is known; the numbers say how far off it is."
    return Verdict(bool(held), f"{measured} (held if {held_if}).", "" if held else why)
