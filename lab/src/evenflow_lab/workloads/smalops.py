"""The power-law generator of SMALOPS, whose keys are shifted every minute."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from evenflow.kernels.mixing import salt
from evenflow.model import InputError
from evenflow.model.validation import check_whole
from evenflow.simulator.workloads.drawing import DRAW, IDENTITY, in_stretches
from evenflow.simulator.workloads.protocol import U64
from evenflow_lab.workloads.power_law import PowerLaw, draw


@dataclass(frozen=True)
class Smalops:
    """Key number k of a minute has probability ∝ (v + k)^−s; every minute all numbers are shifted.

    Number k of minute j is key k + j · shift: the hottest keys stop, all others become hotter, and
    new ones enter at the end. How far the keys are shifted, and how many messages a minute has, the
    paper does not say. The defaults are chosen so that its other numbers come out: of 28 M possible
    keys 3.2 M are used in 28 M messages, 1.3 k have 100 or more messages in a minute (paper: 1 to
    1.5 k tracked), and 14 k have them in one minute or another.

    Guarantee: message i depends on the parameters and on i alone.

    Parameters:
        messages: length of the stream.
        keys: how many keys there are at a time.
        seed: another seed is another stream, with other keys.
        s: exponent, above 1 in the paper.
        v: at least 1.
        minute: messages a minute.
        shift: by how many keys the minutes differ; 0 for the static load.

    Example:
        >>> f"{Smalops().law.distinct(28_000_000) / 1e6:.1f} M keys"
        '3.2 M keys'

    Paper: "SMALOPS", §II for the counts of keys, §III-A for the law, §III-B for the dynamic load.
    """

    name: ClassVar[str] = "smalops"

    messages: int = 28_000_000
    keys: int = 28_000_000
    seed: int = 0
    s: float = 1.1
    v: float = 2.72
    minute: int = 2_000_000
    shift: int = 1_000

    def __post_init__(self) -> None:
        check_whole("the number of messages", self.messages, 1)
        check_whole("the messages of a minute", self.minute, 1)
        check_whole("the shift of the keys", self.shift, 0)
        if not self.v > 0:
            raise InputError(f"v must be a number above 0, got {self.v}")
        _ = self.law  # refuses the other parameters

    @property
    def law(self) -> PowerLaw:
        """The law of every minute: the paper's k counts from 0, a rank from 1."""
        return PowerLaw(self.s, self.keys, self.v - 1)

    def chunks(self, size: int) -> Iterator[U64]:
        sampler = self.law.sampler()
        draws, identity = salt(self.seed, DRAW), int(salt(self.seed, IDENTITY))

        def fill(minute: int, position: int, out: U64) -> None:
            first = np.uint64((identity + minute * self.shift) % 2**64)
            draw(sampler, draws, first, position, out)

        return in_stretches(self.messages, self.minute, size, fill)

    def length(self) -> int:
        return self.messages

    def describe(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "s": float(self.s),
            "v": float(self.v),
            "key_space": self.keys,
            "drift": self.minute if self.shift else None,
            "shift": self.shift,
            "stand_in": False,
        }
