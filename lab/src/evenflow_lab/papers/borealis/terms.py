"""The paper's words as numbers, its names, and its averages."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from statistics import fmean
from typing import Any

from evenflow_lab.experiments import FigureRows, reading

# The paper's words as numbers, where it gives none itself.
#: "almost the same", "does not matter", "very close", "almost as good": within a quarter
ALIKE = 1.25
MUCH = 1.5  #: "much better", "much smaller", "much worse", "much more"
SENSITIVE = 2.0  #: largest over smallest from which on something "is sensitive" or "performs badly"
ZERO = 0.1  #: "around zero" for a correlation
#: From one tuple in a hundred left behind on, queues grow without bound. Latencies are then as long as
#: the run, and algorithms are compared by whether their queues grow.
GROWS = 0.01

COR_GLB, LLF_GLB, RAND_GLB, MINIMUM = "COR-GLB", "LLF-GLB", "RAND-GLB", "MINIMUM"
COR_BAL, LLF_BAL, RAND_BAL = "COR-BAL", "LLF-BAL", "RAND-BAL"
RE_IMP, SE_IMP = "COR-RE-IMP", "COR-SE-IMP"
LATENCY, DEVIATION, MOVED = "latency_ratio", "deviation", "load_moved"

# The paper gives averages over its runs (§5.1).
typical = partial(reading.typical, average=fmean)
along = partial(reading.along, average=fmean)


def stability(rows: FigureRows, *algorithms: str) -> tuple[dict[str, dict[Any, float]], str]:
    """For each of these algorithms, at each level, the share of the runs whose queues do not grow; and
    in words, of the levels at which some do."""
    shares = {
        name: {
            level: fmean(
                float(row["growth"] <= GROWS)
                for row in reading.where(rows, grouping=name, level=level)
            )
            for level in reading.values(reading.where(rows, grouping=name), "level")
        }
        for name in algorithms
    }
    growing = {
        name: {level: 100 * (1 - share) for level, share in of_name.items() if share < 1}
        for name, of_name in shares.items()
    }
    named = [f"{name} {reading.listed(c, ' %')}" for name, c in growing.items() if c]
    highest = max(level for of_name in shares.values() for level in of_name)
    left = {name: 100 * typical(rows, "growth", grouping=name, level=highest) for name in shares}
    return shares, (
        f"runs whose queues grow, by level: {'; '.join(named) or 'none'}; tuples left behind of a "
        f"hundred at {highest:g}: {reading.named(left)}"
    )


def better(
    rows: FigureRows, ours: str, rivals: Sequence[str], least: float, from_level: float = 0.0
) -> tuple[bool, str]:
    """Whether the latency ratio of every rival is at least so many times ours at every level from one
    on, as far as latencies mean something; and the numbers.

    Where our queues do not grow in most runs, latencies decide: a rival's whose own queues grow is then
    at least what was measured. Where ours grow and a rival's do not, it is worse. Where both grow, the
    level decides nothing.
    """
    stable, words = stability(rows, ours, *rivals)
    [own] = curves(rows, "level", LATENCY, ours)
    over = {
        name: reading.ratios(along(rows, "level", LATENCY, grouping=name), own) for name in rivals
    }

    def fine(name: str, level: float) -> bool:
        if stable[ours][level] > 0.5:
            return over[name][level] >= least
        return stable[name][level] <= 0.5

    held = all(fine(name, level) for name in rivals for level in over[name] if level >= from_level)
    return held, f"latency ratio over that of {ours}, by level: {reading.all_listed(over)}; {words}"


LATENCY_RULE = (
    "at the levels at which its own queues do not grow; where they do, the rival's do, too"
)


def curves(
    rows: FigureRows, x: str, y: str, *algorithms: str, **fields: Any
) -> list[dict[Any, float]]:
    """A curve for each of these algorithms."""
    return [along(rows, x, y, grouping=name, **fields) for name in algorithms]
