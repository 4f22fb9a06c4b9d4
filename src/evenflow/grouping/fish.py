"""FISH: recent hot keys by decayed counts, and the worker with the shortest inferred wait."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from evenflow.grouping.capacity import shares_of
from evenflow.grouping.hash_ring import clockwise, guide_shift, hash_ring
from evenflow.grouping.head import recent_counts
from evenflow.grouping.protocol import (
    I32,
    I64,
    U64,
    Scheme,
    most_workers_of_a_key,
    worker_ids,
)
from evenflow.kernels.hash_table import EMPTY, find, new_table, remove
from evenflow.kernels.jit import inlined, kernel
from evenflow.kernels.mixing import mix, salt
from evenflow.model import Feedback, Workers
from evenflow.model.validation import check_share, check_whole

# What `totals` holds: the decayed number of messages, the largest count.
TOTAL, TOP = range(2)
# What `numbers` holds: counters in use, messages in the epoch, messages since backlogs were inferred.
SIZE, IN_EPOCH, SINCE = range(3)
BLOCK = 32  # counters, among which the smallest is remembered

_F64 = np.ndarray


class Ring(NamedTuple):
    places: U64
    owners: I32
    guide: I32


class Counters(NamedTuple):
    table_keys: U64
    table_slots: I32
    keys: U64
    counts: _F64
    most: I64  #: M_k: the most workers that the key of a counter has been given
    made: I64  #: for how many workers `members` was made
    members: I32  #: per counter: the workers clockwise from its key; the last row is scratch space
    floors: _F64  #: per block of counters: at most the smallest count in it
    totals: _F64
    numbers: I64


class State(NamedTuple):
    ids: I32
    salt: U64
    shares: _F64
    cost: _F64  #: P_w: what one message costs a worker; 1 on average
    waiting: _F64  #: the inferred time until a worker has done all that it was sent
    ring: Ring
    counters: Counters


@dataclass(frozen=True)
class Fish(Scheme):
    """Gives recent hot keys more workers the hotter they are; a message goes where the wait is least.

    Counts are decayed after every epoch, so that "hot" means lately. The hottest keys may go to all
    workers, keys half as hot to half of them, and so on; keys below θ to two. A key's workers are the
    first clockwise from it on a ring. How long each would wait is inferred from what this source has
    sent there and what a worker gets done meanwhile: no worker is asked.

    Guarantee: a key seen fewer than `theta · epoch / 2` times is on at most two workers, as long as
    there are at least `2.5 / theta` counters.

    Parameters:
        epoch: the messages of an epoch.
        alpha: the factor by which counts are multiplied after each epoch.
        theta: the smallest share of a hot key; None for 1/(4n).
        counters: how many keys are counted.
        interval: the messages after which backlogs are inferred again.
        utilisation: the share of all workers' capacity that the stream is taken to need.
        points: the places on the ring per worker.

    Resizing: as under consistent hashing, few keys change their workers; workers that stay keep their
    inferred backlogs.

    Example:
        >>> import numpy as np
        >>> scheme, out = Fish(), np.empty(10_000, np.int32)
        >>> scheme.route(scheme.start(10), np.full(10_000, 42, np.uint64), out)
        >>> len(set(out.tolist()))
        10

    Paper: "Efficient time-evolving stream processing at scale" (arXiv 1806.00760): epoch-based
    identification of recent hot keys, their classification, and heuristic worker assignment. What we
    assumed where its text was not at hand is in docs/decisions/0065.
    """

    name: ClassVar[str] = "fish"
    symbol: ClassVar[str] = "FISH"
    weighted: ClassVar[bool] = True

    epoch: int = 1000
    alpha: float = 0.2
    theta: float | None = None
    counters: int = 1000
    interval: int = 1000
    utilisation: float = 0.8
    points: int = 16

    def __post_init__(self) -> None:
        check_share("alpha", self.alpha)
        check_share("theta", self.theta)
        check_share("utilisation", self.utilisation)
        check_whole("points", self.points, least=1)
        for name in ("epoch", "counters", "interval"):
            check_whole(name, getattr(self, name), least=1)

    def start(self, workers: Workers | int, seed: int = 0, source: int = 0) -> State:
        roster = self.roster(workers)
        word, waiting = salt(seed), np.zeros(len(roster))
        return self._state(roster, word, waiting, self._counters(len(roster)))

    def _counters(self, n: int) -> Counters:
        size = self.counters
        return Counters(
            *new_table(size),
            keys=np.zeros(size, np.uint64),
            counts=np.zeros(size),
            most=np.zeros(size, np.int64),
            made=np.zeros(size, np.int64),
            members=np.zeros((size + 1, n), np.int32),
            floors=np.zeros(-(-size // BLOCK)),
            totals=np.zeros(2),
            numbers=np.zeros(3, np.int64),
        )

    def _state(self, roster: Workers, word: np.uint64, waiting: _F64, counters: Counters) -> State:
        shares = shares_of(roster)
        ring = Ring(*hash_ring(roster, word, self.points))
        cost = 1.0 / (shares * len(roster))
        return State(worker_ids(roster), np.array([word]), shares, cost, waiting, ring, counters)

    def _limits(self, n: int) -> tuple[int, float, float, int, float]:
        theta = 1 / (4 * n) if self.theta is None else self.theta
        elapsed = self.interval / (n * self.utilisation)
        return self.epoch, self.alpha, theta, self.interval, elapsed

    def route(self, state: State, keys: U64, out: I32) -> None:
        limits = self._limits(len(state.ids))
        _route(limits, state.ids, state.salt, state.cost, state.waiting, state.ring,
               state.counters, keys, out)  # fmt: skip

    def candidates(self, state: State, key: int) -> I32:
        n, numbers = len(state.ids), np.empty(len(state.ids), np.int32)
        counters = deepcopy(state.counters)
        d = _workers_of(self._limits(n), state.ring, counters, state.salt, np.uint64(key), numbers)
        return state.ids[numbers[:d]]

    def observe(self, state: State, feedback: Feedback) -> None:
        """Start from the hot keys that all sources have counted, instead of from nothing."""
        if feedback.hot is None or not feedback.hot.counts:
            return
        keys, counts, total = recent_counts(feedback.hot, self.epoch)
        first = np.lexsort((keys, -counts))[: self.counters]
        keys, counts = keys[first][counts[first] > 0], counts[first][counts[first] > 0]
        fresh = self._counters(len(state.ids))
        fresh.keys[: len(keys)], fresh.counts[: len(keys)] = keys, counts
        fresh.numbers[SIZE] = len(keys)
        fresh.totals[TOTAL], fresh.totals[TOP] = total, counts.max(initial=0)
        _enter(fresh.table_keys, fresh.table_slots, keys)
        for name in Counters._fields:
            getattr(state.counters, name)[...] = getattr(fresh, name)

    def resize(self, state: State, workers: Workers | int) -> State:
        roster = self.roster(workers)
        same = roster.ids == tuple(state.ids.tolist())
        if same and np.array_equal(shares_of(roster), state.shares):
            return state
        known = dict(zip(state.ids.tolist(), state.waiting.tolist(), strict=True))
        staying = [known[w] for w in roster.ids if w in known]
        newcomer = sum(staying) / len(staying) if staying else 0.0
        waiting = np.array([known.get(w, newcomer) for w in roster.ids])
        counters = state.counters._replace(
            most=np.minimum(state.counters.most, len(roster)),
            made=np.zeros_like(state.counters.made),
            members=np.zeros((self.counters + 1, len(roster)), np.int32),
        )
        return self._state(roster, state.salt[0], waiting, counters)

    def describe(self, state: State) -> dict[str, Any]:
        """The number of hot keys, and their share of the recent stream."""
        totals, theta = state.counters.totals, self._limits(len(state.ids))[2]
        counts = state.counters.counts
        hot = counts[counts >= theta * max(totals[TOTAL], self.epoch)]
        return {"hot_keys": len(hot), "hot_share": float(hot.sum() / max(totals[TOTAL], 1.0))}

    def check_guarantee(self, workers: Workers, keys: U64, out: I32) -> str | None:
        theta = self._limits(len(workers))[2]
        if self.counters * theta < 2.5:
            return None
        inverse, counts = np.unique(keys, return_inverse=True, return_counts=True)[1:]
        rare = counts[inverse] < theta * self.epoch / 2
        spread = most_workers_of_a_key(keys[rare], out[rare])
        return f"a rare key is on {spread} workers" if spread > 2 else None


@kernel
def _enter(table_keys, table_slots, keys):
    for slot in range(len(keys)):
        place = find(table_keys, table_slots, keys[slot])
        table_keys[place] = keys[slot]
        table_slots[place] = slot


@kernel
def _smallest(counts, floors):
    """The first counter with the smallest count.

    Counts only grow between decays, so what a block's smallest once was is at most what it is now.
    """
    while True:
        block = 0
        for b in range(1, len(floors)):
            if floors[b] < floors[block]:
                block = b
        slot = block * BLOCK
        for s in range(slot + 1, min(slot + BLOCK, len(counts))):
            if counts[s] < counts[slot]:
                slot = s
        if counts[slot] == floors[block]:
            return np.int32(slot)
        floors[block] = counts[slot]


@kernel
def _take_counter(counters, key):
    """The counter of a key that has none: a free one, else the first with the smallest count."""
    keys, numbers = counters.keys, counters.numbers
    if numbers[SIZE] < len(keys):
        slot = np.int32(numbers[SIZE])
        numbers[SIZE] += 1
    else:
        slot = _smallest(counters.counts, counters.floors)
        remove(counters.table_keys, counters.table_slots, keys[slot])
    place = find(counters.table_keys, counters.table_slots, key)
    counters.table_keys[place] = key
    counters.table_slots[place] = slot
    keys[slot] = key
    counters.most[slot] = 0
    counters.made[slot] = 0
    return slot


@inlined
def _count(limits, n, counters, key):
    """Count one message; its key's counter, and how many workers the key may have."""
    epoch, alpha, theta = limits[0], limits[1], limits[2]
    counts, totals, numbers = counters.counts, counters.totals, counters.numbers
    floors = counters.floors
    if numbers[IN_EPOCH] == epoch:
        counts *= alpha
        totals *= alpha
        floors *= alpha
        numbers[IN_EPOCH] = 0
    slot = counters.table_slots[find(counters.table_keys, counters.table_slots, key)]
    if slot == EMPTY:
        slot = _take_counter(counters, key)
    count = counts[slot] + 1.0
    counts[slot] = count
    totals[TOTAL] += 1.0
    totals[TOP] = max(totals[TOP], count)
    numbers[IN_EPOCH] += 1
    if count / max(totals[TOTAL], np.float64(epoch)) < theta:
        return slot, min(2, n)
    d, reach = n, 2.0 * count
    while d > 2 and totals[TOP] >= reach:
        d >>= 1
        reach *= 2.0
    d = max(max(d, min(2, n)), counters.most[slot])
    counters.most[slot] = d
    return slot, d


