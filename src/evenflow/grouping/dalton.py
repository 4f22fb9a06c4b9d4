"""Dalton: which worker a hot key's message goes to is learned from rewards."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from evenflow.grouping.protocol import (
    I32,
    I64,
    U64,
    Scheme,
    choices_of,
    most_workers_of_a_key,
    worker_ids,
)
from evenflow.kernels.hash_table import EMPTY, find, new_table, remove
from evenflow.kernels.jit import inlined, kernel
from evenflow.kernels.mixing import high_choice, low_choice, mix, salt
from evenflow.model import Feedback, Workers
from evenflow.model.validation import check_share, check_whole

# What `numbers` holds: messages in the slide, its number, the count above which a key is hot, how many
# keys are, on how many workers a key may be tried before it keeps to those, and how many keys are.
SENT, SLIDE, THRESHOLD, HOT, MAX_SPLIT, AT_MOST = range(6)

_UNKNOWN = np.iinfo(np.int64).max  #: the threshold before the first slide is over
_NEVER = -(1 << 40)
_UNTRIED = -2.0  #: the value of a worker that a key has not been sent to
_LARGEST_SPLIT = 6
_GROWN_AT = 0.7  #: the share of hot keys on as many workers as allowed that allows one more

_F64 = np.ndarray


class HotKeys(NamedTuple):
    """One row per hot key."""

    table_keys: U64
    table_slots: I32
    keys: U64
    values: _F64  #: Q: per worker
    used: I64  #: per worker: the last slide in which it got a message of the key
    until: I64  #: the last slide in which the key is hot
    found: I64  #: the slide in which its count passed the threshold
    at_most: np.ndarray  #: whether the key has as many workers as allowed


class State(NamedTuple):
    ids: I32
    salt: U64
    luck: U64  #: the source's word, and how many draws there were
    numbers: I64
    counted: U64  #: a table: key → its messages in this slide, in `counts`
    counts: I32
    loads: I64  #: per worker: its messages in the window
    slides: I64  #: per slide of the window and worker: messages
    hot: HotKeys


@dataclass(frozen=True)
class Dalton(Scheme):
    """Learns for each hot key which worker pays: little load there, and few workers per key.

    A key is hot when it has had more than a worker's share of the messages of a slide, and remains so
    until the end of the next one. Its messages go to the worker with the best value, or, every tenth
    time, to another one to find out. The reward of a worker falls with its load in the window and with
    the number of workers that the key is on. Other keys go by hash.

    Guarantee: a key with at most `slide / n` messages stays on one worker.

    Parameters:
        slide: the messages of a slide; None for 20 per worker.
        slides: how many slides before the current one the window has.
        epsilon: the share of a hot key's messages that explore.
        learning_rate: the weight of the newest reward; old rewards fade.

    Resizing: after a change of the roster, everything is learned again.

    Example:
        >>> import numpy as np
        >>> scheme, out = Dalton(slide=100), np.empty(10_000, np.int32)
        >>> scheme.route(scheme.start(10), np.full(10_000, 42, np.uint64), out)
        >>> len(set(out[:101].tolist())), len(set(out.tolist()))
        (1, 6)

    Paper: Dalton in "Dalton: Learned partitioning for distributed data streams" (VLDB 16(3), 2022), one
    partitioner. Where we differ from the authors' code is in docs/decisions/0066.
    """

    name: ClassVar[str] = "dalton"
    symbol: ClassVar[str] = "Dalton"

    slide: int | None = None
    slides: int = 4
    epsilon: float = 0.1
    learning_rate: float = 0.1

    def __post_init__(self) -> None:
        if self.slide is not None:
            check_whole("slide", self.slide, least=1)
        check_whole("slides", self.slides, least=1)
        check_share("epsilon", self.epsilon)
        check_share("learning_rate", self.learning_rate)

    def slide_of(self, n: int) -> int:
        """The messages of a slide, for n workers."""
        return 20 * n if self.slide is None else self.slide

    def start(self, workers: Workers | int, seed: int = 0, source: int = 0) -> State:
        return self._state(self.roster(workers), salt(seed), salt(seed, source))

    def _state(self, roster: Workers, word: np.uint64, luck: np.uint64) -> State:
        n = len(roster)
        # Fewer than n + 1 keys have more than 1/n of a slide, and each is hot for two slides.
        most = 2 * (n + 1)
        return State(
            worker_ids(roster),
            np.array([word]),
            np.array([luck, np.uint64(0)]),
            np.array([0, 0, _UNKNOWN, 0, 2, 0], np.int64),
            *new_table(self.slide_of(n)),
            loads=np.zeros(n, np.int64),
            slides=np.zeros((self.slides + 1, n), np.int64),
            hot=HotKeys(
                *new_table(most),
                keys=np.zeros(most, np.uint64),
                values=np.zeros((most, n)),
                used=np.zeros((most, n), np.int64),
                until=np.zeros(most, np.int64),
                found=np.zeros(most, np.int64),
                at_most=np.zeros(most, np.bool_),
            ),
        )

    def route(self, state: State, keys: U64, out: I32) -> None:
        settings = (self.slide_of(len(state.ids)), self.slides, self.learning_rate)
        _route(settings, _explores_from(self.epsilon), state, keys, out)

    def candidates(self, state: State, key: int) -> I32:
        hot = _is_hot(self.slide_of(len(state.ids)), deepcopy(state), np.uint64(key))
        return state.ids if hot else choices_of(key, state.salt, state.ids, 1)

    def observe(self, state: State, feedback: Feedback) -> None:
        """Start with the hot keys that all sources have counted; their values are learned here."""
        if feedback.hot is None or not feedback.hot.counts:
            return
        n, least = len(state.ids), feedback.hot.total / len(state.ids)
        state.numbers[THRESHOLD] = self.slide_of(n) // n
        for key in sorted(key for key, count in feedback.hot.counts.items() if count > least):
            _make_hot(state, np.uint64(key))

    def resize(self, state: State, workers: Workers | int) -> State:
        roster = self.roster(workers)
        if roster.ids == tuple(state.ids.tolist()):
            return state
        return self._state(roster, state.salt[0], state.luck[0])

    def describe(self, state: State) -> dict[str, Any]:
        """The number of hot keys, and on how many workers they may be tried."""
        return {"hot_keys": int(state.numbers[HOT]), "split": int(state.numbers[MAX_SPLIT])}

    def check_guarantee(self, workers: Workers, keys: U64, out: I32) -> str | None:
        n = len(workers)
        inverse, counts = np.unique(keys, return_inverse=True, return_counts=True)[1:]
        rare = counts[inverse] <= self.slide_of(n) // n
        spread = most_workers_of_a_key(keys[rare], out[rare])
        return f"a rare key is on {spread} workers" if spread > 1 else None


def _explores_from(epsilon: float) -> np.uint64:
    """The smallest upper half of a drawn word that means exploring."""
    return np.uint64(round((1.0 - epsilon) * 2**32))


@kernel
def _make_hot(state, key):
    """The slot of a key that is hot until the end of the next slide; EMPTY if there is no room."""
    hot, numbers = state.hot, state.numbers
    place = find(hot.table_keys, hot.table_slots, key)
    slot = hot.table_slots[place]
    if slot == EMPTY:
        if numbers[HOT] == len(hot.keys):
            return np.int32(EMPTY)
        slot = np.int32(numbers[HOT])
        numbers[HOT] += 1
        hot.table_keys[place] = key
        hot.table_slots[place] = slot
        hot.keys[slot] = key
        hot.values[slot] = _UNTRIED
        hot.used[slot] = _NEVER
        hot.used[slot, high_choice(mix(key ^ state.salt[0]), np.uint64(len(state.ids)))] = numbers[
            SLIDE
        ]
        hot.found[slot] = _NEVER
        hot.at_most[slot] = False
    hot.until[slot] = numbers[SLIDE] + 1
    return slot


@kernel
def _forget(state, slot):
    """Remove a hot key; the last one takes its slot."""
    hot, numbers = state.hot, state.numbers
    remove(hot.table_keys, hot.table_slots, hot.keys[slot])
    numbers[AT_MOST] -= hot.at_most[slot]
    numbers[HOT] -= 1
    last = numbers[HOT]
    if slot < last:
        hot.keys[slot] = hot.keys[last]
        for w in range(len(state.ids)):
            hot.values[slot, w] = hot.values[last, w]
            hot.used[slot, w] = hot.used[last, w]
        hot.until[slot] = hot.until[last]
        hot.found[slot] = hot.found[last]
        hot.at_most[slot] = hot.at_most[last]
        hot.table_slots[find(hot.table_keys, hot.table_slots, hot.keys[slot])] = slot


@kernel
def _next_slide(slide, state):
    numbers, slides = state.numbers, state.slides
    numbers[THRESHOLD] = slide // len(state.ids)
    numbers[SENT] = 0
    numbers[SLIDE] += 1
    state.counts[:] = EMPTY
    oldest = slides[numbers[SLIDE] % len(slides)]
    for w in range(len(oldest)):
        state.loads[w] -= oldest[w]
        oldest[w] = 0
    for slot in range(numbers[HOT] - 1, -1, -1):
        if state.hot.until[slot] < numbers[SLIDE]:
            _forget(state, slot)


@inlined
def _find_hot(slide, state, key):
    """Count one message; the slot of its key if it is hot, else EMPTY."""
    hot, numbers = state.hot, state.numbers
    if numbers[SENT] == slide:
        _next_slide(slide, state)
    place = find(state.counted, state.counts, key)
    if state.counts[place] == EMPTY:
        state.counted[place] = key
        state.counts[place] = 0
    state.counts[place] += 1
    slot = hot.table_slots[find(hot.table_keys, hot.table_slots, key)]
    if state.counts[place] > numbers[THRESHOLD] and (
        slot == EMPTY or hot.found[slot] != numbers[SLIDE]
    ):
        slot = _make_hot(state, key)
        if slot != EMPTY:
            hot.found[slot] = numbers[SLIDE]
    return slot


@kernel
def _is_hot(slide, state, key):
    return _find_hot(slide, state, key) != EMPTY


@inlined
def _is_in_window(used, numbers, slides):
    return used >= numbers[SLIDE] - slides


@inlined
def _choose(slides, explores_from, state, slot, home):
    """The worker with the best value, or, to explore, one of all or of those that the key is on."""
    hot, numbers, n = state.hot, state.numbers, np.uint64(len(state.ids))
    word = mix(state.luck[0] ^ state.luck[1])
    state.luck[1] += np.uint64(1)
    if (word >> np.uint64(32)) < explores_from:
        best = home
        for w in range(n):
            if hot.values[slot, w] > hot.values[slot, best]:
                best = np.uint64(w)
        return best
    if hot.at_most[slot]:
        split = _split(slides, state, slot)
        if split > 0:
            left = np.int64(low_choice(word, np.uint64(split)))
            for w in range(n):
                left -= _is_in_window(hot.used[slot, w], numbers, slides)
                if left < 0:
                    return np.uint64(w)
    return low_choice(word, n)


@inlined
def _split(slides, state, slot):
    """The number of workers that a key has been sent to in the window."""
    split = 0
    for w in range(len(state.ids)):
        split += _is_in_window(state.hot.used[slot, w], state.numbers, slides)
    return split


@inlined
def _learn(settings, state, slot, w):
    hot, numbers, n = state.hot, state.numbers, len(state.ids)
    hot.used[slot, w] = numbers[SLIDE]
    split = _split(settings[1], state, slot)
    if split == numbers[MAX_SPLIT] and not hot.at_most[slot]:
        hot.at_most[slot] = True
        numbers[AT_MOST] += 1
    if numbers[AT_MOST] >= _GROWN_AT * numbers[HOT] and numbers[MAX_SPLIT] < _LARGEST_SPLIT:
        hot.at_most[:] = False
        numbers[AT_MOST] = 0
        numbers[MAX_SPLIT] += 1
    average, load = state.loads.sum() / n, state.loads[w]
    reward = -(0.5 * (load - average) / max(np.float64(load), average) + 0.5 * split / n)
    rate = settings[2]
    hot.values[slot, w] = hot.values[slot, w] * (1 - rate) + rate * reward


@kernel
def _route(settings, explores_from, state, keys, out):
    n, seed, numbers = np.uint64(len(state.ids)), state.salt[0], state.numbers
    slide, slides = settings[0], settings[1]
    for i in range(len(keys)):
        slot = _find_hot(slide, state, keys[i])
        home = high_choice(mix(keys[i] ^ seed), n)
        w = home if slot == EMPTY else _choose(slides, explores_from, state, slot, home)
        numbers[SENT] += 1
        state.loads[w] += 1
        state.slides[numbers[SLIDE] % len(state.slides), w] += 1
        if slot != EMPTY:
            _learn(settings, state, slot, w)
        out[i] = state.ids[w]
