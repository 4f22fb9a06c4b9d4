"""Schemes that give every key a few workers by hash: what partial-key and greedy-d share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

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
from evenflow.kernels.mixing import salt
from evenflow.model import Workers


class State(NamedTuple):
    ids: I32
    salt: U64
    loads: I64


@dataclass(frozen=True)
class KeyChoices(Scheme):
    """A scheme that sends each message to one of the `choices()` workers of its key."""

    def choices(self) -> int:
        """The number of hash functions."""
        raise NotImplementedError

    def start(self, workers: Workers | int, seed: int = 0, source: int = 0) -> State:
        roster = self.roster(workers)
        return State(worker_ids(roster), np.array([salt(seed)]), np.zeros(len(roster), np.int64))

    def candidates(self, state: State, key: int) -> I32:
        return choices_of(key, state.salt, state.ids, self.choices())

    def check_guarantee(self, workers: Workers, keys: U64, out: I32) -> str | None:
        most = most_workers_of_a_key(keys, out)
        return f"a key is on {most} workers" if most > self.choices() else None
