"""How fast is the simulator?

`simulate` as `evenflow simulate --grouping partial-key` calls it (50 workers, 5 sources, z = 1.4,
10 000 keys), with all its measurements: imbalance over time, replicas, worst windows. One thread. For
10⁵ to 10⁸ messages, nanoseconds per message: the whole, and in it making the stream, routing, and the
rest, which is dealing the stream out to the sources and measuring. The whole includes all that happens
once per run: the tables of the stream, a warm-up on a state that is thrown away, the result.

Lengths take turns, so that a disturbance of the machine hits all alike; the best round of each counts,
because a disturbance only ever adds time. Starting Python and compiling are not measured.
"""

from __future__ import annotations

from collections.abc import Iterator
from time import perf_counter_ns
from typing import Annotated, Any

from evenflow.model import InputError
from evenflow.simulator import simulate
from evenflow.simulator.workloads import Zipf
from evenflow.simulator.workloads.protocol import U64
from evenflow_lab.benchmarks.outcome import Goal, Progress, Result, Table, say_nothing

GROUPING, WORKERS, SOURCES, ZIPF = "partial-key", 50, 5, 1.4
LENGTHS = (10**5, 10**6, 10**7, 10**8)
ROUNDS = {10**5: 50, 10**6: 20, 10**7: 6, 10**8: 3}
FAST, FLAT = 10e6, 1.3  #: goals: messages per second at least; dearest ÷ cheapest at most


class Timed:
    """A stream with a stop-watch that runs only while keys are made."""

    def __init__(self, stream: Zipf) -> None:
        self._stream = stream
        self.nanoseconds = 0

    def chunks(self, size: int) -> Iterator[U64]:
        began = perf_counter_ns()
        chunks = self._stream.chunks(size)
        while (keys := next(chunks, None)) is not None:
            self.nanoseconds += perf_counter_ns() - began
            yield keys
            began = perf_counter_ns()
        self.nanoseconds += perf_counter_ns() - began

    def length(self) -> int | None:
        return self._stream.length()

    def describe(self) -> dict[str, Any]:
        return self._stream.describe()


def one_run(messages: int, keys: int) -> dict[str, float]:
    """Nanoseconds per message of one simulation, and of its parts."""
    stream = Timed(Zipf(exponent=ZIPF, keys=keys, messages=messages, seed=1))
    began = perf_counter_ns()
    result = simulate(GROUPING, stream, WORKERS, SOURCES, seed=1)
    whole = (perf_counter_ns() - began) / messages
    making, routing = stream.nanoseconds / messages, result.ns_per_message
    return {"whole": whole, "making": making, "routing": routing, "rest": whole - making - routing}


def measured(keys: int, most: int, progress: Progress = say_nothing) -> list[dict[str, Any]]:
    """One row per length: the round with the shortest whole."""
    lengths = [length for length in LENGTHS if length <= most]
    one_run(lengths[0], keys)  # compiles
    best: dict[int, dict[str, float]] = {}
    rounds = max(ROUNDS.values())
    for number in range(rounds):
        progress("rounds", number, rounds)
        for length in lengths:
            if number < ROUNDS[length]:
                run = one_run(length, keys)
                if length not in best or run["whole"] < best[length]["whole"]:
                    best[length] = run
    return [
        {
            "messages": length,
            **best[length],
            "messages_per_second": 1e9 / best[length]["whole"],
            "messages_per_second_without_making": 1e9
            / (best[length]["whole"] - best[length]["making"]),
        }
        for length in lengths
    ]


def run(
    most: Annotated[int, "The longest stream."] = LENGTHS[-1],
    keys: Annotated[int, "Keys of the stream."] = 10_000,
    progress: Progress = say_nothing,
) -> Result:
    if most < LENGTHS[0]:
        raise InputError(f"--most must be at least {LENGTHS[0]}, got {most}")
    rows = measured(keys, most, progress)
    slowest = min(row["messages_per_second"] for row in rows)
    wholes = [row["whole"] for row in rows]
    answer = {
        "grouping": GROUPING, "workers": WORKERS, "sources": SOURCES, "zipf": ZIPF,
        "keys": keys, "rows": rows, "slowest_per_second": slowest,
        "fast_enough": slowest >= FAST, "dearest_to_cheapest": max(wholes) / min(wholes),
        "flat": max(wholes) <= FLAT * min(wholes),
    }  # fmt: skip
    shown = [
        {
            "messages": row["messages"],
            **{
                f"ns: {part}": f"{row[part]:.1f}" for part in ("whole", "making", "routing", "rest")
            },
            "M per second": f"{row['messages_per_second'] / 1e6:.1f}",
            "stream already made": f"{row['messages_per_second_without_making'] / 1e6:.1f}",
        }
        for row in rows
    ]
    title = f"{GROUPING}, {WORKERS} workers, {SOURCES} sources, z = {ZIPF}, {keys:,} keys"
    goals = (
        Goal(
            "million messages per second at the slowest, making the stream included",
            slowest / 1e6,
            FAST / 1e6,
            at_least=True,
        ),
        Goal("flat: dearest ÷ cheapest", max(wholes) / min(wholes), FLAT),
    )
    return Result(answer, (Table(shown, title),), goals=goals)