@inlined
def _walk(ring, where, numbers):
    """Fill `numbers` with the first different workers clockwise from `where`."""
    p, last = clockwise(ring.places, ring.guide, guide_shift(ring.guide), where), len(ring.places)
    found = 0
    while found < len(numbers):
        w, known = ring.owners[p], False
        for i in range(found):
            known |= numbers[i] == w
        if not known:
            numbers[found] = w
            found += 1
        p += 1
        if p == last:
            p = 0


@kernel
def _workers_of(limits, ring, counters, salt, key, numbers):
    """How many workers the next message of a key may go to, and which."""
    d = _count(limits, len(numbers), counters, key)[1]
    _walk(ring, mix(key ^ salt[0]), numbers[:d])
    return d


@kernel
def _route(limits, ids, salt, cost, waiting, ring, counters, keys, out):
    n, seed, numbers = len(ids), salt[0], counters.numbers
    interval, elapsed = limits[3], limits[4]
    for i in range(len(keys)):
        slot, d = _count(limits, n, counters, keys[i])
        if numbers[SINCE] == interval:
            # Each worker has had `elapsed` to work on what it had been sent.
            for w in range(n):
                waiting[w] = max(waiting[w] - elapsed, 0.0)
            numbers[SINCE] = 0
        numbers[SINCE] += 1
        # Most keys have two workers, which are found as fast as looked up.
        row = np.int64(slot) if d > 2 else len(counters.members) - 1
        some = counters.members[row, :d]
        if d <= 2:
            _walk(ring, mix(keys[i] ^ seed), some)
        elif counters.made[slot] < d:
            _walk(ring, mix(keys[i] ^ seed), some)
            counters.made[slot] = d
        best = some[0]
        for j in range(1, d):
            if waiting[some[j]] < waiting[best]:
                best = some[j]
        waiting[best] += cost[best]
        out[i] = ids[best]
