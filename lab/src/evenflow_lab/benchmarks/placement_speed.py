"""How long COR-GLB takes, beside a transcription of the paper's words, in the same run.

Takes about a minute, most of it in the transcription. Run it while nothing else runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from math import log
from time import perf_counter
from typing import Annotated, Any

import numpy as np

from evenflow.model import InputError
from evenflow.placement import make_placer
from evenflow.placement.protocol import Nodes, Observed, Proposal
from evenflow_lab.benchmarks.outcome import Goal, Progress, Result, Table, say_nothing
from evenflow_lab.literal import placement as literal

ALGORITHM = "cor-glb"
NODES = (10, 20, 50, 100, 200, 500, 1000)
LITERAL_NODES = 50  #: Table 1 ends here
OPERATORS_A_NODE, SAMPLES, CHAIN, LEVEL = 10, 10, 10, 0.9
GOAL_TIMES, GOAL_SECONDS = 50.0, 30.0

HOW = (
    f"{OPERATORS_A_NODE} operators per node in chains of {CHAIN}, k = {SAMPLES}; inputs alternate "
    "between a high and a low rate (4 to 1) with their own offsets, and noise of a tenth; "
    "selectivities are 0.8 to 1.2; everything has been compiled before it is timed, and the best of "
    "the rounds counts; the transcription is run once, its lists filled before its time begins"
)


@dataclass(frozen=True)
class Cell:
    """The global algorithm on one size; times in seconds.

    Parameters:
        literal_seconds: of the transcription; None if it was left out.
        same: whether both made the same plan.
        tried, adopted: pairs of nodes in the correlation improvement step.
        correlation: the average load correlation of the plan.
    """

    nodes: int
    operators: int
    samples: int
    seconds: float
    tried: int
    adopted: int
    correlation: float
    literal_seconds: float | None = None
    same: bool | None = None

    def ratio(self) -> float | None:
        """Times as fast as the transcription."""
        return None if self.literal_seconds is None else self.literal_seconds / self.seconds


def instance(
    nodes: int, seed: int = 1, a_node: int = OPERATORS_A_NODE, samples: int = SAMPLES
) -> Observed:
    """Load series of chains whose inputs burst at different times, each chain on one node.

    Example:
        >>> seen = instance(20)
        >>> seen.series.shape, round(float(seen.loads().sum()), 6)
        ((200, 10), 18.0)
    """
    random = np.random.default_rng(seed)
    chains = max(nodes * a_node // CHAIN, 1)
    phase = (np.arange(samples) / samples + random.uniform(size=(chains, 1))) % 1.0
    rates = np.where(phase < 0.5, 1.6, 0.4) * random.uniform(0.8, 1.2, (chains, 1))
    rates *= np.clip(random.normal(1.0, 0.1, (chains, samples)), 0.5, None)
    gains = np.cumprod(random.uniform(0.8, 1.2, (chains, CHAIN)), axis=1)
    series = (rates[:, None, :] * gains[:, :, None]).reshape(chains * CHAIN, samples)
    series *= LEVEL * nodes / series.mean(axis=1).sum()
    return Observed.of(series, node=np.repeat(np.arange(chains) % nodes, CHAIN))


def placement_speeds(
    sizes: tuple[int, ...] = NODES,
    literal_nodes: int = LITERAL_NODES,
    rounds: int = 3,
    progress: Progress = say_nothing,
    clock: Callable[[], float] = perf_counter,
) -> Iterator[Cell]:
    """Times the global algorithm on clusters of these sizes.

    Parameters:
        sizes: numbers of nodes.
        literal_nodes: the largest cluster that the transcription is run on.
        rounds: how often each is timed; beyond a second, once.
        progress: called with (what, cells done, cells in all).
        clock: seconds that have gone by.

    Example:
        >>> [cell.same for cell in placement_speeds((3, 5), rounds=1)]
        [True, True]
    """
    if rounds < 1:
        raise InputError(f"the number of rounds must be at least 1, got {rounds}")
    make_placer(ALGORITHM).propose(instance(5), Nodes(5))  # compiles
    for done, size in enumerate(sizes):
        progress(f"{size} nodes", done, len(sizes))
        observed, nodes = instance(size), Nodes(size)
        seconds, found = _best_of(observed, nodes, rounds, clock)
        cell = Cell(
            nodes=size,
            operators=len(observed),
            samples=observed.series.shape[1],
            seconds=seconds,
            tried=found.details["tried"],
            adopted=found.details["adopted"],
            correlation=found.correlation(),
        )
        if size <= literal_nodes:
            plan = literal.Plan.of(observed, nodes, emptied=True)
            began = clock()
            literal.cor_glb(plan)
            took = clock() - began
            same = plan.where() == found.node.tolist()
            cell = replace(cell, literal_seconds=took, same=same)
        yield cell


def _best_of(
    observed: Observed, nodes: Nodes, rounds: int, clock: Callable[[], float]
) -> tuple[float, Proposal]:
    placer, best = make_placer(ALGORITHM), float("inf")
    for _ in range(1 + rounds):
        began = clock()
        found = placer.propose(observed, nodes)
        took = clock() - began
        best = min(best, took)
        if took > 1:
            break
    return best, found


def growth(cells: list[Cell], literal_too: bool = False) -> float | None:
    """The exponent b of a time that grows as n^b, by least squares over all sizes but the smallest;
    None with less than two of them.

    Example:
        >>> def cell(n, s):
        ...     return Cell(n, 10 * n, 10, s, 0, 0, 0.0)
        >>> growth([cell(1, 9.0), cell(10, 1.0), cell(100, 100.0)])
        2.0
    """
    timed = [(c.nodes, c.literal_seconds if literal_too else c.seconds) for c in cells]
    points = [(log(n), log(s)) for n, s in timed if s is not None]
    points = points if literal_too else points[1:]  # the smallest is mostly the cost of a call
    if len(points) < 2:
        return None
    x, y = np.array(points).T
    return round(float(np.polyfit(x, y, 1)[0]), 6)


def goals(cells: list[Cell]) -> list[Goal]:
    """The goals that were measured: n = 50 beside the transcription, and n = 1000."""
    found = []
    for cell in cells:
        ratio = cell.ratio()
        if cell.nodes == LITERAL_NODES and ratio is not None:
            found.append(Goal("n = 50, m = 10, k = 10: times as fast", ratio, GOAL_TIMES, True))
        if cell.nodes == 1000:
            found.append(Goal("n = 1000, 10 000 operators: seconds", cell.seconds, GOAL_SECONDS))
    return found


def as_json(cells: list[Cell]) -> dict[str, Any]:
    """Plain values."""
    return {
        "how": HOW,
        "algorithm": ALGORITHM,
        "cells": [{**asdict(cell), "ratio": cell.ratio()} for cell in cells],
        "growth": {"exponent": growth(cells), "literal_exponent": growth(cells, True)},
        "goals": [goal.to_dict() for goal in goals(cells)],
    }


def run(
    quick: Annotated[bool, "Up to 20 nodes, to try it out."] = False,
    rounds: Annotated[int, "Times that each size is timed; the best counts."] = 3,
    progress: Progress = say_nothing,
) -> Result:
    cells = list(placement_speeds(NODES[:2] if quick else NODES, rounds=rounds, progress=progress))
    answer = as_json(cells)
    shown = []
    for cell in cells:
        ratio, literal_seconds = cell.ratio(), cell.literal_seconds
        shown.append(
            {
                "nodes": cell.nodes,
                "operators": cell.operators,
                "seconds": f"{cell.seconds:.4f}",
                "transcription": None if literal_seconds is None else f"{literal_seconds:.2f}",
                "× faster": None if ratio is None else f"{ratio:,.0f}",
                "correlation": f"{cell.correlation:.2f}",
            }
        )
    exponents = (
        "–" if b is None else f"n^{b:g}" for b in (growth(cells), growth(cells, literal_too=True))
    )
    return Result(
        answer,
        (Table(shown),),
        (
            "time grows as {}, that of the transcription as {}".format(*exponents),
            f"How: {HOW}.",
        ),
        tuple(goals(cells)),
    )
