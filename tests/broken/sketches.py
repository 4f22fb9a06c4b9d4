"""Sketches with one fault each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

import numpy as np

from broken import ANY
from evenflow.sketches.exact import Exact
from evenflow.sketches.protocol import FrequentKeys
from evenflow.sketches.space_saving import SpaceSaving


def hot_by_bounds(sketch: Any, state: Any, listed: FrequentKeys, share: float) -> FrequentKeys:
    """Those of `listed` that are hot by the sketch's own (wrong) bounds."""
    lower, upper = sketch.bounds(state, listed.keys)
    order = np.lexsort((listed.keys, -upper))
    order = order[upper[order] >= share * sketch.total(state)]
    return FrequentKeys(listed.keys[order], lower[order], upper[order], listed.born[order])


@dataclass(frozen=True)
class BadName(Exact):
    """Its name cannot be typed after a colon or a comma."""

    name: ClassVar[str] = "Bad: name"
    caught_by: ClassVar[str] = "protocol_is_complete"


class NotFrozen(Exact):
    """Forgets `@dataclass(frozen=True)`: attributes can be set on it."""

    name: ClassVar[str] = "not-frozen"
    caught_by: ClassVar[str] = "configuration_is_frozen"


@dataclass(frozen=True)
class NoExample(Exact):
    """Says nothing about its guarantee and shows no example."""

    name: ClassVar[str] = "no-example"
    caught_by: ClassVar[str] = "docstring_has_a_running_example"


class ListState(NamedTuple):
    seen: list


@dataclass(frozen=True)
class KeepsAList:
    """Has a list in its state, and nothing else."""

    name: ClassVar[str] = "keeps-a-list"
    caught_by: ClassVar[str] = "state_is_plain_arrays"
    also_by: ClassVar[frozenset[str]] = frozenset(
        {"bounds_hold_after_ageing", "born_is_a_message_of_the_key", "merging_keeps_bounds"}
    )

    def start(self) -> ListState:
        return ListState([])

    def update(self, state: ListState, keys: np.ndarray) -> ListState:
        state.seen.extend(keys.tolist())
        return state

    def _exact(self, state: ListState) -> Any:
        return Exact().update(Exact().start(), np.array(state.seen, np.uint64))

    def total(self, state: ListState) -> int:
        return len(state.seen)

    def bounds(self, state: ListState, keys: np.ndarray) -> tuple:
        return Exact().bounds(self._exact(state), keys)

    def hot(self, state: ListState, share: float) -> FrequentKeys:
        return Exact().hot(self._exact(state), share)

    def age(self, state: ListState) -> None:
        raise NotImplementedError

    def merge(self, states: Sequence[ListState]) -> ListState:
        raise NotImplementedError


@dataclass(frozen=True)
class ForgetsTheError(SpaceSaving):
    """Takes the count that a key inherits on eviction off the upper bound too."""

    name: ClassVar[str] = "forgets-the-error"
    caught_by: ClassVar[str] = "bounds_hold"
    also_by: ClassVar[frozenset[str]] = frozenset(
        {"bounds_hold_after_ageing", "hot_misses_no_key", "merging_keeps_bounds"}
    )

    capacity: int = 20

    def bounds(self, state: Any, keys: np.ndarray) -> tuple:
        lower, _ = super().bounds(state, keys)
        return lower, lower.copy()

    def hot(self, state: Any, share: float) -> FrequentKeys:
        return hot_by_bounds(self, state, super().hot(state, 0.0), share)


@dataclass(frozen=True)
class AddsTheError(SpaceSaving):
    """Adds the error to a count that is an over-estimate already: true bounds, twice as wide."""

    name: ClassVar[str] = "adds-the-error"
    caught_by: ClassVar[str] = "own_guarantee_holds"

    capacity: int = 20

    def bounds(self, state: Any, keys: np.ndarray) -> tuple:
        lower, upper = super().bounds(state, keys)
        return lower, 2 * upper - lower

    def hot(self, state: Any, share: float) -> FrequentKeys:
        return hot_by_bounds(self, state, super().hot(state, 0.0), share)

    def check_guarantee(self, state: Any, keys: np.ndarray) -> str | None:
        lower, upper = self.bounds(state, np.unique(keys))
        widest = int((upper - lower).max())
        if widest > self.total(state) / self.capacity:
            return f"bounds are {widest} apart"
        return None


