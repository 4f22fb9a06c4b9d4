"""The one protocol of grouping, and what schemes share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from evenflow.kernels.jit import kernel
from evenflow.kernels.mixing import choice, mix
from evenflow.model import Feedback, InputError, Workers

U64 = npt.NDArray[np.uint64]
I64 = npt.NDArray[np.int64]
I32 = npt.NDArray[np.int32]


@runtime_checkable
class GroupingScheme(Protocol):
    """Decides which worker gets which message. One instance serves one source.

    The instance is frozen, picklable configuration; everything that changes is in `state`, a
    NamedTuple of arrays. `route` is a pure function of the state and the keys: no clock, no global
    counter, so that a retried task sends every message where it went before. Loads count only what
    this source has sent.
    """

    name: ClassVar[str]  #: "w-choices"
    symbol: ClassVar[str]  #: the papers' abbreviation, "W-C"
    #: True: one key may be on several workers; the operator needs a merge
    splits_keys: ClassVar[bool]
    weighted: ClassVar[bool]  #: True: workers' weights are taken into account

    def start(self, workers: Workers | int, seed: int = 0, source: int = 0) -> Any:
        """Return a fresh state. Sources that share `seed` share hash functions; `source` only decides
        where ties and round-robins begin."""
        ...

    def route(self, state: Any, keys: U64, out: I32) -> None:
        """Write a worker id into `out` for each key, in order (the forward arrow)."""
        ...

    def candidates(self, state: Any, key: int) -> I32:
        """Return the ids of all workers that the next message may go to if its key is `key`."""
        ...

    def observe(self, state: Any, feedback: Feedback) -> None:
        """Take feedback from the workers into account (the backward arrow)."""
        ...

    def resize(self, state: Any, workers: Workers | int) -> Any:
        """Return the state for a new roster, keeping what is known about the workers that stay."""
        ...


@dataclass(frozen=True)
class Scheme:
    """What most schemes have in common. An optional base class: the protocol does not require it."""

    name: ClassVar[str]
    symbol: ClassVar[str] = ""
    splits_keys: ClassVar[bool] = True
    weighted: ClassVar[bool] = False

    def observe(self, state: Any, feedback: Feedback) -> None:
        """Ignore feedback."""

    def resize(self, state: Any, workers: Workers | int) -> Any:
        """Replace the roster; workers that stay keep their loads, if the state has loads."""
        roster = self.roster(workers)
        changes: dict[str, Any] = {"ids": worker_ids(roster)}
        if "loads" in state._fields:
            changes["loads"] = carried_loads(state.ids, state.loads, roster)
        return state._replace(**changes)

    def roster(self, workers: Workers | int) -> Workers:
        """Return `workers` as a roster; reject weights that this scheme would ignore."""
        roster = Workers.of(workers)
        if roster.weights is not None and not self.weighted and len(set(roster.weights)) > 1:
            raise InputError(
                f"{self.name!r} treats all workers alike and cannot follow weights; "
                "random-choices, bounded-hashing, consistent and table can"
            )
        return roster


def worker_ids(workers: Workers) -> I32:
    """Worker number → id, as an array for kernels."""
    return np.array(workers.ids, np.int32)


def carried_loads(old_ids: I32, old_loads: I64, workers: Workers) -> I64:
    """The loads of a new roster: workers that stay keep theirs, newcomers start at the average.

    A newcomer that started at zero would be the least loaded worker for as long as the stream has
    lasted, and would be flooded.
    """
    known = dict(zip(old_ids.tolist(), old_loads.tolist(), strict=True))
    staying = [known[w] for w in workers.ids if w in known]
    average = round(sum(staying) / len(staying)) if staying else 0
    return np.array([known.get(w, average) for w in workers.ids], np.int64)


def most_workers_of_a_key(keys: U64, out: I32) -> int:
    """The number of workers that the most widely spread key is on."""
    numbers = np.unique(keys, return_inverse=True)[1].astype(np.int64)
    pairs = np.unique((numbers << 32) | out)
    return int(np.bincount(pairs >> 32).max(initial=0))


def choices_of(key: int, seed: U64, ids: I32, d: int) -> I32:
    """The ids of F₁(key) … F_d(key)."""
    numbers = np.empty(d, np.int64)
    _choices(np.array([key], np.uint64), seed, len(ids), numbers)
    return ids[numbers]


@kernel
def _choices(key, salt, n, numbers):
    mixed = mix(key[0] ^ salt[0])
    for i in range(len(numbers)):
        numbers[i] = np.int64(choice(mixed, np.uint64(i), np.uint64(n)))
