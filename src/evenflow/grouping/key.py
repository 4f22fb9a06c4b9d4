"""Key grouping: one worker per key, by hash."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from evenflow.grouping.protocol import I32, U64, Scheme, worker_ids
from evenflow.kernels.jit import kernel
from evenflow.kernels.mixing import high_choice
from evenflow.kernels.xxh64 import hash_word
from evenflow.model import Workers
from evenflow.model.owners import seed_word


class State(NamedTuple):
    ids: I32
    salt: U64  #: the `seed_word`


@dataclass(frozen=True)
class KeyGrouping(Scheme):
    """Sends all messages of a key to one worker, chosen by hash: what Spark and Storm do by default.

    Guarantee: one worker per key, the owner that `model.owners` and Spark's own expressions compute.
    The worker of the most frequent key gets at least that key's share p₁ of the stream, however many
    workers there are.

    Resizing: a new number of workers moves nearly every key.

    Example:
        >>> import numpy as np
        >>> scheme, out = KeyGrouping(), np.empty(3, np.int32)
        >>> scheme.route(scheme.start(10), np.array([7, 8, 7], np.uint64), out)
        >>> bool(out[0] == out[2])
        True

    Paper: KG in "When two choices are not enough", §II-B.
    """

    name: ClassVar[str] = "key"
    symbol: ClassVar[str] = "KG"
    splits_keys: ClassVar[bool] = False

    def start(self, workers: Workers | int, seed: int = 0, source: int = 0) -> State:
        return State(worker_ids(self.roster(workers)), np.array([seed_word(seed)]))

    def route(self, state: State, keys: U64, out: I32) -> None:
        _route(state.ids, state.salt, keys, out)

    def candidates(self, state: State, key: int) -> I32:
        out = np.empty(1, np.int32)
        self.route(state, np.array([key], np.uint64), out)
        return out


@kernel
def _route(ids, salt, keys, out):
    n, seed = np.uint64(len(ids)), salt[0]
    for i in range(len(keys)):
        out[i] = ids[high_choice(hash_word(keys[i], seed), n)]
