"""How good is the d that d-choices picks?

For n = 50 and 100 workers and skews z = 0.1 … 2.0 (10 000 keys, 5 sources): the d that d-choices has
at the end, beside the smallest d, found by trying all, with which hot keys reach the balance of
w-choices. "Reach" is an imbalance of at most s·ε above that of w-choices: the s·ε that d-choices aims
at. Figure 9 of "When two choices are not enough", as a table; the work is done by the paper's
`smallest_choices` in papers/two_choices_not_enough/analysis.py.
"""

from __future__ import annotations

from typing import Annotated, Any

from evenflow_lab.benchmarks.outcome import Progress, Result, Table, say_nothing
from evenflow_lab.experiments import run_cell

SOURCES, KEYS, EPSILON = 5, 10_000, 1e-4


def row(n: int, z: float, messages: int) -> dict[str, Any]:
    """One line of the table."""
    parameters = {
        "workers": n,
        "zipf": z,
        "keys": KEYS,
        "messages": messages,
        "epsilon": EPSILON,
        "sources": SOURCES,
        "seed": 1,
    }
    [found] = run_cell(
        {
            "kind": "analysis",
            "paper": "two_choices_not_enough",
            "function": "smallest_choices",
            "parameters": parameters,
        }
    )
    return found


def run(
    messages: Annotated[int, "Length of each stream."] = 1_000_000,
    progress: Progress = say_nothing,
) -> Result:
    points = [(n, z / 10) for n in (50, 100) for z in range(1, 21)]
    rows = []
    for done, (n, z) in enumerate(points):
        progress(f"{n} workers, z = {z}", done, len(points))
        rows.append(row(n, z, messages))
    shown = [
        {
            **{name: found[name] for name in ("workers", "zipf", "formula", "picked", "smallest")},
            "imbalance": f"{found['imbalance']:.1e}",
            "goal": f"{found['imbalance_goal']:.1e}",
        }
        for found in rows
    ]
    return Result(rows, (Table(shown),))
