"""Grouping schemes with one fault each, which shows while the roster stays as it is."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

import numpy as np

from broken import ANY
from evenflow.grouping.key import KeyGrouping
from evenflow.grouping.key import State as KeyState
from evenflow.grouping.protocol import Scheme, worker_ids
from evenflow.kernels.mixing import salt
from evenflow.model import InputError, Workers

HOT_AFTER = 100  # messages of one key; no key of the uniform stream has as many


def homes(state: Any, keys: np.ndarray) -> np.ndarray:
    """Where key grouping sends `keys`."""
    out = np.empty(len(keys), np.int32)
    KeyGrouping().route(KeyState(state.ids, state.salt), keys, out)
    return out


def on_copy(scheme: Any, state: Any, key: int) -> np.ndarray:
    """Where the next message goes if its key is `key`: candidates that are true by construction."""
    out = np.empty(1, np.int32)
    scheme.route(type(state)(*(array.copy() for array in state)), np.array([key], np.uint64), out)
    return out


@dataclass(frozen=True)
class BadName(KeyGrouping):
    """Its name cannot be typed after a colon or a comma."""

    name: ClassVar[str] = "Bad: name"
    caught_by: ClassVar[str] = "protocol_is_complete"


class NotFrozen(KeyGrouping):
    """Forgets `@dataclass(frozen=True)`: attributes can be set on it."""

    name: ClassVar[str] = "not-frozen"
    caught_by: ClassVar[str] = "configuration_is_frozen"


@dataclass(frozen=True)
class WrongExample(KeyGrouping):
    """Its example does not give what it shows.

    Guarantee: none.

    Example:
        >>> WrongExample().name
        'right-example'
    """

    name: ClassVar[str] = "wrong-example"
    caught_by: ClassVar[str] = "docstring_has_a_running_example"


@dataclass(frozen=True)
class TakesNoWorkers(KeyGrouping):
    """Makes one worker out of none, instead of saying that something is wrong."""

    name: ClassVar[str] = "takes-no-workers"
    caught_by: ClassVar[str] = "bad_input_is_refused"

    def roster(self, workers: Workers | int) -> Workers:
        return super().roster(max(workers, 1) if isinstance(workers, int) else workers)


class DictState(NamedTuple):
    ids: np.ndarray
    salt: np.ndarray
    notes: dict


@dataclass(frozen=True)
class KeepsADict(KeyGrouping):
    """Has a dict in its state: no kernel and no checkpoint can take it."""

    name: ClassVar[str] = "keeps-a-dict"
    caught_by: ClassVar[str] = "state_is_plain_arrays"

    def start(self, workers: Workers | int, seed: int = 0, source: int = 0) -> Any:
        return DictState(*super().start(workers, seed, source), notes={})


@dataclass(frozen=True)
class NumbersForIds(KeyGrouping):
    """Sends to worker numbers, which are ids only while nobody has ever left."""

    name: ClassVar[str] = "numbers-for-ids"
    caught_by: ClassVar[str] = "only_live_workers"
    also_by: ClassVar[frozenset[str]] = frozenset(
        {
            "only_declared_candidates",
            "resizing_keeps_to_live_workers",
            "resizing_shares_out_work",
            "signals_keep_to_live_workers",
            "plans_keep_to_live_workers",
        }
    )

    def route(self, state: KeyState, keys: np.ndarray, out: np.ndarray) -> None:
        super().route(state._replace(ids=np.arange(len(state.ids), dtype=np.int32)), keys, out)


class CountingState(NamedTuple):
    ids: np.ndarray
    salt: np.ndarray
    counts: np.ndarray  #: of hash buckets


def route_hot_keys_on(state: CountingState, keys: np.ndarray, out: np.ndarray) -> None:
    """By hash; messages of a key that has had `HOT_AFTER` go to the next worker in turn."""
    out[:] = homes(state, keys)
    for i, key in enumerate(keys.tolist()):
        bucket = key % len(state.counts)
        state.counts[bucket] += 1
        if state.counts[bucket] > HOT_AFTER:
            out[i] = state.ids[state.counts[bucket] % len(state.ids)]


@dataclass(frozen=True)
class SplitsHotKeys(Scheme):
    """Says that it keeps keys whole and splits the hot ones: uniform keys do not show it."""

    name: ClassVar[str] = "splits-hot-keys"
    splits_keys: ClassVar[bool] = False
    caught_by: ClassVar[str] = "one_worker_a_key"
    also_by: ClassVar[frozenset[str]] = frozenset(
        {"resizing_keeps_keys_whole", "plans_keep_to_live_workers"}
    )

    def start(self, workers: Workers | int, seed: int = 0, source: int = 0) -> CountingState:
        ids = worker_ids(self.roster(workers))
        return CountingState(ids, np.array([salt(seed)]), np.zeros(10_007, np.int64))

    def route(self, state: CountingState, keys: np.ndarray, out: np.ndarray) -> None:
        route_hot_keys_on(state, keys, out)

    def candidates(self, state: CountingState, key: int) -> np.ndarray:
        return on_copy(self, state, key)

    def resize(self, state: CountingState, workers: Workers | int) -> CountingState:
        return state._replace(ids=worker_ids(self.roster(workers)))


@dataclass(frozen=True)
class HidesHotCandidates(SplitsHotKeys):
    """Admits to splitting, but declares the home of a key only, also when it is hot."""

    name: ClassVar[str] = "hides-hot-candidates"
    splits_keys: ClassVar[bool] = True
    caught_by: ClassVar[str] = "only_declared_candidates"
    also_by: ClassVar[frozenset[str]] = frozenset(
        {"resizing_keeps_to_live_workers", "signals_keep_to_live_workers"}
    )

    def candidates(self, state: CountingState, key: int) -> np.ndarray:
        return homes(state, np.array([key], np.uint64))


@dataclass(frozen=True)
class BeginsAnewEachBatch(KeyGrouping):
    """Deals round-robin and begins with the first worker in every batch."""

    name: ClassVar[str] = "begins-anew-each-batch"
    splits_keys: ClassVar[bool] = True
    caught_by: ClassVar[str] = "batches_change_nothing"
    also_by: ClassVar[frozenset[str]] = frozenset({"empty_feedback_changes_nothing"})

    def route(self, state: KeyState, keys: np.ndarray, out: np.ndarray) -> None:
        out[:] = state.ids[np.arange(len(keys)) % len(state.ids)]

    def candidates(self, state: KeyState, key: int) -> np.ndarray:
        return state.ids


@dataclass(frozen=True)
class PickleForgets(KeyGrouping):
    """Has a parameter that does not go through pickle."""

    name: ClassVar[str] = "pickle-forgets"
    caught_by: ClassVar[str] = "pickling_changes_nothing"

    shift: int = field(default=1, compare=False)

    def __reduce__(self) -> tuple:
        return type(self), (0,)

    def route(self, state: KeyState, keys: np.ndarray, out: np.ndarray) -> None:
        super().route(state, keys + np.uint64(self.shift), out)


@dataclass(frozen=True)
class CountsInTheInstance(KeyGrouping):
    """Keeps its turn in the instance: whoever uses it next goes on where another left off."""

    name: ClassVar[str] = "counts-in-the-instance"
    splits_keys: ClassVar[bool] = True
    caught_by: ClassVar[str] = "running_again_changes_nothing"
    also_by: ClassVar[frozenset[str]] = ANY

    hidden: list = field(default_factory=lambda: [0], compare=False)

    def route(self, state: KeyState, keys: np.ndarray, out: np.ndarray) -> None:
        out[:] = state.ids[(self.hidden[0] + np.arange(len(keys))) % len(state.ids)]
        self.hidden[0] += len(keys)

    def candidates(self, state: KeyState, key: int) -> np.ndarray:
        return state.ids


@dataclass(frozen=True)
class WritesKeys(KeyGrouping):
    """Mixes the seed into the caller's keys in place."""

    name: ClassVar[str] = "writes-keys"
    caught_by: ClassVar[str] = "keys_are_not_written"

    def route(self, state: KeyState, keys: np.ndarray, out: np.ndarray) -> None:
        super().route(state, keys, out)
        keys ^= state.salt[0]


