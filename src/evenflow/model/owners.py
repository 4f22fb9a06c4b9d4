"""Who owns a key: the scheme `key` in plain NumPy, for tasks that must start without a compiler."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from evenflow.model import InputError, Plan
from evenflow.model.validation import check_whole

I32 = npt.NDArray[np.int32]
U64 = npt.NDArray[np.uint64]

MULTIPLIER = 0xD6E8FEB86659FD93  #: of the hash, as in `kernels.mixing`
_HALF = np.uint64(32)
_WORD = 0xFFFFFFFFFFFFFFFF


def owner_of(fingerprints: U64, n: int, seed: int) -> I32:
    """The owner, 0 … n − 1, of every key, by a hash of its fingerprint.

    Guarantee: the worker that `grouping.KeyGrouping` sends the key to, with the same seed.

    Parameters:
        fingerprints: the keys' 64-bit fingerprints.
        n: how many workers there are, at most 2³².
        seed: chooses the hash function.

    Example:
        >>> import numpy as np
        >>> owner_of(np.array([7, 8, 7], np.uint64), n=10, seed=0).tolist()
        [4, 1, 4]
    """
    words = fingerprints ^ np.uint64(salt(seed))
    for _ in range(2):
        words ^= words >> _HALF
        words *= np.uint64(MULTIPLIER)
    # The third xor of the mix changes the lower half only; the choice is made of the upper one.
    return (((words >> _HALF) * np.uint64(n)) >> _HALF).astype(np.int32)


def salt(seed: int) -> int:
    """What the fingerprints are mixed with, so that each seed has a hash function of its own."""
    word = (0x243F6A8885A308D3 ^ (seed & _WORD)) * MULTIPLIER & _WORD
    return word ^ word >> 32


@dataclass(frozen=True)
class Owners:
    """The placement of one epoch, as it is written down in a manifest.

    Guarantee: a pure function of the fingerprint, the same on every machine: an explicit owner where
    the table names one, else the hash.

    Parameters:
        workers: how many owners there are.
        seed: chooses the hash function.
        table: fingerprint → owner, for a few keys.
        buckets: the hash's buckets → owners, where they are not dealt out evenly and in order.

    Example:
        >>> import numpy as np
        >>> place = Owners.from_json({"workers": 10, "seed": 0, "table": {"8": 2}})
        >>> place(np.array([7, 8], np.uint64)).tolist()
        [4, 2]
    """

    workers: int
    seed: int = 0
    table: Mapping[int, int] = field(default_factory=dict)
    buckets: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        check_whole("the number of workers", self.workers, 1)

    @classmethod
    def of(cls, plan: Plan) -> Owners:
        """The owners under a plan."""
        return cls(plan.workers, plan.seed, plan.table.entries, plan.buckets)

    def homes(self, fingerprints: U64) -> I32:
        """The owners by hash alone."""
        if not self.buckets:
            return owner_of(fingerprints, self.workers, self.seed)
        dealt = np.array(self.buckets, np.int32)
        homes: I32 = dealt[owner_of(fingerprints, len(dealt), self.seed)]
        return homes

    def __call__(self, fingerprints: U64) -> I32:
        owners = self.homes(fingerprints)
        if self.table:
            listed = np.array(sorted(self.table), np.uint64)
            at = np.minimum(np.searchsorted(listed, fingerprints), len(listed) - 1)
            hit = listed[at] == fingerprints
            named = np.array([self.table[int(one)] for one in listed], np.int32)
            owners[hit] = named[at[hit]]
        return owners

    def to_json(self) -> dict[str, Any]:
        """As plain JSON, which has no numbers for keys."""
        table = {str(fingerprint): owner for fingerprint, owner in self.table.items()}
        plain = {"workers": self.workers, "seed": self.seed, "table": table}
        return {**plain, "buckets": list(self.buckets)} if self.buckets else plain

    @classmethod
    def from_json(cls, plain: Mapping[str, Any]) -> Owners:
        """From what `to_json` has made. A part that is not known is refused: ignored, it would
        misplace keys."""
        if set(plain) - {"buckets"} != {"workers", "seed", "table"}:
            raise InputError(
                f"a placement has workers, seed and table, got {', '.join(sorted(plain))}; read this "
                "checkpoint with the version of evenflow that wrote it"
            )
        table = {int(fingerprint): owner for fingerprint, owner in plain["table"].items()}
        return cls(plain["workers"], plain["seed"], table, tuple(plain.get("buckets", ())))
