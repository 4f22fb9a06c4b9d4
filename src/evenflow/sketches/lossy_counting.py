"""Lossy Counting: counts every key, and drops rare ones at the end of each window."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from evenflow.kernels.hash_table import find, remove
from evenflow.kernels.jit import kernel
from evenflow.model import InputError
from evenflow.sketches.protocol import U64
from evenflow.sketches.tracked_keys import (
    MISSED,
    POSITION,
    SIZE,
    State,
    TrackedKeys,
    count_run,
    halve,
    united,
)

_SMALLEST_EPSILON = 2.0**-30  # slot numbers are 32 bits wide, and a window may fill as many slots


@dataclass(frozen=True)
class LossyCounting(TrackedKeys):
    """Counts the keys of a stream in windows of ⌈1/ε⌉ messages, and drops rare keys after each.

    A tracked key has a count f and a slack Δ, the most that it may have counted before it was tracked:
    one per finished window. At the end of window b, keys with f + Δ ≤ b are dropped. Windows count
    messages, so batches make no difference.

    Guarantee: f ≤ true count ≤ f + Δ, and for a key that is not tracked 0 ≤ true count ≤ finished
    windows. Without ageing, either way `upper − lower ≤ ε·N` after N messages, so every key with
    more than that is tracked, and `hot` misses none whose share is above ε. Once counts have been aged,
    rounding adds at most 2 to this (in a merged state, 2 per source).

    Memory: without ageing at most ⌈1/ε⌉·(1 + 1/2 + … + 1/b) keys inside window b, about
    1/ε·ln(ε·N); a merged state holds at most as many keys as its parts together.

    Parameters:
        epsilon: the error, as a share of the stream. A tenth of the share that makes a key hot is a
            good choice.

    Example:
        >>> import numpy as np
        >>> sketch = LossyCounting(epsilon=0.25)
        >>> state = sketch.update(sketch.start(), np.array([5, 5, 5, 8, 9], np.uint64))
        >>> sketch.hot(state, share=0.5).keys.tolist()
        [5]
        >>> [bound.tolist() for bound in sketch.bounds(state, np.array([8, 9], np.uint64))]
        [[0, 1], [1, 2]]

    Paper: Manku, Motwani, "Approximate frequency counts over data streams", §4.2; finds the heavy
    streams in "Load balancing and generalized split state reconciliation" (SMALOPS), §II. Merging
    and ageing are ours.
    """

    name: ClassVar[str] = "lossy-counting"

    epsilon: float = 1e-3

    def __post_init__(self) -> None:
        if not _SMALLEST_EPSILON <= self.epsilon <= 1:
            raise InputError(
                f"epsilon of lossy-counting must lie in [{_SMALLEST_EPSILON:.0e}, 1], "
                f"got {self.epsilon}"
            )

    @property
    def width(self) -> int:
        """Messages per window."""
        return math.ceil(1 / self.epsilon)

    def _count(self, state: State, keys: U64, begin: int) -> int:
        return int(_count(state, self.width, keys, begin))

    def age(self, state: State) -> None:
        halve(state)
        _drop_rare(state)

    def merge(self, states: Sequence[State]) -> State:
        """The union; the sources' unfinished windows are added up, which may finish some."""
        union = united(states)
        finished, union.numbers[POSITION] = divmod(int(union.numbers[POSITION]), self.width)
        union.numbers[MISSED] += finished
        _drop_rare(union)
        return union


@kernel
def _count(state: State, width: int, keys: U64, begin: int) -> int:
    """Count from message `begin` on; returns where it stopped, as `count_run` does."""
    numbers = state.numbers
    done = begin
    while done < len(keys):
        end = min(len(keys), done + width - numbers[POSITION])
        stop = count_run(state, keys, done, end)
        numbers[POSITION] += stop - done
        done = stop
        if numbers[POSITION] == width:
            numbers[POSITION] = 0
            numbers[MISSED] += 1
            _drop_rare(state)
        elif done < end:
            break
    return done


@kernel
def _drop_rare(state: State) -> None:
    """Drop every key that cannot have counted more than an untracked one; the last takes its slot."""
    numbers, keys, counts = state.numbers, state.keys, state.counts
    slack, born = state.slack, state.born
    slot = 0
    while slot < numbers[SIZE]:
        if counts[slot] + slack[slot] > numbers[MISSED]:
            slot += 1
            continue
        remove(state.table_keys, state.table_slots, keys[slot])
        last = numbers[SIZE] - 1
        numbers[SIZE] = last
        if slot < last:
            keys[slot], counts[slot] = keys[last], counts[last]
            slack[slot], born[slot] = slack[last], born[last]
            state.table_slots[find(state.table_keys, state.table_slots, keys[slot])] = slot
