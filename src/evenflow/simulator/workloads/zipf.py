"""Finite Zipf keys with drift."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count
from typing import Any, ClassVar

from evenflow.kernels.mixing import salt
from evenflow.model import InputError
from evenflow.simulator.workloads.drawing import (
    DRAW,
    F64,
    IDENTITY,
    PERMUTE,
    from_tables,
    named_keys,
    power_law_weights,
    shuffle,
)
from evenflow.simulator.workloads.protocol import U64, called

MOST_KEYS = 100_000_000  #: more would not fit into the memory of an ordinary machine


@dataclass(frozen=True)
class Zipf:
    """Independent keys, the r-th most frequent of which has probability ∝ r^−exponent.

    Guarantee: message i depends on the parameters and on i alone, so chunking changes nothing.
    Different ranks have different fingerprints.

    Parameters:
        exponent: skew z ≥ 0; 0 is uniform. In a declaration: `zipf`.
        keys: number of different keys.
        messages: length of the stream.
        seed: another seed is another stream, with other keys.
        drift: after every this many messages the ranks are permuted among the same keys, so that
            other keys become hot. None: no drift.

    Example:
        >>> [chunk] = Zipf(exponent=1.0, keys=100, messages=5, seed=1).chunks(1_000)
        >>> chunk.dtype, len(chunk)
        (dtype('uint64'), 5)

    Paper: the ZF streams of "When two choices are not enough", §V-A.
    """

    name: ClassVar[str] = "zipf"

    exponent: float = field(default=1.4, metadata=called("zipf"))
    keys: int = 10_000
    messages: int = 1_000_000
    seed: int = 0
    drift: int | None = None

    def __post_init__(self) -> None:
        if not (math.isfinite(self.exponent) and self.exponent >= 0):
            raise InputError(
                f"the Zipf exponent must be a finite number of at least 0, got {self.exponent}"
            )
        if not 1 <= self.keys <= MOST_KEYS:
            raise InputError(f"the number of keys must lie in 1..{MOST_KEYS}, got {self.keys}")
        if self.messages < 1:
            raise InputError(f"the number of messages must be at least 1, got {self.messages}")
        if self.drift is not None and self.drift < 1:
            raise InputError(
                f"drift must be at least 1 message, got {self.drift}; leave it out for no drift"
            )

    def probabilities(self) -> F64:
        """The probability of each rank, most frequent first."""
        weights = power_law_weights(self.exponent, 0.0, self.keys)
        probabilities: F64 = weights / weights.sum()
        return probabilities

    def key_of_rank(self, epoch: int = 0) -> U64:
        """The fingerprint of each rank in the `epoch`-th stretch of `drift` messages."""
        keys = named_keys(salt(self.seed, IDENTITY), self.keys)
        if epoch:
            shuffle(salt(self.seed, PERMUTE, epoch), keys)
        return keys

    def chunks(self, size: int) -> Iterator[U64]:
        tables = (self.key_of_rank(epoch) for epoch in count())
        draws = salt(self.seed, DRAW)
        return from_tables(self.probabilities(), tables, draws, self.messages, self.drift, size)

    def length(self) -> int:
        return self.messages

    def describe(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "zipf": float(self.exponent),
            "key_space": self.keys,
            "drift": self.drift,
            "stand_in": False,
        }
