"""Round-robin head: hot keys go to all workers in turn."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from evenflow.grouping.head import BLOCK, TAIL, HeadScheme, HeadState, judge
from evenflow.grouping.protocol import I32, U64, choices_of
from evenflow.kernels.jit import kernel
from evenflow.kernels.mixing import high_choice, low_choice, mix
from evenflow.kernels.selection import CURSOR, take_less_loaded


@dataclass(frozen=True)
class RoundRobinHead(HeadScheme):
    """Deals the messages of hot keys to all workers in turn; other keys have two choices.

    A baseline: it costs as much memory as w-choices and does not look at loads for hot keys.

    Guarantee: a key seen fewer than `sightings / 2` times is on at most two workers; the messages of
    hot keys alone are spread evenly.

    Parameters:
        theta: the smallest share of a hot key; None for 1/(5n).
        sightings: the number of recent messages that makes a key with share θ hot.
        counters: SpaceSaving counters per possible hot key.
        literal: the paper's form: a key is hot while it has θ of all messages so far, from the first
            on; `sightings` and its guarantee do not apply.

    Resizing: other keys move as under partial key grouping; workers that stay
    keep their loads, and hot keys stay hot.

    Example:
        >>> import numpy as np
        >>> scheme, out = RoundRobinHead(), np.empty(10_000, np.int32)
        >>> scheme.route(scheme.start(10), np.full(10_000, 42, np.uint64), out)
        >>> int(np.bincount(out).min()) > 990
        True

    Paper: RR in "When two choices are not enough", §III-B.
    """

    name: ClassVar[str] = "round-robin-head"
    symbol: ClassVar[str] = "RR"

    def route(self, state: HeadState, keys: U64, out: I32) -> None:
        _route(*state, keys, out)

    def candidates(self, state: HeadState, key: int) -> I32:
        two = choices_of(key, state.salt, state.ids, 2)
        hot = self._may_be_hot(state, key)
        return np.append(two, state.ids[state.board[CURSOR]]) if hot else two


@kernel
def _route(ids, salt, loads, board, _levels, sketch, limits, verdicts, keys, out):
    n, seed, turn = np.uint64(len(ids)), salt[0], np.uint64(board[CURSOR])
    for start in range(0, len(keys), BLOCK):
        block = keys[start : start + BLOCK]
        judge(sketch, limits, block, verdicts)
        for i in range(len(block)):
            if verdicts[i] != TAIL:
                w = turn
                loads[w] += 1
                turn += np.uint64(1)
                if turn == n:
                    turn = np.uint64(0)
            else:
                mixed = mix(block[i] ^ seed)
                w = take_less_loaded(loads, high_choice(mixed, n), low_choice(mixed, n))
            out[start + i] = ids[w]
    board[CURSOR] = np.int64(turn)
