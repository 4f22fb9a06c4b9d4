"""Phases I to III of mixed routing, shared by all its planners.

    room = prepare(statistics, constraints, by_cost=False, beta=1.5)     # once
    found = assign(room)                                                 # nothing moved back
    found = assign(room, by_state(room)[:10])                            # ten keys moved back
    workers = workers_after(room, found)

`prepare` visits every key; later calls of `assign` visit only the keys that they move. A row may stand
for several identical keys (`counts`); `Assignment.amounts` then gives how many of them go where.

Where the paper is silent, or does not terminate:

- "Until within Lmax" and Adjust's test (line 12) are ≤ as in the text, not < as in the pseudo-code:
  Figure 4 needs ≤. Half a billionth of a worker's share is allowed for rounding.
- E, "selected by ψ", takes keys in the order of ψ until (iii) holds.
- A key that fits nowhere would stay in C for ever: it goes to the least loaded worker and is counted.
- Ties: candidates by cost, then by smaller key; ψ likewise; η (smallest state first) by smaller cost,
  then by smaller key; workers by load over weight, then by number.
- In every planner, keys of a worker that leaves go home in phase I: they must move anyway, and at home
  they need no entry in the table. Phase II then treats them like all other keys there.

Paper: "Parallel stream processing against workload skewness and variance", §III.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from evenflow.kernels import assigning as kernels
from evenflow.kernels.lazy_order import Order, Rows, new_order
from evenflow.planning.protocol import F64, I32, Constraints, Statistics

I64 = npt.NDArray[np.int64]

_ROUNDING = 5e-10  #: of a worker's share; half of the tolerance of `Proposal.failures`
_BITS = 61  #: of the total work, as a whole number
_MOST = float(1 << 62)
_NONE = np.zeros(0, np.int32)
_ONE_EACH = np.zeros(0, np.int64)


class Room(NamedTuple):
    """The result of `prepare`, for any number of calls of `assign`; only they change it."""

    statistics: Statistics
    constraints: Constraints
    rows: Rows
    place: I32  #: where each row is before phase I: never on a worker that leaves
    by_cost: bool
    beta: float
    total: int  #: the work of all keys, in 1/`rows.scale`
    limits: I64
    fixed: Order  #: rows at home, by worker
    fixed_loads: I64
    loose: I32  #: rows away from home, in no order
    heavy: Order
    desk: kernels.Desk

    def counts(self) -> I64 | None:
        """The number of keys per row, in the form that `prepare` takes."""
        return self.rows.keys_alike if len(self.rows.keys_alike) else None


@dataclass(frozen=True)
class Assignment:
    """The result of phases I to III.

    Parameters:
        moved_back: rows that phase I sent home.
        rows: rows that phase III placed; all others stay.
        workers: the target of each, possibly where it came from.
        amounts: how many keys of the row move; 1 unless rows stand for several.
        unfit: the number of keys that fit nowhere and went to the least loaded worker.
        table_size: the number of entries in the routing table.
        migration: bytes of state that move, not counting workers that leave.
        overload: how far the worst worker is above its share.
    """

    moved_back: I32
    rows: I32
    workers: I32
    amounts: I64
    unfit: int
    table_size: int
    migration: float
    overload: float

    def excess(self, constraints: Constraints) -> float:
        """The fraction by which it exceeds its limits of load and of table, added up."""
        load = (1 + self.overload) / (1 + constraints.theta) - 1
        table = (self.table_size - constraints.table_limit) / max(constraints.table_limit, 1)
        return (load if load > 2 * _ROUNDING else 0.0) + max(table, 0.0)


def prepare(
    statistics: Statistics,
    constraints: Constraints,
    by_cost: bool,
    beta: float = 1.5,
    counts: I64 | None = None,
) -> Room:
    """Group the keys by worker.

    Parameters:
        statistics: one row per key; with `counts`, a row stands for several identical keys, and `keys`
            are any distinct numbers.
        constraints: the workers, θmax and their weights; the table's limit is ignored.
        by_cost: ψ is "highest cost first", else "largest γ first".
        beta: the exponent of the cost in γ = c^β / S.
        counts: the number of keys per row.
    """
    constraints.check(statistics)
    n = constraints.workers
    rows, total = _scaled(statistics.costs, statistics.keys, counts)
    place = _live_places(statistics, n)
    light = _light(constraints, total / rows.scale)
    loads, sizes = np.zeros(n, np.int64), np.zeros(n + 2, np.int64)
    kernels.survey(rows, place, statistics.home, light, loads, sizes)
    fixed, heavy = new_order(sizes[:n]), new_order(sizes[n + 1 :])
    loose = np.empty(sizes[n], np.int32)
    kernels.deal_out(
        *(rows, statistics.state, place, statistics.home, light, by_cost, beta),
        *(fixed, fixed.start[:-1].copy(), loose, heavy),
    )
    return Room(
        *(statistics, constraints, rows, place, by_cost, beta, total),
        limits=_limits(constraints, constraints.theta, total),
        fixed=fixed,
        fixed_loads=loads,
        loose=loose,
        heavy=heavy,
        desk=_new_desk(len(statistics), n, rows.keys_alike),
    )


def at_theta(room: Room, theta: float) -> Room:
    """The same for a larger θmax."""
    return room._replace(limits=_limits(room.constraints, theta, room.total))


def by_state(room: Room) -> I32:
    """The rows in the routing table in the order η in which Mixed moves them back."""
    seen, loose = room.statistics, room.loose
    order = np.lexsort((seen.keys[loose], seen.costs[loose], seen.state[loose]))
    return loose[order]


def assign(room: Room, moved_back: I32 = _NONE) -> Assignment:
    """Phase I sends the rows `moved_back`, some of `room.loose`, home; phase II takes keys, by ψ, from
    each worker above its limit; phase III, LLFD, finds a worker for each of them.

    Guarantee: each key is placed at most once, so it terminates. Nothing depends on the order of the
    rows. If no key is unfit, no worker is above its limit.
    """
    seen, place, n = room.statistics, room.place, room.constraints.workers
    place[moved_back] = seen.home[moved_back]
    loads, sizes = room.fixed_loads.copy(), np.zeros(n, np.int64)
    kernels.survey_loose(room.rows, place, room.loose, loads, sizes)
    loose = new_order(sizes)
    kernels.deal_out_loose(
        *(room.rows, seen.state, place, room.loose, room.by_cost, room.beta),
        *(loose, loose.start[:-1].copy()),
    )
    crew, desk = _new_crew(room, loads, loose), room.desk
    desk.counters[:] = 0
    kernels.relieve_and_assign(room.rows, room.fixed, loose, room.heavy, place, crew, desk)
    entries, migration = kernels.sum_up(
        room.rows, seen.state, seen.worker, seen.home, place, moved_back, desk, n
    )
    place[moved_back] = seen.worker[moved_back]
    moves = slice(0, int(desk.counters[kernels.MOVES]))
    return Assignment(
        moved_back=moved_back,
        rows=desk.row[moves].copy(),
        workers=desk.worker[moves].copy(),
        amounts=desk.amount[moves].copy(),
        unfit=int(desk.counters[kernels.UNFIT]),
        table_size=_keys_in(room, room.loose) - _keys_in(room, moved_back) + int(entries),
        migration=float(migration),
        overload=_overload(room, crew.load),
    )


def assign_nothing(room: Room) -> Assignment:
    """Every key stays, except that keys of workers that leave go home."""
    loads, sizes = room.fixed_loads.copy(), np.zeros(room.constraints.workers, np.int64)
    kernels.survey_loose(room.rows, room.place, room.loose, loads, sizes)
    return Assignment(
        *(_NONE, _NONE, _NONE, _ONE_EACH),
        unfit=0,
        table_size=_keys_in(room, room.loose),
        migration=0.0,
        overload=_overload(room, loads),
    )


def workers_after(room: Room, found: Assignment) -> I32:
    """F′ of every key, where each row is one key."""
    workers = room.place.copy()
    workers[found.moved_back] = room.statistics.home[found.moved_back]
    workers[found.rows] = found.workers
    return workers


def _live_places(statistics: Statistics, n: int) -> I32:
    """F(k), or h(k) if the worker leaves."""
    place = statistics.worker.copy()
    if len(place) and place.max() >= n:
        np.copyto(place, statistics.home, where=place >= n)
    return place


def _scaled(costs: F64, keys: npt.NDArray[np.uint64], counts: I64 | None) -> tuple[Rows, int]:
    """Rows with a scale at which the total work fills `_BITS` bits, and that work.

    The scale must not depend on the order of the rows. So the work is first added up at a scale derived
    from the greatest cost alone, and the scale is then corrected."""
    count = _ONE_EACH if counts is None else np.ascontiguousarray(counts, np.int64)
    n_keys = len(costs) if counts is None else int(count.sum())
    greatest = float(costs.max(initial=0.0))
    if greatest <= 0.0:
        return Rows(costs, keys, count, 1.0), 0
    exponent = _BITS - n_keys.bit_length() - int(np.frexp(greatest)[1])
    rows = Rows(costs, keys, count, _power_of_two(exponent))
    exponent += _BITS - (int(kernels.total_work(rows)) + n_keys).bit_length()
    rows = rows._replace(scale=_power_of_two(exponent))
    return rows, int(kernels.total_work(rows))


def _power_of_two(exponent: int) -> float:
    return 2.0 ** min(max(exponent, -1000), 1000)


def _limits(constraints: Constraints, theta: float, total: int) -> I64:
    limits = (1 + theta + _ROUNDING) * max(total, 1) * constraints.shares()
    return np.minimum(limits, _MOST).astype(np.int64)


def _light(constraints: Constraints, total: float) -> float:
    """The cost up to which a key always fits on the least loaded worker.

    That worker has at most its share s of the work of all but this key: s·(T − c). The key fits if
    s·(T − c) + c ≤ (1 + θ)·s·T, that is c·(1 − s) ≤ θ·s·T."""
    least = float(constraints.shares().min())
    if least >= 1:
        return float("inf")
    return (1 - 1e-6) * constraints.theta * least * total / (1 - least)


def _new_desk(n_rows: int, n: int, count: I64) -> kernels.Desk:
    # A row of several keys goes to at most all workers. Memory that no move needs is never touched, so
    # the operating system never allocates it.
    moves = n_rows if not len(count) else int(np.minimum(count, n).sum())
    return kernels.Desk(
        taken=np.zeros(n_rows, np.int64),
        candidate=np.empty(n_rows, np.int32),
        candidate_cost=np.empty(n_rows, np.float64),
        row=np.empty(moves, np.int32),
        worker=np.empty(moves, np.int32),
        amount=np.empty(moves, np.int64),
        counters=np.zeros(4, np.int64),
    )


def _new_crew(room: Room, loads: I64, loose: Order) -> kernels.Crew:
    n, weights = len(loads), room.constraints.weights
    return kernels.Crew(
        limit=room.limits,
        weight=np.ones(n) if weights is None else np.array(weights, np.float64),
        load=loads,
        heavy=np.zeros(n, np.int64),
        ratio=np.zeros(n, np.float64),
        tree=np.full(2 << (n - 1).bit_length(), -1, np.int64),
        fixed_head=room.fixed.start[:-1].copy(),
        loose_head=loose.start[:-1].copy(),
        tally=np.zeros(n, np.int64),
    )


def _keys_in(room: Room, rows: I32) -> int:
    return int(room.rows.keys_alike[rows].sum()) if len(room.rows.keys_alike) else len(rows)


def _overload(room: Room, loads: I64) -> float:
    if not room.total:
        return 0.0
    return float((loads / (room.total * room.constraints.shares())).max()) - 1
