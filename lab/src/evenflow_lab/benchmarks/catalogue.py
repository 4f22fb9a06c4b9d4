"""All benchmarks, and where they are. A benchmark is a module with a function `run`.

The parameters of `run` are the options of the command, each `Annotated` with its help; `progress` is
called with what is being done. It returns a `Result`, or yields one after the other: of these the last
has the whole answer. The module's docstring is the command's help.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any, NamedTuple

from evenflow_lab.benchmarks.outcome import Result

_HERE = "evenflow_lab.benchmarks"


class Benchmark(NamedTuple):
    """One benchmark.

    Parameters:
        module: below `evenflow_lab.benchmarks`.
        summary: one line.
    """

    module: str
    summary: str

    def help(self) -> str:
        """What it measures and how."""
        return import_module(f"{_HERE}.{self.module}").__doc__ or self.summary

    def run(self) -> Callable[..., Result | Iterator[Result]]:
        """The function that runs it."""
        function: Callable[..., Any] = import_module(f"{_HERE}.{self.module}").run
        return function


BENCHMARKS = {
    "kernels": Benchmark("kernel_speed", "Nanoseconds per message for every scheme; fingerprints."),
    "planner": Benchmark("planner_speed", "Planning time for up to 10⁷ keys, beside pseudo-code."),
    "placement": Benchmark(
        "placement_speed", "The global placement algorithm, beside the paper's."
    ),
    "simulation": Benchmark("simulation", "How fast the simulator is, and what takes the time."),
    "choices": Benchmark(
        "choices", "The d that d-choices picks, beside the smallest that would do."
    ),
    "drift": Benchmark(
        "drift", "The worst window of a scheme on a drifting stream, over many seeds."
    ),
    "rivals": Benchmark(
        "rivals", "Every scheme on five streams; which is best over skew, drift and workers."
    ),
    "planning-optimum": Benchmark("planning_optimum", "Planners beside the best plan there is."),
    "placement-optimum": Benchmark("placement_optimum", "Placement beside the best plan there is."),
    "spark": Benchmark(
        "spark.benchmark", "The engine beside Spark alone; fixed costs; throughput."
    ),
    "cold-start": Benchmark(
        "cold_start", "The first output of a new executor, with an empty disk and with a warm one."
    ),
    "storage": Benchmark(
        "storage", "A batch on an object store: requests, and time at 20 ms each."
    ),
    "diagnose": Benchmark(
        "diagnosis.benchmark", "Planted faults in real runs: does the diagnosis name the cause?"
    ),
    "predicted": Benchmark(
        "diagnosis.predicted", "The dry run's predicted times beside measured ones."
    ),
    "regret": Benchmark(
        "regret", "`auto` beside the best fixed scheme, over skew, drift and costs."
    ),
    "scaling": Benchmark("scaling", "Partitions that follow a load which doubles and halves."),
    "soak": Benchmark("soak.benchmark", "Thousands of micro-batches: what grows?"),
    "stationary": Benchmark("stationary", "Do keys stay where they are while the load is steady?"),
    "tpch-q5": Benchmark("tpch_q5", "Throughput of the continuous TPC-H Q5 by θmax."),
    "kills": Benchmark("kills", "A query whose driver is killed over and over: exactly once?"),
    "fleet": Benchmark("fleet", "Twelve queries on three Spark applications, placed or not."),
    "gateway": Benchmark("gateway", "The Kafka gateway beside a plain Spark → Kafka copy."),
    "gateway-kills": Benchmark("gateway_kills", "Gateway, broker and consumers killed under load."),
    "ordering": Benchmark(
        "ordering.benchmark", "Order of messages under moves, kills and freezes."
    ),
    "smalops-broker": Benchmark("smalops.broker", "Queuing delay on a real Kafka broker."),
    "smalops-spark": Benchmark("smalops.spark", "Queuing delay behind the gateway on Spark."),
}
