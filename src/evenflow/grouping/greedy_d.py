"""Greedy-d: the least loaded of a key's d workers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from evenflow.grouping.key_choices import KeyChoices, State
from evenflow.grouping.protocol import I32, U64
from evenflow.kernels.jit import kernel
from evenflow.kernels.mixing import choice, mix
from evenflow.model.validation import check_whole


@dataclass(frozen=True)
class GreedyD(KeyChoices):
    """Gives every key d workers by hash and each message to the least loaded of them.

    Guarantee: at most d workers per key (fewer where hashes collide). d = 1 keeps every key on one
    worker, like key grouping with another hash function; d = 2 is partial key grouping. Ties go to
    the earlier hash function.

    Parameters:
        d: the number of hash functions.

    Resizing: a new number of workers moves nearly every key; workers that stay keep their loads.

    Example:
        >>> import numpy as np
        >>> scheme, out = GreedyD(d=3), np.empty(1000, np.int32)
        >>> scheme.route(scheme.start(100), np.full(1000, 42, np.uint64), out)
        >>> len(set(out.tolist()))
        3

    Paper: Greedy-d in "When two choices are not enough", §III-B.
    """

    name: ClassVar[str] = "greedy-d"
    symbol: ClassVar[str] = "Greedy-d"

    d: int = 4

    def __post_init__(self) -> None:
        check_whole("d", self.d, least=1)

    def choices(self) -> int:
        return self.d

    def route(self, state: State, keys: U64, out: I32) -> None:
        _route(self.d, *state, keys, out)


@kernel
def _route(d, ids, salt, loads, keys, out):
    n, seed = np.uint64(len(ids)), salt[0]
    for i in range(len(keys)):
        mixed = mix(keys[i] ^ seed)
        best = choice(mixed, np.uint64(0), n)
        least = loads[best]
        for c in range(1, d):
            w = choice(mixed, np.uint64(c), n)
            # Selected, not branched to: which one is less is as good as random.
            is_less = (loads[w] - least) >> 63  # −1 or 0
            best ^= (best ^ w) & np.uint64(is_less)
            least += (loads[w] - least) & is_less
        loads[best] = least + 1
        out[i] = ids[best]
