"""Consistent grouping: many equal virtual workers, moved between uneven machines on their signals."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

import numpy as np

from evenflow.grouping.capacity import CapacityScheme, shares_of
from evenflow.grouping.dealing import dealt, redeal
from evenflow.grouping.hash_ring import hash_ring
from evenflow.grouping.protocol import I32, I64, U64
from evenflow.grouping.random_choices import State as Placement
from evenflow.grouping.random_choices import new_state, route_by_room
from evenflow.kernels.mixing import salt
from evenflow.model import Feedback, Signal, Workers
from evenflow.model.validation import check_not_negative, check_truth, check_whole


class Reports(NamedTuple):
    """What is known of each worker. Signals are numbered as they arrive."""

    latest: I64  #: its last signal
    waiting: I64  #: the queue that it is in: +1 idle, −1 busy, 0 none
    queued: I64  #: the number of the signal that put it there
    overloaded: I64  #: the number of the last signal that it was busy; 0: it has never been
    moved_at: np.ndarray  #: the time of its last move


class State(NamedTuple):
    placement: Placement  #: random-choices over virtual workers; its `ids` is virtual → worker
    live: I32  #: the roster
    weights: np.ndarray  #: its weights, as shares
    since: I64  #: per virtual worker: the number of the move that gave it to its worker
    workers: Reports
    numbers: I64  #: [moves so far, signals so far]


@dataclass(frozen=True)
class ConsistentGrouping(CapacityScheme):
    """Spreads keys over many small virtual workers of equal load; machines hold as many as they can.

    Keys go to virtual workers by random-choices. Busy and idle workers send signals, which wait in two
    first-in, first-out queues until they are used or the worker is neither any more. When a busy
    worker can be paired with an idle one, the virtual worker that the busy one has held longest moves;
    each worker takes part in at most one move per time slot. While nobody is idle, a worker that is not
    busy takes its place: one that never was, or else the one for which it is longest ago. A worker
    keeps at least one virtual worker, so that it keeps sending signals.

    Guarantee: virtual workers differ only by the slack of random-choices, so a worker that always holds
    v of V virtual workers gets at most v · ((1 + ε) · m/V + 1) of a source's m messages.

    Parameters:
        epsilon: how far above its fair share a virtual worker may be.
        patience: messages per worker, on average, between renewals of capacities; 0 renews them at
            every message.
        virtual: virtual workers per worker at the start (with weights: in proportion to them).
        time_slot: the shortest time between two moves of one worker, in the unit of `Feedback.time`.
        literal: the paper's form, with none of our additions: renews capacities at every message.
        circle: virtual workers lie at random points of the unit circle, and a hash function sends a key
            clockwise to the next one, as in consistent hashing. Otherwise they cut the circle into
            equal parts (docs/decisions/0081).

    Resizing is consistent: virtual workers keep their keys. A worker that joins takes its share of
    them from all others, those of one that leaves are dealt out, and what was learned about the others
    is kept. Only a roster larger than the number of virtual workers starts over.

    Example:
        >>> import numpy as np
        >>> scheme = ConsistentGrouping(virtual=4)
        >>> state = scheme.start(2)
        >>> signals = {0: Signal.DECREASE, 1: Signal.INCREASE}
        >>> scheme.observe(state, Feedback(time=1.0, signals=signals))
        >>> scheme.virtual_workers(state)
        {0: 3, 1: 5}

    Paper: CG in "Consistent Grouping", §V-B and §V-C; §VI-A for what happens while nobody is idle.
    """

    name: ClassVar[str] = "consistent"
    symbol: ClassVar[str] = "CG"
    weighted: ClassVar[bool] = True

    virtual: int = 10
    time_slot: float = 1.0
    circle: bool = field(default=False, kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_whole("virtual", self.virtual, least=1)
        check_not_negative("time_slot", self.time_slot)
        check_truth("circle", self.circle)

    def start(self, workers: Workers | int, seed: int = 0, source: int = 0) -> State:
        roster = self.roster(workers)
        counts = dealt(self.virtual * len(roster), shares_of(roster))
        owners = np.repeat(np.array(roster.ids, np.int32), counts)
        shares, word = np.full(len(owners), 1 / len(owners)), salt(seed)
        placement = new_state(owners, word, shares)
        if self.circle:
            circle = hash_ring(Workers.numbered(len(owners)), word, points=1)
            placement = new_state(owners, word, shares, circle=circle)
        return _with_roster(placement, roster, np.zeros(len(owners), np.int64))

    def route(self, state: State, keys: U64, out: I32) -> None:
        route_by_room(self.epsilon, self.lag(), *state.placement, keys, out)

    def candidates(self, state: State, key: int) -> I32:
        return np.unique(state.placement.ids)

    def observe(self, state: State, feedback: Feedback) -> None:
        """Queue the signals and make all moves that they allow."""
        workers = state.workers
        for worker, signal in feedback.signals.items():
            at = np.flatnonzero(state.live == worker)
            if not len(at):
                continue
            w = int(at[0])
            state.numbers[1] += 1
            workers.latest[w] = signal
            if signal == Signal.DECREASE:
                workers.overloaded[w] = state.numbers[1]
            if workers.waiting[w] != signal:
                workers.waiting[w], workers.queued[w] = signal, state.numbers[1]
        if workers.waiting.min() != Signal.DECREASE:
            return  # nobody has anything to give away
        held = np.array(list(self.virtual_workers(state).values()))
        while self._move_one(state, feedback.time, held):
            pass

    def _move_one(self, state: State, now: float, held: I64) -> bool:
        """Pair the longest waiting busy worker with the longest waiting idle one, or whoever may take
        part for it; False if there is no pair."""
        workers = state.workers
        rested = now - workers.moved_at >= self.time_slot
        givers = rested & (workers.waiting == Signal.DECREASE) & (held > 1)
        busy = _first(workers.queued, givers)
        if (workers.latest == Signal.INCREASE).any():
            idle = _first(workers.queued, rested & (workers.waiting == Signal.INCREASE))
        else:
            idle = _first(workers.overloaded, rested & (workers.latest == Signal.NEITHER))
        if busy is None or idle is None:
            return False
        owned = np.flatnonzero(state.placement.ids == state.live[busy])
        moving = owned[np.argmin(state.since[owned])]
        state.numbers[0] += 1
        state.placement.ids[moving] = state.live[idle]
        state.since[moving] = state.numbers[0]
        held[busy] -= 1
        held[idle] += 1
        for w in (busy, idle):
            workers.waiting[w] = 0
            workers.moved_at[w] = now
        return True

    def resize(self, state: State, workers: Workers | int) -> State:
        roster = self.roster(workers)
        weights, shares = shares_of(roster), self._learned_shares(state, roster)
        before = dict(zip(state.live.tolist(), state.weights.tolist(), strict=True))
        if before == dict(zip(roster.ids, weights.tolist(), strict=True)):
            return state
        if before.keys() == set(roster.ids):
            shares = weights
        if len(roster) > len(state.placement.ids):
            fresh = self.start(roster)
            return fresh._replace(placement=fresh.placement._replace(salt=state.placement.salt))
        placement = state.placement._replace(ids=state.placement.ids.copy())
        redeal(placement.ids, dict(zip(roster.ids, shares.tolist(), strict=True)))
        moved = placement.ids != state.placement.ids
        moves = int(state.numbers[0]) + 1
        resized = _with_roster(placement, roster, np.where(moved, moves, state.since), moves)
        resized.numbers[1] = state.numbers[1]
        for w, old in zip(*_common_places(resized.live, state.live), strict=True):
            for known, before_it in zip(resized.workers, state.workers, strict=True):
                known[w] = before_it[old]
        return resized

    def _learned_shares(self, state: State, roster: Workers) -> np.ndarray:
        """A newcomer gets the share of its weight; workers that stay divide the rest as they do now."""
        held = self.virtual_workers(state)
        stays = np.array([w in held for w in roster.ids])
        now = np.array([held.get(w, 0) for w in roster.ids], np.float64)
        shares = shares_of(roster)
        if now.sum() > 0:
            shares = np.where(stays, now / now.sum() * shares[stays].sum(), shares)
        return shares

    def virtual_workers(self, state: State) -> dict[int, int]:
        """The number of virtual workers of each worker."""
        owners, counts = np.unique(state.placement.ids, return_counts=True)
        held = dict(zip(owners.tolist(), counts.tolist(), strict=True))
        return {w: held.get(w, 0) for w in state.live.tolist()}

    def describe(self, state: State) -> dict[str, Any]:
        """The number of moves, and the fewest and most virtual workers of a worker."""
        held = list(self.virtual_workers(state).values())
        return {"moves": int(state.numbers[0]), "fewest": min(held), "most": max(held)}

    def check_guarantee(self, workers: Workers, keys: U64, out: I32) -> str | None:
        counts = dealt(self.virtual * len(workers), shares_of(workers))
        for w, v in zip(workers.ids, counts, strict=True):
            load = int((out == w).sum())
            most = v * ((1 + self.epsilon) * len(out) / counts.sum() + 1)
            if load > most:
                return f"worker {w} has {load} of {len(out)} messages, above {most:.1f}"
        return None


def _common_places(a: I32, b: I32) -> tuple[list[int], list[int]]:
    places = np.intersect1d(a, b, return_indices=True)[1:]
    return places[0].tolist(), places[1].tolist()


def _first(order: I64, who: np.ndarray) -> int | None:
    """The worker with the smallest number, of these; the first of equal ones."""
    numbers = np.flatnonzero(who)
    return int(numbers[np.argmin(order[numbers])]) if len(numbers) else None


def _with_roster(placement: Placement, roster: Workers, since: I64, moves: int = 0) -> State:
    n = len(roster)
    return State(
        placement=placement,
        live=np.array(roster.ids, np.int32),
        weights=shares_of(roster),
        since=since,
        workers=Reports(
            latest=np.zeros(n, np.int64),
            waiting=np.zeros(n, np.int64),
            queued=np.zeros(n, np.int64),
            overloaded=np.zeros(n, np.int64),
            moved_at=np.full(n, -np.inf),
        ),
        numbers=np.array([moves, 0], np.int64),
    )
