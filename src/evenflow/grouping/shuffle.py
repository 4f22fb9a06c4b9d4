"""Shuffle grouping: all workers in turn."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from evenflow.grouping.protocol import I32, I64, U64, Scheme, worker_ids
from evenflow.kernels.jit import kernel
from evenflow.kernels.mixing import salt
from evenflow.model import Workers


class State(NamedTuple):
    ids: I32
    turn: I64


@dataclass(frozen=True)
class ShuffleGrouping(Scheme):
    """Deals messages to the workers in turn, whatever their keys.

    Guarantee: loads from one source never differ by more than one message. The price: a frequent key
    has state on every worker.

    Resizing: messages are dealt to the new roster.

    Example:
        >>> import numpy as np
        >>> scheme, out = ShuffleGrouping(), np.empty(4, np.int32)
        >>> scheme.route(scheme.start(2), np.zeros(4, np.uint64), out)
        >>> sorted(out.tolist())
        [0, 0, 1, 1]

    Paper: SG in "When two choices are not enough", §II-B.
    """

    name: ClassVar[str] = "shuffle"
    symbol: ClassVar[str] = "SG"

    def start(self, workers: Workers | int, seed: int = 0, source: int = 0) -> State:
        ids = worker_ids(self.roster(workers))
        return State(ids, np.array([int(salt(seed, source)) % len(ids)], np.int64))

    def route(self, state: State, keys: U64, out: I32) -> None:
        _route(state.ids, state.turn, out[: len(keys)])

    def candidates(self, state: State, key: int) -> I32:
        return state.ids[state.turn]

    def resize(self, state: State, workers: Workers | int) -> State:
        ids = worker_ids(self.roster(workers))
        return State(ids, state.turn % len(ids))

    def check_guarantee(self, workers: Workers, keys: U64, out: I32) -> str | None:
        loads = np.array([(out == w).sum() for w in workers.ids])
        if np.ptp(loads) > 1:
            return f"loads range from {loads.min()} to {loads.max()}"
        return None


@kernel
def _route(ids, turn, out):
    w = turn[0]
    for i in range(len(out)):
        out[i] = ids[w]
        w += 1
        if w == len(ids):
            w = 0
    turn[0] = w
