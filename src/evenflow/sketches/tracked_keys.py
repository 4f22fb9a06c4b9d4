"""Counts of tracked keys, in arrays that grow as needed.

Shared by Lossy Counting and the exact counter, which never drops a key. Tracked keys are in slots
0 … size − 1 of plain arrays; a hash table finds them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from evenflow.kernels.hash_table import EMPTY, find, new_table
from evenflow.kernels.jit import kernel
from evenflow.sketches.protocol import I64, U64, FrequentKeys

# What `numbers` holds: tracked keys, aged total, messages seen, the most that a key may count
# without being tracked (finished windows), and the messages of the unfinished window.
SIZE, TOTAL, SEEN, MISSED, POSITION = range(5)

_FIRST_CAPACITY = 64


class State(NamedTuple):
    table_keys: U64
    table_slots: np.ndarray
    keys: U64
    counts: I64  #: lower bounds
    slack: I64  #: upper bound − lower bound
    born: I64
    numbers: I64


def new_state(capacity: int = _FIRST_CAPACITY) -> State:
    """An empty state with room for `capacity` keys."""
    return State(
        *new_table(capacity),
        keys=np.zeros(capacity, np.uint64),
        counts=np.zeros(capacity, np.int64),
        slack=np.zeros(capacity, np.int64),
        born=np.zeros(capacity, np.int64),
        numbers=np.zeros(5, np.int64),
    )


def grown(state: State) -> State:
    """A copy with twice the capacity, so that growing costs constant time per key."""
    larger = new_state(2 * len(state.keys))
    size = len(state.keys)
    for old, new in zip(state[2:-1], larger[2:-1], strict=True):
        new[:size] = old
    larger.numbers[:] = state.numbers
    fill_table(larger.table_keys, larger.table_slots, larger.keys[:size])
    return larger


def restored(keys: U64, counts: I64, slack: I64, born: I64, numbers: I64) -> State:
    """A state from its saved columns, which do not include the hash table."""
    capacity = _FIRST_CAPACITY
    while capacity < len(keys):
        capacity *= 2
    state = new_state(capacity)
    for whole, part in zip(state[2:-1], (keys, counts, slack, born), strict=True):
        whole[: len(part)] = part
    state.numbers[:] = numbers
    fill_table(state.table_keys, state.table_slots, keys)
    return state


class TrackedKeys:
    """The methods that sketches on such a state share; each defines `_count`."""

    def start(self) -> State:
        return new_state()

    def update(self, state: State, keys: U64) -> State:
        done = self._count(state, keys, 0)
        while done < len(keys):
            state = grown(state)
            done = self._count(state, keys, done)
        return state

    def _count(self, state: State, keys: U64, begin: int) -> int:
        """Count from message `begin` on; returns where it stopped, as `count_run` does."""
        raise NotImplementedError

    def total(self, state: State) -> int:
        return int(state.numbers[TOTAL])

    def bounds(self, state: State, keys: U64) -> tuple[I64, I64]:
        lower, upper = np.zeros(len(keys), np.int64), np.empty(len(keys), np.int64)
        _bounds(state, keys, lower, upper)
        return lower, upper

    def hot(self, state: State, share: float) -> FrequentKeys:
        size = state.numbers[SIZE]
        keys, lower, born = state.keys[:size], state.counts[:size], state.born[:size]
        upper = lower + state.slack[:size]
        return FrequentKeys.of(keys, lower, upper, born, share, self.total(state))


def united(states: Sequence[State]) -> State:
    """The sum of the bounds, over the union of the tracked keys.

    A source that does not track a key adds the most that it may have counted there. Positions have no
    meaning across sources: `born` is −1.
    """
    union = new_state(max(_FIRST_CAPACITY, sum(int(s.numbers[SIZE]) for s in states)))
    for state in states:
        union.numbers[TOTAL:] += state.numbers[TOTAL:]
    for state in states:
        _add(union, state)
    return union


@kernel
def count_run(state: State, keys: U64, begin: int, end: int) -> int:
    """Count messages `begin` … `end` − 1. Returns where it stopped: at `end`, or at the first
    message with a new key and no free slot."""
    table_keys, table_slots, counts = state.table_keys, state.table_slots, state.counts
    first = state.numbers[SEEN] - begin
    stop = begin
    while stop < end:
        key = keys[stop]
        place = find(table_keys, table_slots, key)
        slot = table_slots[place]
        if slot == EMPTY:
            if state.numbers[SIZE] == len(counts):
                break
            slot = _admit(state, key, place, first + stop)
        counts[slot] += 1
        stop += 1
    state.numbers[SEEN] += stop - begin
    state.numbers[TOTAL] += stop - begin
    return stop


@kernel
def _admit(state: State, key: np.uint64, place: np.uint64, position: int) -> np.int32:
    """Give `key` the next free slot; `place` is where the table has room for it."""
    slot = np.int32(state.numbers[SIZE])
    state.numbers[SIZE] += 1
    state.table_keys[place] = key
    state.table_slots[place] = slot
    state.keys[slot] = key
    state.counts[slot] = 0
    state.slack[slot] = state.numbers[MISSED]
    state.born[slot] = position
    return slot


@kernel
def halve(state: State) -> None:
    """Halve all counts: upper bounds are rounded up and lower bounds down, so both stay bounds."""
    numbers, counts, slack = state.numbers, state.counts, state.slack
    for slot in range(numbers[SIZE]):
        upper = (counts[slot] + slack[slot] + 1) >> 1
        counts[slot] >>= 1
        slack[slot] = upper - counts[slot]
    numbers[TOTAL] = (numbers[TOTAL] + 1) >> 1
    numbers[MISSED] = (numbers[MISSED] + 1) >> 1
    numbers[POSITION] >>= 1


@kernel
def _bounds(state: State, keys: U64, lower: I64, upper: I64) -> None:
    for i in range(len(keys)):
        slot = state.table_slots[find(state.table_keys, state.table_slots, keys[i])]
        if slot == EMPTY:
            upper[i] = state.numbers[MISSED]
        else:
            lower[i] = state.counts[slot]
            upper[i] = state.counts[slot] + state.slack[slot]


@kernel
def _add(union: State, part: State) -> None:
    for source in range(part.numbers[SIZE]):
        key = part.keys[source]
        place = find(union.table_keys, union.table_slots, key)
        slot = union.table_slots[place]
        if slot == EMPTY:
            # Start with the slack of an untracked key; each source that tracks it corrects its part.
            slot = _admit(union, key, place, -1)
        union.counts[slot] += part.counts[source]
        union.slack[slot] += part.slack[source] - part.numbers[MISSED]


@kernel
def fill_table(table_keys: U64, table_slots: np.ndarray, keys: U64) -> None:
    """Insert the keys of slots 0, 1, … into an empty table."""
    for slot in range(len(keys)):
        place = find(table_keys, table_slots, keys[slot])
        table_keys[place] = keys[slot]
        table_slots[place] = slot
