"""How near does placement come to the best plan?

On small random instances all plans are tried. The optimum is the least average load variance of the
plans whose most loaded node has no more load than that of the algorithm's own plan: balance is first,
and a plan that is less balanced may vary less. Theorem 1's bound, var X / n², stands beside it.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count, islice, product
from typing import Annotated, Any

import numpy as np

from evenflow.placement import make_placer
from evenflow.placement.protocol import Nodes, Observed, least_variance
from evenflow_lab.benchmarks.outcome import Progress, Result, Table, say_nothing

ALGORITHMS = ("cor-glb", "llf-glb", "rand-glb")
SIZES = ((2, 12), (3, 10), (4, 9))  #: nodes and operators


def random_instances(seed: int = 1) -> Iterator[tuple[Observed, Nodes]]:
    """Chains of two or three operators whose inputs burst at random offsets, with noise; endless."""
    random = np.random.default_rng(seed)
    for i in count():
        n, rows = SIZES[i % len(SIZES)]
        k = 10
        length = int(random.integers(2, 4))
        chains = -(-rows // length)
        phase = (np.arange(k) / k + random.uniform(size=(chains, 1))) % 1.0
        rates = np.where(phase < 0.5, 1.6, 0.4) * random.uniform(0.8, 1.2, (chains, 1))
        rates *= np.clip(random.normal(1.0, 0.1, (chains, k)), 0.5, None)
        gains = np.cumprod(random.uniform(0.8, 1.2, (chains, length)), axis=1)
        series = (rates[:, None, :] * gains[:, :, None]).reshape(-1, k)[:rows]
        yield Observed.of(series * 0.8 * n / series.mean(axis=1).sum()), Nodes(n)


def all_plans(observed: Observed, nodes: Nodes) -> tuple[np.ndarray, np.ndarray]:
    """The largest load of a node and the average load variance of every plan."""
    rows, n = len(observed), nodes.count
    # Nodes are alike, so the first operator can be on node 0.
    where = np.array([(0, *rest) for rest in product(range(n), repeat=rows - 1)], np.int8)
    largest, variance = np.zeros(len(where)), np.zeros(len(where))
    for node in range(n):
        total = (where == node) @ observed.series
        np.maximum(largest, total.mean(axis=1), out=largest)
        variance += total.var(axis=1) / n
    return largest, variance


def measure(instances: int, seed: int = 1) -> list[dict[str, Any]]:
    """One row per algorithm: its average load variance over the optimum, and over the bound."""
    over: dict[str, list[float]] = {name: [] for name in ALGORITHMS}
    bound: dict[str, list[float]] = {name: [] for name in ALGORITHMS}
    for observed, nodes in islice(random_instances(seed), instances):
        largest, variance = all_plans(observed, nodes)
        least = least_variance(observed.series, nodes.count)
        for name in ALGORITHMS:
            found = make_placer(name).propose(observed, nodes)
            as_balanced = largest <= found.loads().max() * (1 + 1e-9)
            own = float(found.variances().mean())
            over[name].append(own / float(variance[as_balanced].min()))
            bound[name].append(float(variance[as_balanced].min()) / least)
    return [
        {
            "algorithm": name,
            "instances": instances,
            "optimal": float(np.mean(np.array(over[name]) < 1 + 1e-9)),
            "median": float(np.median(over[name])),
            "mean": float(np.mean(over[name])),
            "worst": float(np.max(over[name])),
            "optimum_over_bound": float(np.median(bound[name])),
        }
        for name in ALGORITHMS
    ]


def run(
    instances: Annotated[int, "Random instances."] = 200,
    progress: Progress = say_nothing,
) -> Result:
    progress(f"{instances} instances", 0, None)
    rows = measure(instances)
    shown = [
        {
            "algorithm": row["algorithm"],
            "optimal": f"{row['optimal']:.1%}",
            **{what: f"{row[what]:.2f}" for what in ("median", "mean", "worst")},
            "optimum ÷ Theorem 1's bound": f"{row['optimum_over_bound']:.2f}",
        }
        for row in rows
    ]
    title = (
        f"Average load variance ÷ that of the best plan that is as balanced, {instances} instances"
    )
    return Result(rows, (Table(shown, title),))
