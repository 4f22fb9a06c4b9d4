"""Little state moved, within the routing table's limit."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import ClassVar

from evenflow.model.validation import check_not_negative
from evenflow.planning.assigning import (
    Assignment,
    Room,
    assign,
    assign_nothing,
    by_state,
    prepare,
    workers_after,
)
from evenflow.planning.min_table import MinTable
from evenflow.planning.protocol import Constraints, Proposal, Statistics

MOST_TRIALS = 20


@dataclass(frozen=True)
class Mixed:
    """MinMig, after as many keys with little state were moved back as the routing table needs.

    The first trial moves none back. While the table is too large, the next one moves back so many more
    as there were entries too many. (As printed, a trial forgets how many the last one moved back: two
    numbers can then follow each other for ever. The sum of the text's "overused" entries cannot.) After
    `MOST_TRIALS`, all are moved back. If that does not keep the constraints either, the trial, the
    plan of MinTable or staying comes back that exceeds its limits by the least part.

    Guarantee: if a trial keeps all constraints, so does the plan.

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
        return best_proposal(room, _trials(room), self.name, first=True)


def _trials(room: Room) -> Iterator[Assignment]:
    """n = 0, then so many more as there were entries too many in the trial before."""
    found = assign(room)
    yield found
    order, back = by_state(room), 0
    for trial in range(2, MOST_TRIALS + 1):
        over = found.table_size - room.constraints.table_limit
        if over <= 0 or back == len(order):
            return
        back = min(back + over, len(order)) if trial < MOST_TRIALS else len(order)
        found = assign(room, order[:back])
        yield found


def best_proposal(
    room: Room, trials: Iterable[Assignment], planner: str, first: bool = False
) -> Proposal:
    """The `first` trial that keeps all constraints, if that is asked for and there is one. Else of the
    trials, MinTable's and staying, the one that exceeds its limits by the least part (0 if it keeps
    them), then the one that moves least."""
    seen, constraints = room.statistics, room.constraints
    best, tried = (float("inf"), float("inf")), 0
    chosen, by = assign_nothing(room), "staying"
    for found in trials:
        tried += 1
        merit = found.excess(constraints), found.migration
        if merit < best:
            best, chosen, by = merit, found, planner
        if first and merit[0] == 0:
            break
    if best[0] > 0 or not first:
        # Other planners of one trial: what they found is no worse for not being Mixed's own.
        cleaned = prepare(seen, constraints, by_cost=True)
        for name, found in (
            (MinTable.name, assign(cleaned, cleaned.loose)),
            ("staying", assign_nothing(room)),
        ):
            merit = found.excess(constraints), found.migration
            if merit < best:
                best, chosen, by = merit, found, name
    told = {"trials": tried, "moved_back": len(chosen.moved_back), "unfit": chosen.unfit, "by": by}
    return Proposal(seen, constraints, workers_after(room, chosen), planner, told)
