"""Partial key grouping: the less loaded of a key's two workers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from evenflow.grouping.key_choices import KeyChoices, State
from evenflow.grouping.protocol import I32, U64
from evenflow.kernels.jit import kernel
from evenflow.kernels.mixing import high_choice, low_choice, mix
from evenflow.kernels.selection import take_less_loaded


@dataclass(frozen=True)
class PartialKeyGrouping(KeyChoices):
    """Gives every key two workers by hash and each message to the less loaded of them.

    Guarantee: at most two workers per key. Balanced while no key has more than 1/(5n) of the stream;
    where p₁ > 2/n, the imbalance is at least p₁/2 − 1/n.

    Resizing: a new number of workers moves nearly every key; workers that stay keep their loads.

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

    def choices(self) -> int:
        return 2

    def route(self, state: State, keys: U64, out: I32) -> None:
        _route(*state, keys, out)


@kernel
def _route(ids, salt, loads, keys, out):
    n, seed = np.uint64(len(ids)), salt[0]
    for i in range(len(keys)):
        mixed = mix(keys[i] ^ seed)
        out[i] = ids[take_less_loaded(loads, high_choice(mixed, n), low_choice(mixed, n))]
