"""Throughput and latency while the distribution of keys jumps: Figure 13 of "Parallel stream
processing against workload skewness and variance", on Spark."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from math import ceil
from statistics import mean
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from evenflow.grouping import make
from evenflow.kernels.fingerprints import fingerprint
from evenflow.model import InputError
from evenflow.planning.controller import Replanning
from evenflow_lab.benchmarks.outcome import Goal, Outcome, Report
from evenflow_lab.benchmarks.spark.saturation import Saturated, Sizes, served
from evenflow_lab.benchmarks.spark.timing import in_turn

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from evenflow.spark.keyed import Keyed

Stream = Callable[..., tuple[list[npt.NDArray[np.int64]], npt.NDArray[np.float64]]]

#: Figure 13's lines: "ideal" deals rows out regardless of keys, and is no answer for work on keys.
CONTESTANTS = {
    "ideal (shuffle)": ("shuffle", None),
    "key": ("key", None),
    "partial-key": ("partial-key", None),
    "mixed": ("table", "mixed"),
    "min-table": ("table", "min-table"),
    "mixed-bf": ("table", "mixed-bf"),
    "readj": ("table", "readj"),
}


@dataclass(frozen=True)
class Fluctuation:
    """A saturated stream of Zipf keys (z = 0.85) whose frequencies are swapped in every interval, until
    the load that some worker has by hash has changed by f of the average.

    Parameters:
        fluctuations: f.
        theta: θmax.
        workers: tasks, all of which sleep at once.
        messages: of one micro-batch, for each worker on average: enough for θmax to decide.
        service: seconds that a worker sleeps for every message.
        interval: micro-batches between two changes; a plan is made after every micro-batch.
        intervals: a turn, after one that does not count.
        contestants: which of `CONTESTANTS`.
        stream: (f, workers, n, homes) → the keys by rank in n intervals, and the ranks' probabilities.
    """

    name: ClassVar[str] = "fluctuation"
    cores: ClassVar[int | None] = 15

    fluctuations: tuple[float, ...] = (0.5, 1.0, 2.0)
    theta: float = 0.08
    workers: int = 15
    messages: int = 4000
    service: float = 0.0005
    sources: int = 4
    interval: int = 6
    intervals: int = 3
    contestants: tuple[str, ...] = tuple(CONTESTANTS)
    stream: Stream | None = None

    @classmethod
    def quick(cls) -> Fluctuation:
        return cls(fluctuations=(1.0,), messages=100, interval=3, intervals=1)

    @classmethod
    def full(cls) -> Fluctuation:
        return cls(fluctuations=(0.0, 0.5, 1.0, 1.5, 2.0))

    def measure(self, spark: SparkSession, folder: str, report: Report) -> Outcome:
        """All contestants for every f."""
        figures: list[dict[str, Any]] = []
        goals: list[Goal] = []
        for f in self.fluctuations:
            keys = self._keys(f)
            batches = self.interval * self.intervals
            runs = {
                name: Saturated(
                    spark,
                    f"{folder}/{f}-{name.partition(' ')[0]}",
                    partial(balanced_by, scheme, planner, self.workers, self.theta),
                    keys,
                    Sizes(self.workers, self.sources, batches + 1),
                    partial(served, self.service),
                )
                for name, (scheme, planner) in CONTESTANTS.items()
                if name in self.contestants
            }
            turns: dict[str, Callable[[], list[float]]] = {**runs}
            in_turn(turns, 1, partial(_tell, report, f))
            rates = {name: run.total_throughput() for name, run in runs.items()}
            figures += [self._figures_of(f, name, rates[name], run) for name, run in runs.items()]
            mixed = rates["mixed"]
            goals += [
                Goal(f"f = {f:g}: mixed ÷ ideal", mixed / rates["ideal (shuffle)"], 0.9, True),
                Goal(f"f = {f:g}: mixed ÷ key", mixed / rates["key"], 1.8, True),
            ]
        return Outcome(
            f"Zipf keys (z = 0.85, 10,000 of them) on {self.workers} workers; a worker sleeps "
            f"{self.service * 1000:g} ms for every message. Micro-batches of "
            f"{self.messages * self.workers:,} messages; frequencies are swapped every "
            f"{self.interval} micro-batches, {self.intervals} times in what counts. "
            f"Throughput: messages over the time of all batches, Spark's own costs included, the "
            "batches in which a plan is behind the change, too. θmax = "
            f"{self.theta:g}; plans come from the batches before. Latency: from the beginning of the "
            "batch, when all its messages are there, until a message was served.",
            tuple(figures),
            tuple(goals),
        )

    def _keys(self, f: float) -> Callable[[int, int], npt.NDArray[np.int64]]:
        if self.stream is None:
            raise InputError(
                "the measurement fluctuation needs a stream; use `evenflow bench spark`"
            )
        batches = self.interval * self.intervals + 1
        owners, probabilities = self.stream(
            f, self.workers, 2 * (batches // self.interval + 2), homes=partial(homes, self.workers)
        )
        shares = np.cumsum(probabilities)

        def keys(turn: int, batch: int) -> npt.NDArray[np.int64]:
            # Batch 0 belongs to the interval before; those that count begin with a change.
            at = (turn * batches + batch + self.interval - 1) // self.interval
            random = np.random.default_rng([turn, batch])
            n = self.messages * self.workers
            ranks = np.searchsorted(shares / shares[-1], random.random(n), "right")
            return owners[at][ranks]

        return keys

    def _figures_of(self, f: float, name: str, rate: float, run: Saturated) -> dict[str, Any]:
        return {
            "f": f,
            "scheme": name,
            "messages a second": round(rate),
            **run.figures(),
            **planned(run),
        }


def homes(workers: int, numbers: npt.NDArray[np.int64]) -> npt.NDArray[np.int32]:
    """The worker of each of these keys by hash.

    Example:
        >>> sorted(set(homes(3, np.arange(100)).tolist()))
        [0, 1, 2]
    """
    scheme, out = make("key"), np.empty(len(numbers), np.int32)
    scheme.route(scheme.start(workers, 0), fingerprint(pa.array(numbers)), out)
    return out


def rows_that_bind(theta: float) -> int:
    """How many rows a worker must get before the controller takes an overload of θmax for more than
    chance: with fewer, no θmax below that differs from another.

    √n more or fewer of n rows are chance, and `certainty` times that is what it asks for; what it
    remembers of the batches before only makes it surer.

    Example:
        >>> rows_that_bind(0.02)
        40000
    """
    return ceil((Replanning().certainty / theta) ** 2)


def planned(run: Saturated) -> dict[str, Any]:
    """How much planning and moving there was."""
    moved = mean(m["migrated_bytes"] / max(m["state_bytes"], 1) for m in run.metrics)
    return {
        "plans": sum(bool((m["planning"] or {}).get("changed")) for m in run.metrics),
        "moved a batch": f"{moved:.2%}",
        "entries": max(m["table_size"] for m in run.metrics),
    }


def balanced_by(
    scheme: str, planner: str | None, workers: int, theta: float, keyed: Keyed
) -> Keyed:
    """A stream with this scheme and, if there is one, this planner."""
    balanced = keyed.balance(scheme, partitions=workers)
    return balanced if planner is None else balanced.replan(planner, theta)


def _tell(report: Report, f: float, what: str) -> None:
    report(f"f = {f:g}, {what}")
