"""SpaceSaving: the heavy hitters of a stream in a fixed number of counters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from evenflow.kernels.hash_table import EMPTY, find, new_table, remove
from evenflow.kernels.jit import inlined, kernel
from evenflow.model.validation import check_whole
from evenflow.sketches.protocol import I64, U64, FrequentKeys
from evenflow.sketches.tracked_keys import fill_table

# What `numbers` holds: counters in use, aged total, messages seen, and the memory of the search for
# the smallest counter; `AGE_AT` is the value of SEEN at which to age next, −1 for never; `FLOOR` is
# what a key without a counter may already have been counted (merging alone makes it more than 0).
SIZE, TOTAL, SEEN, MINIMUM, LOWEST_LEFT, AGE_AT, HALF_LIFE, FLOOR = range(8)


class State(NamedTuple):
    table_keys: U64
    table_slots: np.ndarray
    keys: U64
    counts: I64
    errors: I64
    born: I64
    lowest: np.ndarray  #: a stack of the slots that had the smallest count at the last scan
    numbers: I64


@dataclass(frozen=True)
class SpaceSaving:
    """Counts the keys of a stream in `capacity` counters; a new key takes over the smallest one.

    Guarantee: `lower ≤ true count ≤ upper`, and without ageing `upper − lower ≤ total / capacity`, so
    every key with at least that share is tracked. The count is the upper bound: it over-estimates, and
    subtracting the error gives the lower bound. Of several smallest counters, the one with the lowest
    slot number is taken over.

    Time: a hit is one look-up and one addition. Finding the smallest counter takes amortised constant
    time: counters only grow, by one, so the smallest count rises at most once per `capacity`
    messages, and only then are all counters scanned.

    Parameters:
        capacity: how many counters.
        half_life: halve all counts after every this many messages, to forget keys that were hot long
            ago; None for never.

    Example:
        >>> import numpy as np
        >>> sketch = SpaceSaving(capacity=2)
        >>> state = sketch.update(sketch.start(), np.array([5, 5, 5, 8, 9], np.uint64))
        >>> sketch.hot(state, share=0.5).keys.tolist()
        [5]
        >>> [int(b[0]) for b in sketch.bounds(state, np.array([9], np.uint64))]
        [1, 2]

    Paper: Metwally, Agrawal, El Abbadi, "Efficient computation of frequent and top-k elements in data
    streams"; used in "When two choices are not enough", §III-A. Merging: Berinde et al. Ageing is
    ours.
    """

    name: ClassVar[str] = "space-saving"
    bounded: ClassVar[bool] = True

    capacity: int = 1000
    half_life: int | None = None

    def __post_init__(self) -> None:
        check_whole("capacity", self.capacity, least=1)
        if self.half_life is not None:
            check_whole("half_life", self.half_life, least=1)

    def start(self) -> State:
        half_life = -1 if self.half_life is None else self.half_life
        return State(
            *new_table(self.capacity),
            keys=np.zeros(self.capacity, np.uint64),
            counts=np.zeros(self.capacity, np.int64),
            errors=np.zeros(self.capacity, np.int64),
            born=np.zeros(self.capacity, np.int64),
            lowest=np.zeros(self.capacity, np.int32),
            numbers=np.array([0, 0, 0, 0, 0, half_life, half_life, 0], np.int64),
        )

    def update(self, state: State, keys: U64) -> State:
        _update(state, keys)
        return state

    def total(self, state: State) -> int:
        return int(state.numbers[TOTAL])

    def bounds(self, state: State, keys: U64) -> tuple[I64, I64]:
        lower, upper = np.zeros(len(keys), np.int64), np.empty(len(keys), np.int64)
        _bounds(
            state.table_keys, state.table_slots, state.counts, state.errors, self._untracked(state),
            keys, lower, upper,
        )  # fmt: skip
        return lower, upper

    def _untracked(self, state: State) -> int:
        """The upper bound of a key that has no counter: the smallest count, once all are in use."""
        full = state.numbers[SIZE] == len(state.keys)
        return int(state.counts.min() if full else state.numbers[FLOOR])

    def hot(self, state: State, share: float) -> FrequentKeys:
        size = state.numbers[SIZE]
        keys, upper, born = state.keys[:size], state.counts[:size], state.born[:size]
        lower = upper - state.errors[:size]
        return FrequentKeys.of(keys, lower, upper, born, share, self.total(state))

    def age(self, state: State) -> None:
        _age(state.counts, state.errors, state.numbers)

    def from_counts(self, keys: U64, counts: I64, total: int) -> State:
        """A state with these counts; of too many keys, the most frequent are kept."""
        some = counts > 0
        return self._filled(keys[some], counts[some], counts[some], total, total)

    def merge(self, states: Sequence[State]) -> State:
        """The sum of the bounds; a source that does not track a key adds its smallest count.

        Positions have no meaning across sources: `born` is −1.
        """
        if not states:
            return self.start()
        keys = np.unique(np.concatenate([s.keys[: s.numbers[SIZE]] for s in states]))
        lower, upper = np.zeros(len(keys), np.int64), np.zeros(len(keys), np.int64)
        for state in states:
            of_one = self.bounds(state, keys)
            lower += of_one[0]
            upper += of_one[1]
        total, seen = (sum(int(s.numbers[i]) for s in states) for i in (TOTAL, SEEN))
        merged = self._filled(keys, lower, upper, total, seen)
        size = int(merged.numbers[SIZE])
        merged.born[:size] = -1
        merged.counts[size:] = merged.numbers[FLOOR] = sum(map(self._untracked, states))
        return merged

    def _filled(self, keys: U64, lower: I64, upper: I64, total: int, seen: int) -> State:
        """A state with these bounds; of too many keys, the most frequent are kept."""
        kept = np.lexsort((keys, -upper))[: self.capacity]
        state, size = self.start(), len(kept)
        state.keys[:size], state.counts[:size] = keys[kept], upper[kept]
        state.errors[:size] = upper[kept] - lower[kept]
        state.numbers[SIZE], state.numbers[TOTAL], state.numbers[SEEN] = size, total, seen
        if self.half_life is not None:
            state.numbers[AGE_AT] = seen + self.half_life
        fill_table(state.table_keys, state.table_slots, state.keys[:size])
        return state


@inlined
def touch(sketch, key):
    """Count one message; returns the slot of its key and the new count."""
    counts, numbers = sketch.counts, sketch.numbers
    slot = sketch.table_slots[find(sketch.table_keys, sketch.table_slots, key)]
    if (slot == EMPTY) | (numbers[SEEN] == numbers[AGE_AT]):
        slot = _prepare(sketch, key)
    count = counts[np.uint64(slot)] + 1
    counts[np.uint64(slot)] = count
    numbers[SEEN] += 1
    numbers[TOTAL] += 1
    return slot, count


@inlined
def touch_steadily(sketch, key, uncounted):
    """`touch` where no ageing is due; the caller adds `uncounted` messages to the totals.

    Also returns the new number of uncounted messages.
    """
    counts, numbers = sketch.counts, sketch.numbers
    slot = sketch.table_slots[find(sketch.table_keys, sketch.table_slots, key)]
    if slot == EMPTY:
        numbers[SEEN] += uncounted
        numbers[TOTAL] += uncounted
        uncounted = 0
        slot = _prepare(sketch, key)
    count = counts[np.uint64(slot)] + 1
    counts[np.uint64(slot)] = count
    return slot, count, uncounted + 1


@kernel
def _prepare(sketch, key):
    """Age if it is time, and give the key a counter; returns its slot.

    All rare work is in here, so that `touch` has a single branch that is rarely taken.
    """
    table_keys, table_slots, keys, counts, errors, born, lowest, numbers = sketch
    if numbers[SEEN] == numbers[AGE_AT]:
        _age(counts, errors, numbers)
        numbers[AGE_AT] += numbers[HALF_LIFE]
    place = find(table_keys, table_slots, key)
    if table_slots[place] != EMPTY:
        return table_slots[place]
    # The key takes a free counter, else the smallest one with its count as the error.
    if numbers[SIZE] < len(keys):
        slot = np.int32(numbers[SIZE])
        numbers[SIZE] += 1
    else:
        slot = _smallest(counts, lowest, numbers)
        remove(table_keys, table_slots, keys[slot])
        place = find(table_keys, table_slots, key)
    table_keys[place] = key
    table_slots[place] = slot
    keys[slot] = key
    errors[slot] = counts[slot]
    born[slot] = numbers[SEEN]
    return slot


@kernel
def _smallest(counts, lowest, numbers):
    """The first slot with the smallest count."""
    while True:
        while numbers[LOWEST_LEFT] > 0:
            numbers[LOWEST_LEFT] -= 1
            slot = lowest[numbers[LOWEST_LEFT]]
            if counts[slot] == numbers[MINIMUM]:
                return slot
        minimum = counts[0]
        for s in range(1, len(counts)):
            minimum = min(minimum, counts[s])
        numbers[MINIMUM] = minimum
        left = 0
        for s in range(len(counts) - 1, -1, -1):
            lowest[left] = s
            left += counts[s] == minimum
        numbers[LOWEST_LEFT] = left


@kernel
def _age(counts, errors, numbers):
    """Halve all counts: upper bounds are rounded up and lower bounds down, so both stay bounds."""
    for s in range(len(counts)):
        lower = (counts[s] - errors[s]) >> 1
        counts[s] = (counts[s] + 1) >> 1
        errors[s] = counts[s] - lower
    numbers[FLOOR] = (numbers[FLOOR] + 1) >> 1
    numbers[TOTAL] = (numbers[TOTAL] + 1) >> 1
    numbers[LOWEST_LEFT] = 0


@kernel
def _update(sketch, messages):
    for i in range(len(messages)):
        touch(sketch, messages[i])


@kernel
def _bounds(table_keys, table_slots, counts, errors, untracked, keys, lower, upper):
    for i in range(len(keys)):
        slot = table_slots[find(table_keys, table_slots, keys[i])]
        if slot == EMPTY:
            upper[i] = untracked
        else:
            upper[i] = counts[slot]
            lower[i] = counts[slot] - errors[slot]