@dataclass(frozen=True)
class IgnoresTheSeed(KeyGrouping):
    """Hashes in the same way under every seed: an unlucky placement cannot be helped."""

    name: ClassVar[str] = "ignores-the-seed"
    caught_by: ClassVar[str] = "seeds_matter"

    def start(self, workers: Workers | int, seed: int = 0, source: int = 0) -> KeyState:
        return super().start(workers, 0, source)


@dataclass(frozen=True)
class SourcesDisagree(KeyGrouping):
    """Hashes differently in every source: each keeps a key whole, together they do not."""

    name: ClassVar[str] = "sources-disagree"
    caught_by: ClassVar[str] = "one_worker_a_key"
    also_by: ClassVar[frozenset[str]] = frozenset(
        {"seeds_matter", "resizing_keeps_keys_whole", "plans_keep_to_live_workers"}
    )

    def start(self, workers: Workers | int, seed: int = 0, source: int = 0) -> KeyState:
        return super().start(workers, seed + 1000 * source, source)


class TurnState(NamedTuple):
    ids: np.ndarray
    turn: np.ndarray


@dataclass(frozen=True)
class TiresOfDealing(Scheme):
    """Says that no worker gets two messages more than another; after 1000 messages, every twentieth
    goes to the first worker."""

    name: ClassVar[str] = "tires-of-dealing"
    caught_by: ClassVar[str] = "own_guarantee_holds"

    def start(self, workers: Workers | int, seed: int = 0, source: int = 0) -> TurnState:
        return TurnState(worker_ids(self.roster(workers)), np.zeros(1, np.int64))

    def route(self, state: TurnState, keys: np.ndarray, out: np.ndarray) -> None:
        turns = state.turn[0] + np.arange(len(keys))
        out[:] = state.ids[np.where((turns > 1000) & (turns % 20 == 0), 0, turns % len(state.ids))]
        state.turn[0] += len(keys)

    def candidates(self, state: TurnState, key: int) -> np.ndarray:
        return state.ids

    def resize(self, state: TurnState, workers: Workers | int) -> TurnState:
        return state._replace(ids=worker_ids(self.roster(workers)))

    def check_guarantee(self, workers: Workers, keys: np.ndarray, out: np.ndarray) -> str | None:
        loads = [int((out == worker).sum()) for worker in workers.ids]
        return f"loads are {loads}" if max(loads) - min(loads) > 1 else None


@dataclass(frozen=True)
class Crashes(KeyGrouping):
    """Raises on the key 0."""

    name: ClassVar[str] = "crashes"
    caught_by: ClassVar[str] = "only_live_workers"
    also_by: ClassVar[frozenset[str]] = ANY

    def route(self, state: KeyState, keys: np.ndarray, out: np.ndarray) -> None:
        if 0 in keys:
            raise InputError("0 is not a key")
        super().route(state, keys, out)