@dataclass(frozen=True)
class AgesTheTotalOnly(Exact):
    """Forgets to halve the counts."""

    name: ClassVar[str] = "ages-the-total-only"
    caught_by: ClassVar[str] = "bounds_hold_after_ageing"
    also_by: ClassVar[frozenset[str]] = frozenset({"merging_keeps_bounds"})

    def age(self, state: Any) -> None:
        counts, slack = state.counts.copy(), state.slack.copy()
        super().age(state)
        state.counts[:], state.slack[:] = counts, slack


@dataclass(frozen=True)
class HidesTheTakenOver(SpaceSaving):
    """Leaves keys out of `hot` that took over another's counter: a hot key that came late."""

    name: ClassVar[str] = "hides-the-taken-over"
    caught_by: ClassVar[str] = "hot_misses_no_key"
    also_by: ClassVar[frozenset[str]] = frozenset(
        {"bounds_hold_after_ageing", "merging_keeps_bounds"}
    )

    capacity: int = 20

    def hot(self, state: Any, share: float) -> FrequentKeys:
        listed = super().hot(state, share)
        exact = listed.lower == listed.upper
        return FrequentKeys(*(column[exact] for column in listed))


@dataclass(frozen=True)
class BornAtTheBeginning(Exact):
    """Says that every key came with the first message."""

    name: ClassVar[str] = "born-at-the-beginning"
    caught_by: ClassVar[str] = "born_is_a_message_of_the_key"

    def hot(self, state: Any, share: float) -> FrequentKeys:
        listed = super().hot(state, share)
        return listed._replace(born=np.zeros_like(listed.born))


@dataclass(frozen=True)
class EmptiedByNothing(Exact):
    """Begins anew when a batch is empty."""

    name: ClassVar[str] = "emptied-by-nothing"
    caught_by: ClassVar[str] = "batches_change_nothing"

    def update(self, state: Any, keys: np.ndarray) -> Any:
        return super().update(state, keys) if len(keys) else self.start()


@dataclass(frozen=True)
class PickleForgets(Exact):
    """Has a parameter that does not go through pickle."""

    name: ClassVar[str] = "pickle-forgets"
    caught_by: ClassVar[str] = "pickling_changes_nothing"

    times: int = field(default=1, compare=False)

    def __reduce__(self) -> tuple:
        return type(self), (2,)

    def update(self, state: Any, keys: np.ndarray) -> Any:
        return super().update(state, np.repeat(keys, self.times))


@dataclass(frozen=True)
class SkipsWhatItHasSeen(Exact):
    """Remembers batches in the instance and ignores one that comes a second time, to any state."""

    name: ClassVar[str] = "skips-what-it-has-seen"
    caught_by: ClassVar[str] = "running_again_changes_nothing"
    also_by: ClassVar[frozenset[str]] = ANY

    hidden: set = field(default_factory=set, compare=False)

    def update(self, state: Any, keys: np.ndarray) -> Any:
        if keys.tobytes() in self.hidden:
            return state
        self.hidden.add(keys.tobytes())
        return super().update(state, keys)


@dataclass(frozen=True)
class WritesKeys(Exact):
    """Clears the caller's keys once they are counted."""

    name: ClassVar[str] = "writes-keys"
    caught_by: ClassVar[str] = "keys_are_not_written"

    def update(self, state: Any, keys: np.ndarray) -> Any:
        state = super().update(state, keys)
        keys[:] = 0
        return state


@dataclass(frozen=True)
class MergesTheFirstOnly(Exact):
    """Drops the keys of all sources but the first on merging."""

    name: ClassVar[str] = "merges-the-first-only"
    caught_by: ClassVar[str] = "merging_keeps_bounds"
    also_by: ClassVar[frozenset[str]] = frozenset({"born_is_a_message_of_the_key"})

    def merge(self, states: Sequence[Any]) -> Any:
        return super().merge(states[:1])


@dataclass(frozen=True)
class SaysItIsBounded(Exact):
    """Grows with every new key and says that it does not."""

    name: ClassVar[str] = "says-it-is-bounded"
    bounded: ClassVar[bool] = True
    caught_by: ClassVar[str] = "memory_is_bounded"
