"""The power of random choices: a key's first worker that has room."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from evenflow.grouping.capacity import (
    RENEW_AT,
    RENEWALS,
    SENT,
    CapacityScheme,
    capacities,
    renew,
    shares_of,
    take_room,
)
from evenflow.grouping.hash_ring import clockwise, guide_shift
from evenflow.grouping.protocol import I32, I64, U64, worker_ids
from evenflow.kernels.jit import inlined, kernel
from evenflow.kernels.mixing import choice, choice_word, mix, salt
from evenflow.model import Workers

_HINTS = 1024  # a power of two; keys that share a hint only cost time


class State(NamedTuple):
    ids: I32
    salt: U64
    loads: I64
    room: I64
    shares: np.ndarray
    progress: I64
    hint_key: U64  #: a cache: the key, the renewal, the choice and the worker it was last sent to
    hint: I64
    places: U64  #: points on a circle of 64-bit words, for those who map keys to it; else empty
    owners: I32
    guide: I32


@dataclass(frozen=True)
class RandomChoices(CapacityScheme):
    """Tries a key's workers F₁, F₂, F₃, … in turn and takes the first that has room.

    A worker has room while it has less than (1 + ε) times its fair share of what this source has
    sent. A rare key stays on its first worker; a hot one overflows to as many as it needs.

    Guarantee: no worker gets more than (1 + ε) · m/n + 1 of the first m messages of a source
    (with weights: of its fair share).

    Parameters:
        epsilon: how far above its fair share a worker may be. Smaller: better balance, more replicas.
        patience: messages per worker, on average, between renewals of capacities; 0 renews them at
            every message.
        literal: the paper's form, with none of our additions: renews capacities at every message.

    Resizing: the keys of a worker that leaves go to their next choices, and one that joins takes its
    place; no other keys move. A roster that grows changes the range of the hash functions.

    Example:
        >>> import numpy as np
        >>> scheme, out = RandomChoices(epsilon=0.1), np.empty(10_000, np.int32)
        >>> scheme.route(scheme.start(10), np.full(10_000, 42, np.uint64), out)
        >>> int(np.bincount(out).max()) <= 1101
        True

    Paper: PoRC in "Consistent Grouping", Algorithm 1 and §VI-A.
    """

    name: ClassVar[str] = "random-choices"
    symbol: ClassVar[str] = "PoRC"
    weighted: ClassVar[bool] = True

    def start(self, workers: Workers | int, seed: int = 0, source: int = 0) -> State:
        roster = self.roster(workers)
        return new_state(worker_ids(roster), salt(seed), shares_of(roster))

    def route(self, state: State, keys: U64, out: I32) -> None:
        route_by_room(self.epsilon, self.lag(), *state, keys, out)

    def candidates(self, state: State, key: int) -> I32:
        return state.ids[state.shares > 0]

    def resize(self, state: State, workers: Workers | int) -> State:
        roster = self.roster(workers)
        share = dict(zip(roster.ids, shares_of(roster).tolist(), strict=True))
        places = state.ids.tolist()
        newcomers = [w for w in roster.ids if w not in places]
        left = [i for i, w in enumerate(places) if w not in share]
        if len(newcomers) > len(left):
            places = list(roster.ids)
        else:
            # A worker that leaves keeps its place in the range of the hash functions, with no room,
            # until another takes it: no other keys move.
            for place, worker in zip(left, newcomers, strict=False):
                places[place] = worker
        ids, shares = np.array(places, np.int32), np.array([share.get(w, 0.0) for w in places])
        if np.array_equal(ids, state.ids) and np.array_equal(shares, state.shares):
            return state
        return new_state(ids, state.salt[0], shares, int(state.progress[SENT]))


_NO_CIRCLE = np.zeros(0, np.uint64), np.zeros(0, np.int32), np.zeros(0, np.int32)


def new_state(
    ids: I32,
    word: np.uint64,
    shares: np.ndarray,
    sent: int = 0,
    circle: tuple[U64, I32, I32] = _NO_CIRCLE,
) -> State:
    """A state in which `sent` messages have gone to the workers `ids` in proportion to `shares`.

    With a `circle` (a hash ring), a key's choice is the first worker clockwise from a random point;
    without, all workers are equally likely.
    """
    hints = np.zeros(_HINTS, np.uint64), np.full((_HINTS, 3), -1, np.int64)  # they fit no key
    places, owners, guide = circle
    return State(*capacities(ids, word, shares, sent), *hints, places, owners, guide)


@inlined
def _choose(mixed, c, n, places, owners, guide):
    """The worker of the key's choice number c."""
    if len(places) == 0:
        return choice(mixed, c, n)
    return np.uint64(owners[clockwise(places, guide, guide_shift(guide), choice_word(mixed, c))])


@kernel
def _next_with_room(mixed, n, room, tried, places, owners, guide):
    """(choice number, worker): the first choice after number `tried` whose worker has room.

    After many failed choices the workers are tried in order, so that the search always ends.
    """
    c = tried
    for _ in range(64 * len(room) + 64):
        c += 1
        w = _choose(mixed, np.uint64(c), n, places, owners, guide)
        if room[w] > 0:
            return c, w
    for w in range(len(room)):
        if room[w] > 0:
            return c, np.uint64(w)
    return c, np.uint64(0)


@kernel
def route_by_room(
    epsilon, patience, ids, salt, loads, room, shares, progress, hint_key, hint,
    places, owners, guide, keys, out,
):  # fmt: skip
    n, seed, mask = np.uint64(len(ids)), salt[0], np.uint64(len(hint_key) - 1)
    for i in range(len(keys)):
        if progress[SENT] >= progress[RENEW_AT]:
            renew(epsilon, patience, shares, loads, room, progress)
        key = keys[i]
        mixed = mix(key ^ seed)
        # Between renewals room only shrinks: a key's first choice with room never moves back.
        row = mixed & mask
        if hint_key[row] != key or hint[row, 0] != progress[RENEWALS]:
            hint_key[row] = key
            hint[row, 0], hint[row, 1] = progress[RENEWALS], 0
            hint[row, 2] = np.int64(_choose(mixed, np.uint64(0), n, places, owners, guide))
        w = np.uint64(hint[row, 2])
        if room[w] <= 0:
            c, w = _next_with_room(mixed, n, room, hint[row, 1], places, owners, guide)
            hint[row, 1], hint[row, 2] = c, np.int64(w)
        take_room(loads, room, progress, w)
        out[i] = ids[w]
