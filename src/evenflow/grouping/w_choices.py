"""W-Choices: hot keys go to the least loaded of all workers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from evenflow.grouping.head import BLOCK, TAIL, HeadScheme, HeadState, judge
from evenflow.grouping.protocol import I32, U64
from evenflow.kernels.jit import kernel
from evenflow.kernels.mixing import high_choice, low_choice, mix
from evenflow.kernels.selection import note_increment, take_least_of_all, take_less_loaded


@dataclass(frozen=True)
class WChoices(HeadScheme):
    """Sends hot keys to the least loaded of all workers, and other keys to the less loaded of two.

    Guarantee: a key seen fewer than `sightings / 2` times is on at most two workers. Balanced to
    within a few messages per source wherever hot keys make up enough of the stream to fill the gaps
    that other keys leave, which θ ≤ 1/n ensures.

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
        >>> scheme, out = WChoices(), np.empty(10_000, np.int32)
        >>> scheme.route(scheme.start(10), np.full(10_000, 42, np.uint64), out)
        >>> int(np.ptp(np.bincount(out))) <= 1
        True

    Paper: W-C in "When two choices are not enough", Algorithm 1. Ageing and `sightings` are our
    additions.
    """

    name: ClassVar[str] = "w-choices"
    symbol: ClassVar[str] = "W-C"

    def route(self, state: HeadState, keys: U64, out: I32) -> None:
        _route(*state, keys, out)


@kernel
def _route(ids, salt, loads, board, levels, sketch, limits, verdicts, keys, out):
    n, seed = np.uint64(len(ids)), salt[0]
    for start in range(0, len(keys), BLOCK):
        block = keys[start : start + BLOCK]
        judge(sketch, limits, block, verdicts)
        for i in range(len(block)):
            if verdicts[i] != TAIL:
                w = take_least_of_all(loads, board, levels)
            else:
                mixed = mix(block[i] ^ seed)
                w = take_less_loaded(loads, high_choice(mixed, n), low_choice(mixed, n))
                note_increment(loads, board, levels, w)
            out[start + i] = ids[w]
