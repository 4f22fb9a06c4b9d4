"""Throughput by the imbalance that is tolerated: Figure 14 of "Parallel stream processing against
workload skewness and variance", on Spark."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt

from evenflow.model import InputError
from evenflow_lab.benchmarks.outcome import Outcome, Report
from evenflow_lab.benchmarks.spark.fluctuation import (
    Stream,
    balanced_by,
    homes,
    planned,
    rows_that_bind,
)
from evenflow_lab.benchmarks.spark.saturation import Keys, Saturated, Sizes, Work, served
from evenflow_lab.benchmarks.spark.serving import ServingPairs

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from evenflow.spark.keyed import Keyed
    from evenflow.spark.result import BalancedDataFrame

Text = Callable[[int, int], Sequence[npt.NDArray[Any]]]  #: (batches, words of each) → the words

PLANNERS = ("mixed", "min-table", "readj")
STOCKS, STOCKS_ZIPF = 1036, 0.3
WARM = 3  # micro-batches


class _Load(NamedTuple):
    name: str
    keys: Keys
    work: Work
    rivals: tuple[str, ...]  #: schemes that know no θmax


@dataclass(frozen=True)
class Tolerance:
    """Two saturated streams under every θmax: words that are counted, and trades that are joined with
    those of the same stock.

    Parameters:
        thetas: θmax.
        workers: tasks, all of which sleep at once.
        words, trades: of one micro-batch, for each worker on average; with fewer than
            `rows_that_bind`, the smallest θmax is no other than the larger ones.
        batches: micro-batches that count, after three that do not.
        interval: micro-batches between two changes of the stocks' frequencies (f = 1).
        word_seconds, pair_seconds: of service, per word and per pair of trades.
        within: how far apart in time two trades of a pair may be, where a micro-batch is a minute.
        text: where the words come from.
        stream: (f, workers, n, homes, exponent, keys) → the stocks by rank in n intervals, and the
            ranks' probabilities.
    """

    name: ClassVar[str] = "tolerance"
    cores: ClassVar[int | None] = 10

    thetas: tuple[float, ...] = (0.02, 0.15, 0.3)
    workers: int = 10
    words: int = rows_that_bind(0.02)
    trades: int = rows_that_bind(0.02)
    batches: int = 12
    interval: int = 4
    sources: int = 4
    word_seconds: float = 0.00005
    pair_seconds: float = 0.00001
    within: str = "500 milliseconds"
    text: Text | None = None
    stream: Stream | None = None

    @classmethod
    def quick(cls) -> Tolerance:
        # So few trades make pairs only where they may be far apart.
        return cls(
            thetas=(0.02,),
            words=100,
            trades=50,
            batches=3,
            interval=1,
            pair_seconds=0.0005,
            within="2 minutes",
        )

    @classmethod
    def full(cls) -> Tolerance:
        return cls(thetas=(0.02, 0.08, 0.15, 0.3), batches=24)

    def measure(self, spark: SparkSession, folder: str, report: Report) -> Outcome:
        """Both streams, every planner under every θmax, and the schemes that know none once."""
        figures = [
            figure
            for load in (self._words(), self._trades())
            for figure in self._measured(spark, folder, load, report)
        ]
        return Outcome(
            f"words: those of the addresses on the State of the Union, from 1790 to 2021 in "
            f"{self.batches + WARM} jumps, counted; micro-batches of {self.words * self.workers:,}, "
            f"{self.word_seconds * 1000:g} ms of service a word. trades: {STOCKS:,} stocks, Zipf with "
            f"z = {STOCKS_ZIPF:g}, frequencies swapped every {self.interval} micro-batches (f = 1); "
            f"each trade meets those of its stock within {self.within} (an interval self-join), "
            f"micro-batches of a minute and {self.trades * self.workers:,} trades, "
            f"{self.pair_seconds * 1000:g} ms of service a pair; the stream stands in for a stock "
            "exchange's, which is not available. "
            f"{self.workers} workers; throughput: messages over the time of {self.batches} "
            "micro-batches, Spark's own costs and those behind a change included. θmax is no matter "
            "to schemes without a plan; partial-key cannot join. Fullest ÷ average: of messages, "
            "which for trades are not the work.",
            tuple(figures),
        )

    def _measured(
        self, spark: SparkSession, folder: str, load: _Load, report: Report
    ) -> list[dict[str, Any]]:
        sizes = Sizes(self.workers, self.sources, self.batches + WARM, 0, WARM)
        ways: list[tuple[str, float | None, Callable[[Keyed], Keyed]]] = [
            (scheme, None, partial(balanced_by, scheme, None, self.workers, 0.0))
            for scheme in load.rivals
        ]
        ways += [
            (planner, theta, partial(balanced_by, "table", planner, self.workers, theta))
            for theta in self.thetas
            for planner in PLANNERS
        ]
        figures: list[dict[str, Any]] = []
        for name, theta, balanced in ways:
            label = f"{load.name}, {name}" + ("" if theta is None else f", θmax = {theta:g}")
            report(f"{label}: {sizes.batches} micro-batches")
            at = f"{folder}/{load.name}-{name}-{theta}"
            run = Saturated(spark, at, balanced, load.keys, sizes, load.work)
            run()
            rate = run.total_throughput()
            figures.append(
                {
                    "stream": load.name,
                    "theta": theta,
                    "scheme": name,
                    "messages a second": round(rate),
                    "÷ key": round(rate / figures[0]["messages a second"], 2) if figures else 1.0,
                    **run.figures(),
                    **planned(run),
                }
            )
        return figures

    def _words(self) -> _Load:
        if self.text is None:
            raise InputError("the measurement tolerance needs a text; use `evenflow bench spark`")
        words = self.text(self.batches + WARM, self.words * self.workers)
        work = partial(served, self.word_seconds)
        return _Load("words", lambda turn, batch: words[batch], work, ("key", "partial-key"))

    def _trades(self) -> _Load:
        if self.stream is None:
            raise InputError("the measurement tolerance needs a stream; use `evenflow bench spark`")
        intervals = -(-(self.batches + WARM) // self.interval)
        owners, probabilities = self.stream(
            1.0,
            self.workers,
            intervals,
            homes=partial(homes, self.workers),
            exponent=STOCKS_ZIPF,
            keys=STOCKS,
        )
        shares = np.cumsum(probabilities)

        def keys(turn: int, batch: int) -> npt.NDArray[np.int64]:
            random = np.random.default_rng([turn, batch]).random(self.trades * self.workers)
            ranks = np.searchsorted(shares / shares[-1], random, "right")
            return owners[batch // self.interval][ranks]

        return _Load("trades", keys, partial(_self_join, self.pair_seconds, self.within), ("key",))


def _self_join(seconds: float, within: str, keyed: Keyed, log: str) -> BalancedDataFrame:
    return keyed.withWatermark("at", "1 minute").intervalJoin(
        time="at", within=within, where=ServingPairs(seconds, log)
    )
