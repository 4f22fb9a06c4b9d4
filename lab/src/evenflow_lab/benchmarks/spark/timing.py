"""Contestants timed in turn, so that a disturbance of the machine hits all alike."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from evenflow_lab.benchmarks.outcome import Report

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def in_turn(
    contestants: Mapping[str, Callable[[], list[float]]],
    rounds: int,
    report: Report,
    warm_up: int = 1,
) -> dict[str, list[float]]:
    """What each contestant returned in all rounds but the first ones, which warm up.

    Parameters:
        contestants: name → runs once and returns the seconds that it took, maybe of several batches.
        rounds: how often each is run after the warm-up.
        report: called with who is being timed.
        warm_up: how often each is run before that.

    Example:
        >>> in_turn({"a": lambda: [1.0], "b": lambda: [2.0, 3.0]}, rounds=2, report=print)
        a: warm-up
        b: warm-up
        a: round 1 of 2
        b: round 1 of 2
        a: round 2 of 2
        b: round 2 of 2
        {'a': [1.0, 1.0], 'b': [2.0, 3.0, 2.0, 3.0]}
    """
    seconds: dict[str, list[float]] = {name: [] for name in contestants}
    for turn in range(1 - warm_up, rounds + 1):
        for name, run in contestants.items():
            report(f"{name}: round {turn} of {rounds}" if turn > 0 else f"{name}: warm-up")
            taken = run()
            if turn > 0:
                seconds[name] += taken
    return seconds


def written(df: DataFrame) -> float:
    """Seconds to compute every row of a DataFrame and throw it away."""
    began = time.perf_counter()
    df.write.format("noop").mode("overwrite").save()
    return time.perf_counter() - began
