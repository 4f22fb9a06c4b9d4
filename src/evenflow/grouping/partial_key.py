"""Partial key grouping: the less loaded of a key's two workers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from evenflow.grouping.protocol import (
    I32,
    I64,
    U64,
    Scheme,
    carried_loads,
    choices_of,
    most_workers_of_a_key,
    worker_ids,
)
from evenflow.kernels.jit import kernel
from evenflow.kernels.mixing import high_choice, low_choice, mix, salt
from evenflow.kernels.selection import take_less_loaded
from evenflow.model import Workers


class State(NamedTuple):
    ids: I32
    salt: U64
    loads: I64


@dataclass(frozen=True)
class PartialKeyGrouping(Scheme):
    """Gives every key two workers by hash and each message to the less loaded of them.

    Guarantee: at most two workers a key. Balanced while no key has more than 1/(5n) of the stream;
    where p₁ > 2/n, the imbalance is at least p₁/2 − 1/n.

    Resizing: a new number of workers moves nearly every key; loads of those that stay are kept.

    Example:
        >>> import numpy as np
        >>> scheme, out = PartialKeyGrouping(), np.empty(1000, np.int32)
        >>> scheme.route(scheme.start(10), np.full(1000, 42, np.uint64), out)
        >>> len(set(out.tolist()))
        2

    Paper: PKG in "When two choices are not enough", §II-B and §III-A.
    """

    name: ClassVar[str] = "partial-key"
    symbol: ClassVar[str] = "PKG"

    def start(self, workers: Workers | int, seed: int = 0, source: int = 0) -> State:
        roster = self.roster(workers)
        return State(worker_ids(roster), np.array([salt(seed)]), np.zeros(len(roster), np.int64))

    def route(self, state: State, keys: U64, out: I32) -> None:
        _route(state.ids, state.salt, state.loads, keys, out)

    def candidates(self, state: State, key: int) -> I32:
        return choices_of(key, state.salt, state.ids, 2)

    def resize(self, state: State, workers: Workers | int) -> State:
        roster = self.roster(workers)
        loads = carried_loads(state.ids, state.loads, roster)
        return state._replace(ids=worker_ids(roster), loads=loads)

    def check_guarantee(self, workers: Workers, keys: U64, out: I32) -> str | None:
        most = most_workers_of_a_key(keys, out)
        return f"a key is on {most} workers" if most > 2 else None


@kernel
def _route(ids, salt, loads, keys, out):
    n, seed = np.uint64(len(ids)), salt[0]
    for i in range(len(keys)):
        mixed = mix(keys[i] ^ seed)
        out[i] = ids[take_less_loaded(loads, high_choice(mixed, n), low_choice(mixed, n))]
