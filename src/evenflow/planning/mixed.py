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
    """MinMig, after as many keys with little state were moved back as the routing table needs.

    The first trial moves none back. While the table is too large, the next one moves back so many more
    as there were entries too many. (As printed, a trial forgets how many the last one moved back: two
    numbers can then follow each other for ever. Sums cannot.) After `MOST_TRIALS`, all are moved back.

    Where no trial keeps the constraints, MinTable is asked, and θmax is relaxed by halves of what there
    is between it and the load with an empty table. What comes back is then the plan that exceeds its
    limits, of load and of table, by the least part of them; or staying, if none is a tenth better: a
    plan that breaks its promise must be worth its moves.

    Guarantee: if a trial keeps all constraints, so does the plan. Otherwise it exceeds its limits by no
    greater a part than MinTable's plan, but for the tenth that staying is granted.

    Parameters:
        beta: the weight of the cost against that of the state in γ = c^β / S.

    Example:
        >>> seen = Statistics.of([7, 4, 5, 2, 1, 1], worker=[0, 0, 0, 1, 1, 1], home=[0, 0, 1, 0, 1, 1])
        >>> plan = Mixed().plan(seen, Constraints(2, theta=0.1, table_limit=2))
        >>> plan.loads().tolist(), plan.table_size(), plan.told["trials"]
        ([11.0, 9.0], 2, 2)

    Paper: "Parallel stream processing against workload skewness and variance", §III-C, Algorithm 4.
    """

    name: ClassVar[str] = "mixed"
    symbol: ClassVar[str] = "Mixed"

    beta: float = 1.5

    def __post_init__(self) -> None:
        check_not_negative("β", self.beta)

    def plan(self, statistics: Statistics, constraints: Constraints) -> Proposal:
        room = prepare(statistics, constraints, by_cost=False, beta=self.beta)
        return best_proposal(room, trials(room), self.name, first=True)


def trials(room: Room) -> Iterator[Assignment]:
    """n = 0, then so many more as there were entries too many in the trial before."""
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
    chosen, told = best_assignment(room, found, planner, first)
    workers = workers_after(room, chosen)
    return Proposal(room.statistics, room.constraints, workers, planner, told)


def best_assignment(
    room: Room, found: Iterable[Assignment], planner: str, first: bool = False
) -> tuple[Assignment, dict[str, Any]]:
    """The `first` that keeps all constraints, if that is asked for, else the one that moves least; and
    what `Mixed` says if none keeps them. With it, how it was found."""
    constraints = room.constraints
    chosen, tried = None, 0
    for assignment in found:
        tried += 1
        trial = _Choice.of(planner, assignment, constraints)
        chosen = trial if chosen is None else chosen.better(trial)
        if first and chosen.excess == 0:
            break
    assert chosen is not None  # there is always the trial that moves nothing back
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
    told = {
        "by": chosen.by,
        "trials": tried,
        "moved_back": len(chosen.assignment.moved_back),
        "unfit": chosen.assignment.unfit,
    }
    return chosen.assignment, told


def _relaxed(room: Room) -> Iterator[Assignment]:
    """Mixed with a larger θmax, closer and closer to the least that can be kept."""
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
    """A plan that may be chosen: the less it exceeds, then the less it moves, the better."""

    excess: float
    migration: float
    by: str
    assignment: Assignment

    @classmethod
    def of(cls, by: str, assignment: Assignment, constraints: Constraints) -> _Choice:
        return cls(assignment.excess(constraints), assignment.migration, by, assignment)

    def better(self, other: _Choice) -> _Choice:
        return other if other[:2] < self[:2] else self
