"""An exact counter: the reference for sketches, and the right choice for few keys."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from evenflow.sketches.protocol import U64
from evenflow.sketches.tracked_keys import State, TrackedKeys, count_run, halve, united


@dataclass(frozen=True)
class Exact(TrackedKeys):
    """Counts every key.

    Guarantee: lower = true count = upper. After ageing, the true count is a fraction: lower is that
    fraction rounded down and upper the same rounded up, so they differ by at most 1 (after merging
    aged states, by at most the number of states).

    Memory: 56 to 112 bytes per distinct key; ageing makes counts smaller, but drops no key.

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

    def _count(self, state: State, keys: U64, begin: int) -> int:
        return count_run(state, keys, begin, len(keys))

    def age(self, state: State) -> None:
        halve(state)

    def merge(self, states: Sequence[State]) -> State:
        return united(states)
