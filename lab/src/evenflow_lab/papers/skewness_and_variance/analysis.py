"""The runs behind the figures: planners over the intervals of the paper's own generator.

Each function is given the figure's parameters and the fields of its grid, and returns rows. Costs are
messages, states are messages of the last w intervals. `generation_ms` is the median processor time of
the planner alone, on the machine that ran it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from evenflow.planning.protocol import Constraints
from evenflow_lab.simulators.replanning import Replanned, hashed_loads, replan
from evenflow_lab.workloads import Fluctuating

Row = dict[str, Any]


def hashed(
    setting: Mapping[str, Any],
    per_key: int,
    zipf: float,
    fluctuation: float,
    intervals: int,
    seed: int,
) -> list[Row]:
    """Figure 7: each worker's average load over the intervals, by hash alone, least first.

    Parameters:
        setting: `workers` and `keys`, and in `varied` the name of the one that the panel varies.
        per_key: messages of an interval, for each key on average.
    """
    workers, keys = setting["workers"], setting["keys"]
    loads = hashed_loads(_stream(workers, keys, per_key, zipf, fluctuation, seed), intervals)
    average = np.sort(loads.mean(axis=0))
    by_workers = setting["varied"] == "workers"
    common = {
        "panel": "number of workers" if by_workers else "number of keys",
        "setting": f"{workers} workers" if by_workers else f"{keys:,} keys",
        "varied": setting["varied"],
        "workers": workers,
        "keys": keys,
        "largest": average[-1],
        "largest_over_smallest": average[-1] / average[0],
        "skewness": loads.max(axis=1).mean(),
        "largest_over_smallest_each": (loads.max(axis=1) / loads.min(axis=1)).mean(),
    }
    return [
        {**common, "percentile": 100 * (i + 1) / workers, "load": load}
        for i, load in enumerate(average)
    ]


def replanned(
    planner: str,
    workers: int,
    keys: int,
    per_key: int,
    zipf: float,
    fluctuation: float,
    theta: float,
    table_limit: int,
    window: int,
    intervals: int,
    seed: int,
    beta: float = 1.5,
) -> Row:
    """Figures 8 to 10, 12, 17 and 19 to 21: a planner over some intervals, in one row.

    Parameters:
        planner: its name alone, `mixed-literal` for Algorithm 4 as printed; β comes on its own, for
            those that have one.
    """
    spec = {
        "mixed-literal": f"mixed:literal=1,beta={beta}",
        "mixed": f"mixed:beta={beta}",
        "mixed-bf": f"mixed-bf:beta={beta}",
        "min-mig": f"min-mig:beta={beta}",
    }.get(planner, planner)
    run = replan(
        spec,
        _stream(workers, keys, per_key, zipf, fluctuation, seed),
        Constraints(workers, theta, table_limit),
        window,
        intervals,
    )
    symbol = run.symbol + ("" if planner != "mixed-literal" else " as printed")
    return {"grouping": planner, "symbol": symbol, **run.to_dict()}


def discretized(
    degrees: Sequence[int],
    workers: int,
    keys: int,
    per_key: int,
    zipf: float,
    fluctuation: float,
    theta: float,
    table_limit: int,
    window: int,
    intervals: int,
    seed: int,
) -> list[Row]:
    """Figure 11: Mixed on vectors for each degree R, beside Mixed on the keys themselves.

    All in one run, one after another: times are compared, and must come from the same machine at the
    same hour.
    """

    def run(planner: str) -> Replanned:
        stream = _stream(workers, keys, per_key, zipf, fluctuation, seed)
        return replan(planner, stream, Constraints(workers, theta, table_limit), window, intervals)

    original = run("mixed").to_dict()
    rows = []
    for degree in degrees:
        found = run(f"compact-mixed:degree={degree}")
        figures = found.to_dict()
        rows.append(
            {
                "degree": degree,
                "grouping": "compact-mixed",
                "symbol": found.symbol,
                **figures,
                "vectors": float(np.mean([one.details["vectors"] for one in found.plans])),
                "original_ms": original["generation_ms"],
                "original_migration_cost": original["migration_cost"],
                "times_faster": original["generation_ms"] / figures["generation_ms"],
            }
        )
    return rows


def growing_table(
    theta: float,
    workers: int,
    keys: int,
    per_key: int,
    zipf: float,
    fluctuation: float,
    window: int,
    plans: int,
    seed: int,
) -> list[Row]:
    """Figure 18: the routing table of MinMig after 1, 2, 4, … plans.

    Ends after four times as many intervals, should θmax ask for a plan in fewer than every fourth.
    """
    run = replan(
        "min-mig",
        _stream(workers, keys, per_key, zipf, fluctuation, seed),
        Constraints(workers, theta, table_limit=keys),
        window,
        intervals=4 * plans,
        plans=plans,
    )
    sizes = [one.table_size for one in run.plans]
    powers = [2**i for i in range(len(sizes).bit_length())]
    return [
        {
            "adjustments": power,
            "table_size": sizes[power - 1],
            "limit": (workers - 1) / workers * keys,
            "grouping": "min-mig",
            "symbol": run.symbol,
        }
        for power in powers
        if power <= len(sizes)
    ]


def _stream(
    workers: int, keys: int, per_key: int, zipf: float, fluctuation: float, seed: int
) -> Fluctuating:
    interval = per_key * keys
    return Fluctuating(zipf, keys, fluctuation, interval, workers, interval, seed)
