"""One schedule, run: what happened, and what was violated."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from evenflow_lab.checking.simulation.consumers import Group
from evenflow_lab.checking.simulation.queries import Query
from evenflow_lab.checking.simulation.schedule import CONSUMERS, Schedule
from evenflow_lab.checking.simulation.store import Store


@dataclass(frozen=True)
class Outcome:
    """What a schedule has come to.

    Parameters:
        schedule: that was run.
        violation: what does not hold; None if everything does.
        refused: what a query said that stopped for good, as it may after a disaster; None elsewhere.
        happened: fault → how often.
        calls: of all actors together.
        trace: a digest of all of them, in order.
    """

    schedule: Schedule
    violation: str | None
    refused: str | None
    happened: Counter[str] = field(compare=False)
    calls: int
    trace: str


def run_schedule(schedule: Schedule, store_kind: type[Store] = Store) -> Outcome:
    """Run a schedule and check all that must hold after it.

    Guarantee: the same schedule, the same outcome.

    Parameters:
        schedule: what happens.
        store_kind: the store of queries, which a planted bug may replace.

    Example:
        >>> outcome = run_schedule(Schedule.of(3, ("ledger",)))
        >>> outcome.violation is None, run_schedule(outcome.schedule).trace == outcome.trace
        (True, True)
    """
    ran: Group | Query
    ran = Group(schedule) if schedule.kind == CONSUMERS else Query(schedule, store_kind)
    violation = None
    try:
        ran.run()
    except Exception as error:
        violation = f"{type(error).__name__}: {error}"
    world, refused = ran.world, None if ran.refused is None else str(ran.refused)
    return Outcome(schedule, violation, refused, world.happened, world.calls, world.trace())
