"""Runs cells, the longest first, keeps each as it is finished, and says how long it will take."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from dataclasses import dataclass
from time import perf_counter
from typing import Any

from evenflow.model import InputError
from evenflow_lab.experiments.cells import Cell, cost, describe, run_and_time
from evenflow_lab.experiments.store import CellStore, changed_meanwhile, digest
from evenflow_lab.workloads.declaration import make_workload

Outcome = dict[str, Any]  #: `rows`, and `seconds` that they took
Execute = Callable[[Sequence[Cell]], Iterator[tuple[int, Outcome]]]  #: (number, outcome), any order

_TINY_STREAM = {"name": "zipf", "zipf": 1.4, "keys": 1_000, "messages": 50_000, "seed": 1}


@dataclass(frozen=True)
class Progress:
    """How far a run has come.

    Parameters:
        done, total: cells; those that were kept from an earlier run count as done.
        what: the cell that was finished last.
        seconds_left: an estimate; None before the first cell is finished.
    """

    done: int
    total: int
    what: str
    seconds_left: float | None


def run_cells(
    cells: Iterable[Cell],
    store: CellStore,
    execute: Execute,
    progress: Callable[[Progress], object] | None = None,
    jobs: int = 1,
) -> dict[str, Outcome]:
    """Digest → outcome of every cell: what is in the store is taken from there, the rest is run.

    Guarantee: equal cells run once. A cell is in the store as soon as it is finished, so that a run
    that is killed loses at most the cells under way. Nothing is kept of a cell whose analysis or input
    file changed under way: an `InputError` says so.

    Parameters:
        cells: what to run.
        store: where finished cells are.
        execute: who runs them: `on_processes`, or Spark.
        progress: called after every cell.
        jobs: how many run at once, for the estimate of the time left.
    """
    wanted: dict[str, Cell] = {digest(cell): cell for cell in cells}
    outcomes: dict[str, Outcome] = {}
    for name in wanted:
        kept = store.get(name)
        if kept is not None:
            outcomes[name] = kept
    missing = sorted(
        (name for name in wanted if name not in outcomes), key=lambda name: -cost(wanted[name])
    )
    clock = _Estimate([wanted[name] for name in missing], jobs)

    def tell(what: str) -> None:
        if progress is not None:
            progress(Progress(len(outcomes), len(wanted), what, clock.seconds_left()))

    tell("")
    if missing:
        for number, outcome in execute([wanted[name] for name in missing]):
            name = missing[number]
            if digest(wanted[name]) != name:
                raise changed_meanwhile(wanted[name])
            store.put(name, wanted[name], outcome)
            outcomes[name] = outcome
            clock.finished(wanted[name], outcome["seconds"])
            tell(describe(wanted[name]))
    return outcomes


def on_processes(cells: Sequence[Cell], jobs: int) -> Iterator[tuple[int, Outcome]]:
    """Runs cells on `jobs` processes of this machine, or in this one if a single job is wanted.

    Processes are spawned, not forked: threads of Arrow and locks of the compiler do not survive a
    fork. They end when this process does, even if it is killed.
    """
    warm_up(cells)
    jobs = min(jobs, len(cells))
    if jobs <= 1:
        for number, cell in enumerate(cells):
            yield number, run_and_time(cell)
        return
    strangers = set(multiprocessing.active_children())
    pool = ProcessPoolExecutor(
        jobs, mp_context=multiprocessing.get_context("spawn"), initializer=_begin_worker
    )
    try:
        waiting: dict[Future[Outcome], int] = {
            pool.submit(run_and_time, cell): number for number, cell in enumerate(cells)
        }
        while waiting:
            for future in wait(waiting, return_when=FIRST_COMPLETED).done:
                yield waiting.pop(future), future.result()
    except BrokenProcessPool:
        raise InputError(
            "a process that ran cells was killed, most likely because memory ran out; what is "
            "finished is kept: run the command again with a smaller --jobs"
        ) from None
    except BaseException:
        # After an error or Ctrl-C nobody waits for the cells under way.
        pool.shutdown(wait=False, cancel_futures=True)
        for process in set(multiprocessing.active_children()) - strangers:
            process.terminate()
        raise
    finally:
        pool.shutdown(wait=True)


def _begin_worker() -> None:
    """Ctrl-C is for the parent to deal with; and without a parent there is nothing to do."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    assert parent is not None

    def end_with_parent() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=end_with_parent, daemon=True).start()


def warm_up(cells: Iterable[Mapping[str, Any]]) -> None:
    """Compiles in this process what the cells need, so that other processes find it on disk."""
    streams: dict[str, Mapping[str, Any]] = {}
    small: dict[tuple[str, str], Cell] = {}
    for cell in cells:
        if cell["kind"] != "analysis":
            name = cell["grouping"].partition(":")[0]
            streams.setdefault(str(cell["workload"].get("name")), cell["workload"])
            tiny = {**cell, "workload": _TINY_STREAM}
            if "cluster" in cell:
                tiny["cluster"] = {**cell["cluster"], "changes": [], "slots": None}
            small.setdefault((cell["kind"], name), tiny)
    # A cell that cannot run says so when its turn comes, with its own parameters.
    for stream in streams.values():
        with suppress(InputError):
            next(iter(make_workload(stream).chunks(1_000)), None)
    for cell in small.values():
        with suppress(InputError):
            run_and_time(cell)


class _Estimate:
    """The time left, from the speed so far of runs of the same kind, scheme and workload; where
    there is none yet, of the same kind, or of all."""

    def __init__(self, cells: Sequence[Cell], jobs: int) -> None:
        self._jobs = jobs
        self._began = perf_counter()
        self._seconds: dict[tuple[str, ...], float] = defaultdict(float)
        self._work: dict[tuple[str, ...], float] = defaultdict(float)
        self._left: dict[tuple[str, ...], float] = defaultdict(float)
        for cell in cells:
            self._left[_group(cell)] += cost(cell)

    def finished(self, cell: Cell, seconds: float) -> None:
        group = _group(cell)
        self._left[group] -= cost(cell)
        for known in (group, group[:1], ()):
            self._seconds[known] += seconds
            self._work[known] += cost(cell)

    def seconds_left(self) -> float | None:
        if not self._work[()]:
            return None
        total = 0.0
        for group, work in self._left.items():
            known = next(k for k in (group, group[:1], ()) if self._work[k])
            total += work * self._seconds[known] / self._work[known]
        # Cells run beside each other: as many at a time as have done so far.
        at_once = self._seconds[()] / max(perf_counter() - self._began, 1e-9)
        return max(0.0, total) / min(max(at_once, 1.0), self._jobs)


def _group(cell: Cell) -> tuple[str, ...]:
    if cell["kind"] == "analysis":
        return "analysis", cell["paper"], cell["function"]
    scheme = cell["grouping"].partition(":")[0]
    return cell["kind"], scheme, str(cell["workload"].get("name"))
