"""A failing schedule made small: what can be left out, is."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from evenflow_lab.checking.simulation.schedule import Schedule


def shrink(schedule: Schedule, fails: Callable[[Schedule], bool], most: int = 400) -> Schedule:
    """The smallest schedule found that still fails: fewer faults, then fewer rows, then less of each.

    Parameters:
        schedule: that fails.
        fails: runs one.
        most: how many are tried.

    Example:
        >>> from evenflow_lab.checking.simulation.schedule import Fault
        >>> noisy = Schedule(1, "ledger", 20, tuple(Fault(at, "crash", 9) for at in range(5)))
        >>> small = shrink(noisy, lambda s: s.rows > 3 and any(f.at == 2 for f in s.faults))
        >>> small.rows, small.faults
        (4, (Fault(at=2, what='crash', length=1),))
    """
    tried = 0
    progress = True
    while progress:
        progress = False
        for candidate in _smaller(schedule):
            tried += 1
            if tried > most:
                return schedule
            if fails(candidate):
                schedule, progress = candidate, True
                break
    return schedule


def _smaller(schedule: Schedule) -> Iterator[Schedule]:
    faults = schedule.faults
    half = len(faults) // 2
    if half > 1:
        yield replace(schedule, faults=faults[:half])
        yield replace(schedule, faults=faults[half:])
    for i in range(len(faults)):
        yield replace(schedule, faults=faults[:i] + faults[i + 1 :])
    if schedule.orphans:
        yield replace(schedule, orphans=False)
    for rows in sorted({schedule.rows // 2, schedule.rows - 1}):
        if 1 <= rows < schedule.rows:
            yield replace(schedule, rows=rows)
    if schedule.switching > 0.05:
        yield replace(schedule, switching=0.05)
    for i, fault in enumerate(faults):
        if fault.length > 1:
            for length in sorted({1, fault.length // 2}):
                yield replace(
                    schedule,
                    faults=(*faults[:i], replace(fault, length=length), *faults[i + 1 :]),
                )
