"""Little state moved, within the routing table's limit."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

from evenflow.model.validation import check_not_negative
from evenflow.planning.assigning import (
    Assignment,
    Room,
    assign,
    assign_nothing,
    at_theta,
    by_state,
    prepare,
    workers_after,
)
from evenflow.planning.min_table import MinTable
from evenflow.planning.protocol import Constraints, Proposal, Statistics

MOST_TRIALS = 20
RELAXATIONS = 8
WORTH = 0.9


@dataclass(frozen=True)
class Mixed:
    """MinMig, after moving back as many keys with little state as the routing table requires.

    The first trial moves none back. While the table is too large, the next trial moves back as many
    more keys as there were excess entries. (As printed, a trial forgets how many keys the last one
    moved back, so it can alternate between two numbers for ever. Sums cannot.) After `MOST_TRIALS`, all
    keys are moved back.

    If no trial respects the constraints, MinTable is tried, and θmax is relaxed by bisection between
    its value and the load with an empty table. The result is the plan that exceeds its limits, of load
    and of table, by the smallest fraction; or no move at all if no plan is a tenth better: a plan that
    violates its constraints must be worth its moves.

    Guarantee: if a trial respects all constraints, so does the plan. Otherwise it exceeds its limits by
    no greater fraction than MinTable's plan, except for the tenth in favour of staying.

    Parameters:
        beta: the weight of the cost against that of the state in γ = c^β / S.
        literal: the paper's Algorithm 4 without what is said above: a trial moves back as many keys as
            the last one had excess entries, and the last trial is the plan, whatever limits it exceeds.
            Where the printed loop would not end, all keys are moved back: §V says that Mixed then
            "degenerates to MinTable". The guarantee is only that of `MinMig`.

    Example:
        >>> seen = Statistics.of([7, 4, 5, 2, 1, 1], worker=[0, 0, 0, 1, 1, 1], home=[0, 0, 1, 0, 1, 1])
        >>> plan = Mixed().plan(seen, Constraints(2, theta=0.1, table_limit=2))
        >>> plan.loads().tolist(), plan.table_size(), plan.details["trials"]
        ([11.0, 9.0], 2, 2)

    Paper: "Parallel stream processing against workload skewness and variance", §III-C, Algorithm 4.
    """

    name: ClassVar[str] = "mixed"
    symbol: ClassVar[str] = "Mixed"

    beta: float = 1.5
    literal: bool = False

    def __post_init__(self) -> None:
        check_not_negative("β", self.beta)

    def plan(self, statistics: Statistics, constraints: Constraints) -> Proposal:
        room = prepare(statistics, constraints, by_cost=False, beta=self.beta)
        if not self.literal:
            return best_proposal(room, trials(room), self.name, first=True)
        *before, last = printed_trials(room)
        details = _details(self.name, last, 1 + len(before))
        workers = workers_after(room, last)
        return Proposal(statistics, constraints, workers, self.name, details)


def printed_trials(room: Room) -> Iterator[Assignment]:
    """Algorithm 4 as printed: move back no key, then as many as the previous trial had excess entries,
    until there are none. Where a number comes again, which would go on for ever, or after
    `MOST_TRIALS`, all keys are moved back."""
    order = by_state(room)
    tried: list[int] = []
    back = 0
    while back not in tried and len(tried) < MOST_TRIALS - 1:
        found = assign(room, order[:back])
        yield found
        over = found.table_size - room.constraints.table_limit
        if over <= 0:
            return
        tried.append(back)
        back = min(over, len(order))
    if len(order):
        yield assign(room, order)


def trials(room: Room) -> Iterator[Assignment]:
    """Move back no key, then as many more as there were excess entries in the previous trial."""
    found = assign(room)
    yield found
    over = found.table_size - room.constraints.table_limit
    if over <= 0 or not len(room.loose):
        return
    order, back = by_state(room), 0
    for trial in range(2, MOST_TRIALS + 1):
        back = min(back + over, len(order)) if trial < MOST_TRIALS else len(order)
        found = assign(room, order[:back])
        yield found
        over = found.table_size - room.constraints.table_limit
        if over <= 0 or back == len(order):
            return


def best_proposal(
    room: Room, found: Iterable[Assignment], planner: str, first: bool = False
) -> Proposal:
    """`best_assignment`, as a proposal for the keys."""
    chosen, details = best_assignment(room, found, planner, first)
    workers = workers_after(room, chosen)
    return Proposal(room.statistics, room.constraints, workers, planner, details)


def best_assignment(
    room: Room, found: Iterable[Assignment], planner: str, first: bool = False
) -> tuple[Assignment, dict[str, Any]]:
    """The first assignment that respects all constraints if `first` is set, else the one that moves
    least; as described in `Mixed` if none respects them. Also returns how it was found."""
    constraints = room.constraints
    chosen, tried = None, 0
    for assignment in found:
        tried += 1
        trial = _Choice.of(planner, assignment, constraints)
        chosen = trial if chosen is None else chosen.better(trial)
        if first and chosen.excess == 0:
            break
    assert chosen is not None  # the trial that moves nothing back always exists
    if not (first and chosen.excess == 0):
        cleaned = prepare(room.statistics, constraints, by_cost=True, counts=room.counts())
        plan = assign(cleaned, cleaned.loose)
        chosen = chosen.better(_Choice.of(MinTable.name, plan, constraints))
    if chosen.excess > 0:
        for assignment in _relaxed(room):
            chosen = chosen.better(_Choice.of("relaxed", assignment, constraints))
        stay = _Choice.of("staying", assign_nothing(room), constraints)
        if chosen.excess > WORTH * stay.excess:
            chosen = stay
    return chosen.assignment, _details(chosen.by, chosen.assignment, tried)


def _details(by: str, found: Assignment, tried: int) -> dict[str, Any]:
    """How a plan was found."""
    return {
        "by": by,
        "trials": tried,
        "moved_back": len(found.moved_back),
        "unfit": found.unfit,
    }


def _relaxed(room: Room) -> Iterator[Assignment]:
    """Mixed with a larger θmax, approaching the smallest one that is feasible."""
    limit = room.constraints.table_limit
    empty = assign(at_theta(room, float("inf")), room.loose)
    yield empty
    low, high = room.constraints.theta, empty.overload
    for _ in range(RELAXATIONS):
        middle = (low + high) / 2
        *_, last = trials(at_theta(room, middle))
        yield last
        if last.unfit == 0 and last.table_size <= limit:
            high = middle
        else:
            low = middle


class _Choice(NamedTuple):
    """A candidate plan: less excess is better, then less migration."""

    excess: float
    migration: float
    by: str
    assignment: Assignment

    @classmethod
    def of(cls, by: str, assignment: Assignment, constraints: Constraints) -> _Choice:
        return cls(assignment.excess(constraints), assignment.migration, by, assignment)

    def better(self, other: _Choice) -> _Choice:
        return other if other[:2] < self[:2] else self
