"""How good is the d that d-choices picks? `python -m evenflow_lab.benchmarks.choices [--json] [--messages N]`

For n = 50 and 100 workers and skews z = 0.1 … 2.0 (10 000 keys, 5 sources): the d that d-choices has
at the end, beside the smallest d, found by trying all, with which hot keys reach the balance of
w-choices. "Reach" is an imbalance of at most s·ε above that of w-choices: the s·ε that d-choices aims
at. Figure 9 of "When two choices are not enough", as a table; the work is done by the paper's
`smallest_choices` in papers/two_choices_not_enough/analysis.py.
"""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any

import numpy as np

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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--messages", type=int, default=1_000_000)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    rows = []
    if not arguments.json:
        print("workers  skew  formula  picked  smallest  imbalance      goal")
    for n in (50, 100):
        for z in np.arange(1, 21) / 10:
            rows.append(row(n, float(z), arguments.messages))
            if not arguments.json:
                print(
                    "{workers:7} {zipf:5.1f} {formula:8} {picked:7} {smallest:9} "
                    "{imbalance:10.1e} {imbalance_goal:9.1e}".format(**rows[-1]),
                    flush=True,
                )
    if arguments.json:
        json.dump(rows, sys.stdout, indent=1)


if __name__ == "__main__":
    main()
