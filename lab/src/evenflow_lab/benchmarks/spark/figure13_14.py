"""Throughput and latency of six schemes on 80 workers: Figures 13 and 14 of "When two choices are
not enough", on Spark."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt

from evenflow_lab.benchmarks.outcome import Goal, Outcome, Report
from evenflow_lab.benchmarks.spark.saturation import Saturated, Sizes
from evenflow_lab.benchmarks.spark.timing import in_turn

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from evenflow.spark.keyed import Keyed

SCHEMES = ("key", "partial-key", "shuffle", "d-choices", "w-choices", "random-choices")
_CHOICES = ("d-choices", "w-choices")
_GOALS = {"shuffle": 0.9, "key": 2.3, "partial-key": 1.5}
_KEYS = 10_000


@dataclass(frozen=True)
class Figure13And14:
    """A saturated stream of Zipf keys, one millisecond of service a message.

    Parameters:
        zipf: the exponents.
        workers: tasks, all of which sleep at once.
        messages: of one micro-batch, for each worker on average.
        sources: tasks that route.
        batches: micro-batches a round that count; one more comes first.
        rounds: how often each scheme is run after a warm-up.
    """

    name: ClassVar[str] = "figure13_14"
    cores: ClassVar[int | None] = 80

    zipf: tuple[float, ...] = (1.4, 1.7, 2.0)
    workers: int = 80
    messages: int = 150
    sources: int = 8
    batches: int = 2
    rounds: int = 2

    @classmethod
    def quick(cls) -> Figure13And14:
        return cls(messages=50, batches=1, rounds=1)

    @classmethod
    def full(cls) -> Figure13And14:
        return cls(messages=250)

    def measure(self, spark: SparkSession, folder: str, report: Report) -> Outcome:
        """All schemes, in turn, for every exponent."""
        figures: list[dict[str, Any]] = []
        goals: list[Goal] = []
        for z in self.zipf:
            runs = {
                scheme: Saturated(
                    spark,
                    f"{folder}/{z}-{scheme}",
                    partial(_balanced, scheme, self.workers),
                    partial(_keys, z, self.messages * self.workers),
                    Sizes(self.workers, self.sources, self.batches + 1),
                )
                for scheme in SCHEMES
            }
            turns: dict[str, Callable[[], list[float]]] = {**runs}
            in_turn(turns, self.rounds, partial(_tell, report, z))
            rates = {scheme: run.throughput() for scheme, run in runs.items()}
            figures += [
                {
                    "z": z,
                    "scheme": scheme,
                    "messages a second": round(rates[scheme]),
                    **run.figures(),
                }
                for scheme, run in runs.items()
            ]
            goals += [
                Goal(
                    f"z = {z}: throughput of {one} ÷ {other}",
                    rates[one] / rates[other],
                    least,
                    True,
                )
                for one in _CHOICES
                for other, least in _GOALS.items()
            ]
        per_batch = self.messages * self.workers
        counted = per_batch * self.batches * self.rounds
        return Outcome(
            f"Zipf keys, {_KEYS:,} of them, on {self.workers} workers from {self.sources} sources; a "
            f"worker sleeps 1 ms for every message. Micro-batches of {per_batch:,} messages, by the "
            "streaming engine with state; the hot keys that a batch has shown are known to the routers "
            f"of the next. {counted:,} messages count for each scheme, not the paper's 2,000,000. "
            "Throughput: messages of a batch over its time by Spark's clock, Spark's own costs "
            "included, median of the batches. Latency: from the beginning of the batch, when all its "
            "messages are there, until a message was served; average: that of the worker whose "
            "average is the largest, as in the paper; percentiles: of all messages. Schemes in turn, "
            f"{self.rounds} rounds after a warm-up.",
            tuple(figures),
            tuple(goals),
        )


def _balanced(scheme: str, workers: int, keyed: Keyed) -> Keyed:
    return keyed.balance(scheme, partitions=workers)


def _keys(z: float, n: int, turn: int, batch: int) -> npt.NDArray[np.int64]:
    return zipf_keys(z, n, np.random.default_rng([turn, batch]))  # the same for every scheme


def _tell(report: Report, z: float, what: str) -> None:
    report(f"z = {z}, {what}")


def zipf_keys(z: float, n: int, rng: np.random.Generator) -> npt.NDArray[np.int64]:
    """n keys, 0 … 9999, the k-th of which has a share in proportion to (k + 1)⁻ᶻ."""
    shares = np.cumsum(np.arange(1, _KEYS + 1, dtype=np.float64) ** -z)
    return np.searchsorted(shares / shares[-1], rng.random(n), "right")
