"""How long planners take, beside a transcription of the paper's pseudo-code, in the same run.

Takes half an hour, most of it in the pseudo-code. Run it while nothing else runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from time import perf_counter
from typing import Annotated, Any

import numpy as np

from evenflow.model import InputError
from evenflow.planning import make_planner, planners
from evenflow.planning.protocol import U64, Constraints, Planner, Proposal, Statistics
from evenflow_lab.benchmarks.outcome import Goal, Progress, Result, Table, say_nothing
from evenflow_lab.literal import planning as literal

ZIPF, LISTED, TABLE_LIMIT = 0.85, 300, 3000
KEYS = (10_000, 100_000, 1_000_000, 10_000_000)
WORKERS = (15, 40)
THETAS = (0.02, 0.08, 0.3)
PATIENCE, LITERAL_PATIENCE = 20.0, 100.0  # seconds
# With 40 workers the top key alone is above most bounds, and no plan keeps them: what is timed there is
# how long it takes to find that out.
GOAL_KEYS, GOAL_WORKERS, GOAL_THETA = 1_000_000, 15, 0.02

#: planner → its pseudo-code
LITERAL: dict[str, Callable[[literal.Keys, Constraints], Any]] = {
    "llfd": literal.llfd_alone,
    "min-table": literal.min_table,
    "min-mig": literal.min_mig,
    "mixed": literal.mixed,
    "mixed-bf": literal.mixed_brute_force,
}

HOW = (
    f"costs are Zipf's with z = {ZIPF}, states the costs times 0.5 to 2 at random, homes by hash, and "
    f"{LISTED} keys are away from home already; the table's limit is {TABLE_LIMIT}; every planner has "
    "planned something before it is timed, and the best of the rounds counts; the pseudo-code is run "
    "once, its dictionaries filled before its time begins; what would take too long, going by its time "
    "with fewer keys, is left out"
)


@dataclass(frozen=True)
class Cell:
    """One planner on one instance; times in seconds.

    Parameters:
        seconds: None if it was left out, and then `left_out` says why.
        literal_seconds: of the pseudo-code; None if it was left out or there is none.
        feasible: whether the plan keeps all constraints; `table_size`, `moved` and `overload`: of the
            plan; `details`: the planner's own.
    """

    keys: int
    workers: int
    theta: float
    planner: str
    seconds: float | None
    literal_seconds: float | None = None
    left_out: str | None = None
    literal_left_out: str | None = None
    feasible: bool | None = None
    table_size: int | None = None
    moved: int | None = None
    overload: float | None = None
    details: dict[str, Any] | None = None

    def ratio(self) -> float | None:
        """Times as fast as the pseudo-code."""
        if self.seconds is None or self.literal_seconds is None:
            return None
        return self.literal_seconds / self.seconds


def instance(
    keys: int, workers: int, theta: float, seed: int = 1
) -> tuple[Statistics, Constraints]:
    """Skewed keys that hashing has dealt out, and a short routing table.

    Example:
        >>> seen, constraints = instance(1_000, 15, 0.08)
        >>> len(seen), int(seen.listed().sum()) <= LISTED, constraints.workers
        (1000, True, 15)
    """
    random = np.random.default_rng(seed)
    costs = np.arange(1, keys + 1, dtype=np.float64) ** -ZIPF
    costs *= keys / costs.sum()
    random.shuffle(costs)
    fingerprints = _fingerprints(keys)
    home = (fingerprints >> np.uint64(32)).astype(np.int64) * workers >> 32
    worker = home.astype(np.int32)
    listed = random.choice(keys, min(LISTED, keys), replace=False)
    worker[listed] = random.integers(0, workers, len(listed))
    state = costs * random.uniform(0.5, 2.0, keys)
    seen = Statistics(fingerprints, costs, state, worker, home.astype(np.int32))
    return seen, Constraints(workers, theta, TABLE_LIMIT)


def _fingerprints(keys: int) -> U64:
    """Different 64-bit words: an odd multiplier and shifts are bijections."""
    words = np.arange(1, keys + 1, dtype=np.uint64)
    for _ in range(2):
        words = (words ^ words >> np.uint64(32)) * np.uint64(0xD6E8FEB86659FD93)
    mixed: U64 = words ^ words >> np.uint64(32)
    return mixed


def planner_speeds(
    sizes: tuple[int, ...] = KEYS,
    workers: tuple[int, ...] = WORKERS,
    thetas: tuple[float, ...] = THETAS,
    rounds: int = 3,
    patience: float = PATIENCE,
    literal_patience: float = LITERAL_PATIENCE,
    progress: Progress = say_nothing,
) -> Iterator[Cell]:
    """Times every discovered planner with its default parameters on every size.

    Parameters:
        sizes: numbers of keys, ascending; `workers` and `thetas` to try with each.
        rounds: how often each is timed; beyond a second, once.
        patience: seconds that a plan may take, going by its time at the size before.
        literal_patience: the same for the pseudo-code.
        progress: called with (what, cells done, cells in all).

    Example:
        >>> cells = list(planner_speeds((500,), (5,), (0.1,), rounds=1))
        >>> {cell.planner for cell in cells} == set(planners())
        True
    """
    if rounds < 1:
        raise InputError(f"the number of rounds must be at least 1, got {rounds}")
    names = list(planners())
    for name in names:
        make_planner(name).plan(*instance(1_000, 5, 0.02))  # compiles
    done, steps = 0, len(sizes) * len(workers) * len(thetas) * len(names)
    before: dict[tuple[int, float, str], Cell] = {}
    size_before = 0
    for size in sorted(sizes):
        for n in workers:
            for theta in thetas:
                seen, constraints = instance(size, n, theta)
                keys: literal.Keys | None = None
                for name in names:
                    progress(f"{size:,} keys, N = {n}, θ = {theta}: {name}", done, steps)
                    last = before.get((n, theta, name))
                    growth = size / size_before if size_before else 1.0
                    cell = _planned(name, seen, constraints, rounds, last, growth, patience)
                    if name in LITERAL and cell.seconds is not None:
                        slow = _too_long(
                            last.literal_seconds if last else None, growth, literal_patience
                        )
                        if last is not None and last.literal_seconds is None:
                            slow = last.literal_left_out
                        if slow is None:
                            keys = literal.Keys.of(seen) if keys is None else keys
                            began = perf_counter()
                            LITERAL[name](keys, constraints)
                            took = perf_counter() - began
                            cell = Cell(**{**asdict(cell), "literal_seconds": took})
                        else:
                            cell = Cell(**{**asdict(cell), "literal_left_out": slow})
                    before[n, theta, name] = cell
                    done += 1
                    yield cell
        size_before = size


def _too_long(before: float | None, growth: float, patience: float) -> str | None:
    """Why it is left out: it would take longer than that, if time grows a little faster than keys."""
    expected = 1.2 * growth * (before or 0.0)
    return f"would take about {expected:,.0f} s" if expected > patience else None


def _planned(
    name: str,
    seen: Statistics,
    constraints: Constraints,
    rounds: int,
    last: Cell | None,
    growth: float,
    patience: float,
) -> Cell:
    where = len(seen), constraints.workers, constraints.theta, name
    slow = _too_long(last.seconds if last else None, growth, patience)
    if last is not None and last.seconds is None:
        slow = last.left_out
    if slow is not None:
        return Cell(*where, None, left_out=slow)
    planner = make_planner(name)
    seconds, plan = _best_of(planner, seen, constraints, rounds)
    return Cell(
        *where,
        seconds,
        feasible=plan.feasible(),
        table_size=plan.table_size(),
        moved=int(plan.moved().sum()),
        overload=plan.overload(),
        details=dict(plan.details),
    )


def _best_of(
    planner: Planner, seen: Statistics, constraints: Constraints, rounds: int
) -> tuple[float, Proposal]:
    best = float("inf")
    for _ in range(1 + rounds):
        began = perf_counter()
        plan = planner.plan(seen, constraints)
        took = perf_counter() - began
        best = min(best, took)
        if took > 1:
            break
    return best, plan


def goals(cells: list[Cell]) -> list[Goal]:
    """The goals that were measured: Mixed at 10⁶ and 10⁷ keys, N = 15, θ = 0.02, where it has found a
    plan that keeps all limits."""
    at = {
        (c.keys, c.planner): c
        for c in cells
        if (c.workers, c.theta) == (GOAL_WORKERS, GOAL_THETA) and c.feasible
    }
    found = []
    mixed = at.get((GOAL_KEYS, "mixed"))
    if mixed is not None and mixed.seconds is not None:
        where = f"N = {GOAL_WORKERS}, θ = {GOAL_THETA}"
        ratio = mixed.ratio()
        if ratio is not None:
            found.append(Goal(f"Mixed on 10⁶ keys, {where}: times as fast", ratio, 20, True))
        found.append(Goal(f"Mixed on 10⁶ keys, {where}: seconds", mixed.seconds, 0.1))
        compact = at.get((GOAL_KEYS, "compact-mixed"))
        if compact is not None and compact.seconds is not None:
            share = compact.seconds / mixed.seconds
            found.append(Goal("its time on the compact form, as a part of that", share, 1.0))
            error = (compact.details or {}).get("load_error")
            if error is not None:
                found.append(Goal("the compact form's load error in percent", error, 1.0))
    large = at.get((10 * GOAL_KEYS, "mixed"))
    if large is not None and large.seconds is not None:
        found.append(Goal("Mixed on 10⁷ keys: seconds", large.seconds, 2.0))
    return found


def as_json(cells: list[Cell]) -> dict[str, Any]:
    """Plain values."""
    return {
        "how": HOW,
        "cells": [{**asdict(cell), "ratio": cell.ratio()} for cell in cells],
        "goals": [goal.to_dict() for goal in goals(cells)],
    }


def run(
    quick: Annotated[bool, "Up to 10⁵ keys, to try it out."] = False,
    rounds: Annotated[int, "Times that each planner is timed; the best counts."] = 3,
    progress: Progress = say_nothing,
) -> Result:
    cells = list(
        planner_speeds(
            KEYS[:2] if quick else KEYS,
            rounds=rounds,
            patience=1.0 if quick else PATIENCE,
            literal_patience=2.0 if quick else LITERAL_PATIENCE,
            progress=progress,
        )
    )
    shown = []
    for cell in cells:
        ratio, literal_seconds = cell.ratio(), cell.literal_seconds
        shown.append(
            {
                "planner": cell.planner,
                "keys": cell.keys,
                "N": cell.workers,
                "θ": f"{cell.theta:g}",
                "seconds": cell.left_out if cell.seconds is None else f"{cell.seconds:.4f}",
                "pseudo-code": cell.literal_left_out
                if literal_seconds is None
                else f"{literal_seconds:.2f}",
                "× faster": None if ratio is None else f"{ratio:,.0f}",
                "entries": cell.table_size,
                "kept": cell.feasible,
            }
        )
    return Result(as_json(cells), (Table(shown),), (f"How: {HOW}.",), tuple(goals(cells)))
