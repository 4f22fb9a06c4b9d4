"""The power of two choices: two random workers per message, whatever its key."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from evenflow.grouping.protocol import I32, I64, U64, Scheme, choices_of, worker_ids
from evenflow.kernels.jit import kernel
from evenflow.kernels.mixing import high_choice, low_choice, mix, salt
from evenflow.kernels.selection import take_less_loaded
from evenflow.model import Workers


class State(NamedTuple):
    ids: I32
    salt: U64
    loads: I64
    sent: U64


@dataclass(frozen=True)
class TwoChoices(Scheme):
    """Draws two workers for each message and sends it to the less loaded of them.

    Guarantee: the imbalance of one source is O(ln ln n) messages, however long the stream (with high
    probability), whatever the keys. The price is that of shuffle grouping: a frequent key has state
    everywhere.

    Draws are a hash of the source and the message's number, so a retried task repeats them.

    Resizing: messages are drawn among the new roster; workers that stay keep their loads.

    Example:
        >>> import numpy as np
        >>> scheme, out = TwoChoices(), np.empty(10_000, np.int32)
        >>> scheme.route(scheme.start(10), np.zeros(10_000, np.uint64), out)
        >>> int(np.ptp(np.bincount(out))) < 20
        True

    Paper: PoTC in "Consistent Grouping", §III-D and Lemma 6.2.
    """

    name: ClassVar[str] = "two-choices"
    symbol: ClassVar[str] = "PoTC"

    def start(self, workers: Workers | int, seed: int = 0, source: int = 0) -> State:
        roster = self.roster(workers)
        return State(
            worker_ids(roster),
            np.array([salt(seed, source)]),
            np.zeros(len(roster), np.int64),
            np.zeros(1, np.uint64),
        )

    def route(self, state: State, keys: U64, out: I32) -> None:
        _route(state.ids, state.salt, state.loads, state.sent, out[: len(keys)])

    def candidates(self, state: State, key: int) -> I32:
        return choices_of(int(state.sent[0]), state.salt, state.ids, 2)

    def check_guarantee(self, workers: Workers, keys: U64, out: I32) -> str | None:
        n = len(workers)
        above = max((out == w).sum() for w in workers.ids) - len(out) / n
        # ln ln n / ln 2 with a generous constant: the bound is asymptotic, with high probability.
        if above > 10 + 5 * np.log(np.log(n + 3)) / np.log(2):
            return f"a worker is {above:.0f} messages above the average"
        return None


@kernel
def _route(ids, salt, loads, sent, out):
    n, seed, number = np.uint64(len(ids)), salt[0], sent[0]
    for i in range(len(out)):
        mixed = mix(number ^ seed)
        number += np.uint64(1)
        out[i] = ids[take_less_loaded(loads, high_choice(mixed, n), low_choice(mixed, n))]
    sent[0] = number
