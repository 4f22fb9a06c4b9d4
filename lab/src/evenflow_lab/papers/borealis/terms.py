"""The paper's words as numbers, its names, and its averages."""

from __future__ import annotations

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
POSITIVE = 0.3  #: "large" average load correlation

COR_GLB, LLF_GLB, RAND_GLB, MINIMUM = "COR-GLB", "LLF-GLB", "RAND-GLB", "MINIMUM"
COR_BAL, LLF_BAL, RAND_BAL = "COR-BAL", "LLF-BAL", "RAND-BAL"
RE_IMP, SE_IMP = "COR-RE-IMP", "COR-SE-IMP"
LATENCY, DEVIATION, MOVED = "latency_ratio", "deviation", "load_moved"

# The paper gives averages over its runs (§5.1).
typical = partial(reading.typical, average=fmean)
along = partial(reading.along, average=fmean)


def curves(
    rows: FigureRows, x: str, y: str, *algorithms: str, **fields: Any
) -> list[dict[Any, float]]:
    """A curve for each of these algorithms."""
    return [along(rows, x, y, grouping=name, **fields) for name in algorithms]
