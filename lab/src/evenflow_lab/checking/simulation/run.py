"""Many schedules, on several processes: progress, a summary, and failing ones made small."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from itertools import chain
from multiprocessing import get_context

from evenflow.model import InputError
from evenflow_lab.checking.simulation.outcome import Outcome, run_schedule
from evenflow_lab.checking.simulation.schedule import KINDS, Schedule
from evenflow_lab.checking.simulation.shrink import shrink

_CHUNK = 50  # schedules that a process takes at a time
_EVERY = 5.0  # seconds between two lines of progress
_COMMAND = "python -m evenflow_lab.checking.simulation"


def seeds_of(text: str) -> range:
    """The seeds that a person names: a count, one seed or a range.

    Example:
        >>> seeds_of("100"), seeds_of("7:8"), seeds_of("1000:3000")
        (range(0, 100), range(7, 8), range(1000, 3000))
    """
    first, colon, end = text.replace("_", "").partition(":")
    if not first.isdigit() or (colon and not end.isdigit()):
        raise InputError(
            f"seeds are a count such as 1000, or a range such as 1000:3000, got {text!r}"
        )
    return range(int(first), int(end)) if colon else range(int(first))


def run_seeds(
    seeds: Sequence[int], kinds: tuple[str, ...] | None = None, processes: int = 1
) -> Iterator[Outcome]:
    """The outcome of the schedule of each seed, in order.

    Parameters:
        seeds: one schedule each.
        kinds: of work; None for the usual mixture.
        processes: how many share the seeds.
    """
    if processes == 1:
        for seed in seeds:
            yield run_schedule(Schedule.of(seed, kinds))
        return
    chunks = [seeds[i : i + _CHUNK] for i in range(0, len(seeds), _CHUNK)]
    pool = ProcessPoolExecutor(processes, get_context("forkserver"))
    try:
        yield from chain.from_iterable(pool.map(partial(_run_chunk, kinds), chunks))
    finally:
        pool.shutdown(cancel_futures=True)


def _run_chunk(kinds: tuple[str, ...] | None, seeds: Sequence[int]) -> list[Outcome]:
    return [run_schedule(Schedule.of(seed, kinds)) for seed in seeds]


def failure_text(outcome: Outcome) -> str:
    """A failing schedule, made small, with the command that repeats it."""
    small = shrink(outcome.schedule, lambda s: run_schedule(s).violation is not None)
    lines = [f"seed {outcome.schedule.seed} ({small.kind}): {outcome.violation}"]
    if small != outcome.schedule:
        lines.append(f"made small: {run_schedule(small).violation}")
    lines += [f"  {fault.what} before call {fault.at} ({fault.length})" for fault in small.faults]
    lines.append(f"repeat it: {_COMMAND} --schedule '{small.to_json()}'")
    return "\n".join(lines)


class Summary:
    """How many schedules there were, of which kinds, and what happened in them."""

    def __init__(self) -> None:
        self.failed = self.refused = 0
        self._kinds: Counter[str] = Counter()
        self._faults: Counter[str] = Counter()

    @property
    def schedules(self) -> int:
        return self._kinds.total()

    def add(self, outcome: Outcome) -> None:
        self._kinds[outcome.schedule.kind] += 1
        self.refused += outcome.refused is not None
        self.failed += outcome.violation is not None
        for what, number in outcome.happened.items():
            if not what.startswith("ended: "):
                self._faults[what] += number

    def text(self, seconds: float) -> str:
        listed = ", ".join(f"{n:,} × {what}" for what, n in sorted(self._faults.items()))
        kinds = ", ".join(f"{n:,} × {kind}" for kind, n in sorted(self._kinds.items()))
        return (
            f"{self.schedules:,} schedules in {seconds:.0f} s: {self.failed} with a violation, "
            f"{self.refused} in which the query rightly refused to go on\n  work: {kinds}\n"
            f"  {self._faults.total():,} faults: {listed}"
        )


def main(arguments: Sequence[str] | None = None) -> int:
    """Run schedules; 1 if a promise was broken, 2 if the arguments make no sense."""
    parser = argparse.ArgumentParser(prog=_COMMAND, description=__doc__)
    parser.add_argument("--seeds", default="1000", help="a count, or a range such as 1000:3000")
    parser.add_argument("--schedule", help="run this one, as a failing one has printed it")
    parser.add_argument("--kinds", help=f"separated by semicolons, of: {'; '.join(KINDS)}")
    parser.add_argument("--minutes", type=float, help="stop after so long, whatever is left")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    options = parser.parse_args(arguments)
    try:
        if options.schedule is not None:
            return _run_one(Schedule.from_json(options.schedule))
        kinds = None if options.kinds is None else tuple(options.kinds.split(";"))
        for kind in kinds or ():
            if kind not in KINDS:
                raise InputError(f"there is no kind {kind!r}; there are {'; '.join(KINDS)}")
        seconds = None if options.minutes is None else 60 * options.minutes
        return _run_many(seeds_of(options.seeds), kinds, max(options.processes, 1), seconds)
    except InputError as error:
        print(error, file=sys.stderr)
        return 2


def _run_one(schedule: Schedule) -> int:
    outcome = run_schedule(schedule)
    print(f"{outcome.calls} calls, trace {outcome.trace}")
    print(outcome.violation or outcome.refused or "everything holds")
    return int(outcome.violation is not None)


def _run_many(
    seeds: range, kinds: tuple[str, ...] | None, processes: int, most: float | None
) -> int:
    began = said = time.monotonic()
    summary = Summary()
    for outcome in run_seeds(seeds, kinds, processes):
        summary.add(outcome)
        if outcome.violation is not None:
            print(failure_text(outcome), flush=True)
        if time.monotonic() - said > _EVERY:
            said = time.monotonic()
            done, rate = summary.schedules, summary.schedules / (said - began)
            print(f"{done:,} of {len(seeds):,} schedules, {rate:.0f} a second", flush=True)
        if most is not None and time.monotonic() - began > most:
            break
    print(summary.text(time.monotonic() - began))
    return int(summary.failed > 0)
