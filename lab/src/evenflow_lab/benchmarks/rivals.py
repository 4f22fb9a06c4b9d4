"""Every scheme on five streams, and which is best over skew, drift and the number of workers.

First table: the worst window (the busiest worker's load over 20 000 messages, as a multiple of its fair
load), replicas per key and nanoseconds per message, as medians over seeds with the smallest and the
largest, on

- steady: Zipf z = 1.4, 10 000 keys,
- drift: the same, with the keys permuted ten times,
- uniform: 10 000 keys, all alike,
- wp: the stand-in for the requests to Wikipedia,
- ct: the stand-in for the cashtags of Twitter, whose hot keys change.

Second table: our schemes with several settings, and the rivals, for every skew, drift and number of
workers. "Together" is the product of worst window, replicas per key and time of a message, which is
the time to route it and a microsecond of work. A scheme that is no better than another in any of the
three figures, and worse in one, is beaten by it.

Times are processor time of one source that has seen the first half of the stream: the best of three
passes over the second half. Plans of the key isolator are not in them.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from functools import partial
from statistics import median
from time import process_time_ns
from typing import Annotated, Any, NamedTuple

import numpy as np

from evenflow.grouping import make, schemes
from evenflow.metrics import WINDOW
from evenflow.model import InputError
from evenflow.simulator import simulate
from evenflow.simulator.workloads import Workload, Zipf
from evenflow_lab.benchmarks.outcome import Progress, Result, Table, say_nothing
from evenflow_lab.workloads.cashtags import Cashtags
from evenflow_lab.workloads.wikipedia import Wikipedia

WORK = 1000  #: nanoseconds of work per message
FIGURES = ("worst_window", "replication", "ns")
SOURCES, KEYS, FIRST_SEED = 5, 10_000, 3001
RIVALS = ("fish", "dalton", "key-isolator")
OURS = (
    "d-choices", "d-choices:sightings=10", "d-choices:sightings=5", "d-choices:epsilon=0.001",
    "w-choices", "w-choices:sightings=10", "w-choices:theta=0.01",
)  # fmt: skip
OTHERS = ("partial-key", "key")
SKEWS, WORKERS, DRIFTS = (0.8, 1.4, 2.0), (10, 50, 100), (0, 10)


class Found(NamedTuple):
    """One scheme on one stream with one seed."""

    worst_window: float
    replication: float
    ns: float


def stream(name: str, messages: int, seed: int) -> Workload:
    """One of the five."""
    if name == "wp":
        return Wikipedia(messages=messages, seed=seed)
    if name == "ct":
        return Cashtags(seed=seed)
    zipf = Zipf(exponent=1.4, keys=KEYS, messages=messages, seed=seed)
    return {
        "steady": zipf,
        "drift": replace(zipf, drift=messages // 10),
        "uniform": replace(zipf, exponent=0.0),
    }[name]


STREAMS = ("steady", "drift", "uniform", "wp", "ct")


def measure(spec: str, workload: Workload, workers: int, seed: int) -> Found:
    """The three figures of a scheme."""
    result = simulate(spec, workload, workers, SOURCES, seed)
    worst = result.worst_window
    assert worst is not None, "the stream has windows"
    return Found(float(worst), result.replication, nanoseconds(spec, workload, workers, seed))


def nanoseconds(spec: str, workload: Workload, workers: int, seed: int) -> float:
    """Processor time to route a message."""
    keys = np.concatenate(list(workload.chunks(1 << 20)))[: 1 << 19]
    early, late = np.array_split(keys, 2)
    scheme, out = make(spec), np.empty(len(early), np.int32)
    state = scheme.start(workers, seed)
    scheme.route(state, early, out)
    best = float("inf")
    for _ in range(3):
        again = copy.deepcopy(state)
        began = process_time_ns()
        scheme.route(again, late, out[: len(late)])
        best = min(best, (process_time_ns() - began) / len(late))
    return best


def _on_stream(messages: int, workers: int, task: tuple[str, str, int]) -> Found:
    name, spec, seed = task
    return measure(spec, stream(name, messages, seed), workers, seed)


def _in_setting(messages: int, task: tuple[float, int, int, str, int]) -> Found:
    z, drifts, workers, spec, seed = task
    drift = messages // drifts if drifts else None
    return measure(spec, Zipf(z, KEYS, messages, seed, drift=drift), workers, seed)


def spread(found: Sequence[Found]) -> dict[str, dict[str, float]]:
    """Median, smallest and largest of each figure over the seeds."""
    return {
        name: {"median": median(values), "least": min(values), "most": max(values)}
        for name, values in zip(FIGURES, zip(*found, strict=True), strict=True)
    }


def together(found: Found) -> float:
    """Worst window, replicas and time of a message, in microseconds, as one number.

    Example:
        >>> together(Found(worst_window=2.0, replication=1.5, ns=100.0))
        3.3
    """
    return round(found.worst_window * found.replication * (1 + found.ns / WORK), 9)


def beats(a: Found, b: Found) -> bool:
    """Whether `a` is nowhere worse than `b`, and somewhere better.

    Example:
        >>> a, b = Found(1.0, 2.0, 30.0), Found(1.5, 1.0, 30.0)
        >>> beats(a, a._replace(ns=40.0)), beats(a, b)
        (True, False)
    """
    return a != b and all(x <= y for x, y in zip(a, b, strict=True))


def run(
    workers: Annotated[int, "Workers in the first table."] = 50,
    messages: Annotated[int, "Length of each stream but ct."] = 200_000,
    seeds: Annotated[int, "How many seeds."] = 3,
    grid: Annotated[bool, "Also over skew, drift and workers."] = True,
    progress: Progress = say_nothing,
) -> Result:
    if messages < 2 * WINDOW:
        raise InputError(f"needs at least {2 * WINDOW} messages, to have windows; got {messages}")
    numbers = range(FIRST_SEED, FIRST_SEED + seeds)
    tasks = [(name, spec, seed) for spec in schemes() for name in STREAMS for seed in numbers]
    settings = [(z, d, n) for z in SKEWS for d in DRIFTS for n in WORKERS] if grid else []
    tried = (*OURS, *RIVALS, *OTHERS)
    cells = [(*one, spec, seed) for one in settings for spec in tried for seed in numbers]
    done = 0

    def counted(found: Any) -> Any:
        nonlocal done
        done += 1
        progress("runs", done, len(tasks) + len(cells))
        return found

    with ProcessPoolExecutor(2) as pool:
        on_streams = [counted(f) for f in pool.map(partial(_on_stream, messages, workers), tasks)]
        in_settings = [counted(f) for f in pool.map(partial(_in_setting, messages), cells)]

    answer: dict[str, Any] = {"workers": workers, "messages": messages, "seeds": list(numbers)}
    by_stream = _grouped(tasks, on_streams)
    answer["streams"] = {
        spec: {name: spread(by_stream[name, spec]) for name in STREAMS} for spec in schemes()
    }
    tables = [Table([_row(spec, of) for spec, of in answer["streams"].items()], "Five streams")]
    if grid:
        by_cell = _grouped(cells, in_settings)
        answer["grid"] = [_setting(one, tried, by_cell) for one in settings]
        shown = [{k: _words(v) for k, v in one.items() if k != "figures"} for one in answer["grid"]]
        tables.append(Table(shown, "Over skew, drift and workers"))
    return Result(answer, tuple(tables))


def _grouped(tasks: Sequence[tuple[Any, ...]], found: Sequence[Found]) -> dict[Any, list[Found]]:
    """Task without its seed → what was found with each seed."""
    grouped: dict[Any, list[Found]] = {}
    for task, one in zip(tasks, found, strict=True):
        grouped.setdefault(task[:-1], []).append(one)
    return grouped


def _row(spec: str, of_streams: Mapping[str, Any]) -> dict[str, str]:
    cells = {
        name: " / ".join(f"{one[f]['median']:.{2 - 2 * (f == 'ns')}f}" for f in FIGURES)
        for name, one in of_streams.items()
    }
    return {"scheme": spec, **cells}


def _setting(
    setting: tuple[float, int, int], tried: Sequence[str], by_cell: Mapping[Any, list[Found]]
) -> dict[str, Any]:
    """One row of the second table."""
    medians = {
        spec: Found(*(median(values) for values in zip(*by_cell[*setting, spec], strict=True)))
        for spec in tried
    }
    scores = {spec: together(found) for spec, found in medians.items()}
    ours = min(OURS, key=scores.__getitem__)
    z, drifts, workers = setting
    return {
        "z": z,
        "drifts": drifts,
        "workers": workers,
        "best": min(scores, key=scores.__getitem__),
        "best of ours": ours,
        "rivals not beaten by ours": [
            r for r in RIVALS if not any(beats(medians[o], medians[r]) for o in OURS)
        ],
        "rivals ahead together": [r for r in RIVALS if scores[r] < scores[ours]],
        "figures": {
            spec: {**found._asdict(), "together": scores[spec]} for spec, found in medians.items()
        },
    }


def _words(value: Any) -> Any:
    return (", ".join(value) or "none") if isinstance(value, list) else value
