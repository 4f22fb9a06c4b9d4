"""An exact counter: the yardstick of the sketches, and right where keys are few."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from evenflow.sketches import tracked_keys
from evenflow.sketches.protocol import I64, U64, HotKeys
from evenflow.sketches.tracked_keys import TOTAL, State, count_run, grown, halve, new_state


@dataclass(frozen=True)
class Exact:
    """Counts every key.

    Guarantee: lower = true count = upper. After ageing, the true count is a fraction: lower is that
    fraction rounded down and upper the same rounded up, so they differ by at most 1 (after merging
    aged states, by at most the number of states).

    Memory: 56 to 112 bytes a distinct key, for ever: ageing makes counts smaller, but forgets none.

    Example:
        >>> import numpy as np
        >>> sketch = Exact()
        >>> state = sketch.update(sketch.start(), np.array([5, 8, 5, 5], np.uint64))
        >>> sketch.hot(state, share=0.5).lower.tolist()
        [3]
        >>> sketch.age(state)
        >>> [int(bound[0]) for bound in sketch.bounds(state, np.array([5], np.uint64))]
        [1, 2]
    """

    name: ClassVar[str] = "exact"

    def start(self) -> State:
        return new_state()

    def update(self, state: State, keys: U64) -> State:
        done = count_run(state, keys, 0, len(keys))
        while done < len(keys):
            state = grown(state)
            done = count_run(state, keys, done, len(keys))
        return state

    def total(self, state: State) -> int:
        return int(state.numbers[TOTAL])

    def bounds(self, state: State, keys: U64) -> tuple[I64, I64]:
        return tracked_keys.bounds(state, keys)

    def hot(self, state: State, share: float) -> HotKeys:
        return tracked_keys.hot(state, share)

    def age(self, state: State) -> None:
        halve(state)

    def merge(self, states: Sequence[State]) -> State:
        return tracked_keys.united(states)
