"""Consistent hashing with bounded loads: clockwise to the first worker that has room."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from evenflow.grouping.capacity import (
    RENEW_AT,
    SENT,
    CapacityScheme,
    capacities,
    renew,
    shares_of,
    take_room,
)
from evenflow.grouping.hash_ring import clockwise, guide_shift, hash_ring
from evenflow.grouping.protocol import I32, I64, U64, worker_ids
from evenflow.kernels.jit import kernel
from evenflow.kernels.mixing import mix, salt
from evenflow.model import Workers
from evenflow.model.validation import check_whole


class State(NamedTuple):
    ids: I32
    salt: U64
    loads: I64
    room: I64
    shares: np.ndarray
    progress: I64
    places: U64  #: the points on the ring of 64-bit words, ascending
    owners: I32  #: the worker number of each point
    guide: I32  #: top bits of a word → the first point that may follow it


@dataclass(frozen=True)
class BoundedHashing(CapacityScheme):
    """Puts workers and keys on a ring; a key goes clockwise to the first worker that has room.

    Guarantee: no worker gets more than (1 + ε) · m/n + 1 of the first m messages of a source
    (with weights: of its fair share).

    Parameters:
        epsilon: how far above its fair share a worker may be.
        patience: messages per worker, on average, between renewals of capacities; 0 renews them at
            every message.
        literal: the paper's form, with none of our additions: renews capacities at every message.
        points: the number of places on the ring per worker.

    Resizing is consistent: a worker's places depend on its id alone, so a worker that joins or leaves
    takes or gives up only the keys before its places (and what overflows).

    Example:
        >>> import numpy as np
        >>> scheme, out = BoundedHashing(epsilon=0.1), np.empty(10_000, np.int32)
        >>> scheme.route(scheme.start(10), np.full(10_000, 42, np.uint64), out)
        >>> int(np.bincount(out).max()) <= 1101
        True

    Paper: CH in "Consistent Grouping", §III-C, after Mirrokni, Thorup, Zadimoghaddam, "Consistent
    hashing with bounded loads".
    """

    name: ClassVar[str] = "bounded-hashing"
    symbol: ClassVar[str] = "CH"
    weighted: ClassVar[bool] = True

    points: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        check_whole("points", self.points, least=1)

    def start(self, workers: Workers | int, seed: int = 0, source: int = 0) -> State:
        return self._state(self.roster(workers), salt(seed))

    def _state(self, roster: Workers, word: np.uint64, sent: int = 0) -> State:
        known = capacities(worker_ids(roster), word, shares_of(roster), sent)
        return State(*known, *hash_ring(roster, word, self.points))

    def route(self, state: State, keys: U64, out: I32) -> None:
        _route(self.epsilon, self.lag(), *state, keys, out)

    def candidates(self, state: State, key: int) -> I32:
        return state.ids

    def resize(self, state: State, workers: Workers | int) -> State:
        roster = self.roster(workers)
        same = roster.ids == tuple(state.ids.tolist())
        if same and np.array_equal(shares_of(roster), state.shares):
            return state
        return self._state(roster, state.salt[0], int(state.progress[SENT]))


@kernel
def _route(
    epsilon, patience, ids, salt, loads, room, shares, progress, places, owners, guide, keys, out
):
    seed, last, shift = salt[0], len(places), guide_shift(guide)
    for i in range(len(keys)):
        if progress[SENT] >= progress[RENEW_AT]:
            renew(epsilon, patience, shares, loads, room, progress)
        p = clockwise(places, guide, shift, mix(keys[i] ^ seed))
        w = np.uint64(owners[p])
        while room[w] <= 0:
            p += 1
            if p == last:
                p = 0
            w = np.uint64(owners[p])
        take_room(loads, room, progress, w)
        out[i] = ids[w]
