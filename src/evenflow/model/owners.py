"""Who owns a key: Spark's `xxhash64` of a seed and the key's fingerprint, in plain NumPy.

Tasks that must start without a compiler use this module. `kernels.jit` compiles the same `hash_word`
for the schemes, and `spark.native_routing` has the same owner as an expression of Spark's.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from evenflow.model import InputError, Plan, shapes
from evenflow.model.validation import check_whole

I32 = npt.NDArray[np.int32]
U64 = npt.NDArray[np.uint64]

SPARK_SEED = 42  #: the number that Spark's `xxhash64` begins with

P1 = np.uint64(0x9E3779B185EBCA87)  #: the primes of XXH64
P2 = np.uint64(0xC2B2AE3D27D4EB4F)
P3 = np.uint64(0x165667B19E3779F9)
P4 = np.uint64(0x85EBCA77C2B2AE63)
P5 = np.uint64(0x27D4EB2F165667C5)

_8, _27, _29, _31, _32, _33, _37 = (np.uint64(i) for i in (8, 27, 29, 31, 32, 33, 37))
_WORD = 0xFFFFFFFFFFFFFFFF
_BLOCK = 8192  # fingerprints at a time: intermediate results stay in the cache


def hash_word(word: Any, running: Any) -> Any:
    """XXH64 of a 64-bit number's eight bytes, with the seed `running`.

    Guarantee: for every seed a bijection, so distinct numbers never collide.

    Parameters:
        word, running: arrays of uint64 here, numbers where the function is compiled.
    """
    word = word * P2
    word = (word << _31 | word >> _33) * P1
    digest = (running + P5 + _8) ^ word
    digest = (digest << _27 | digest >> _37) * P1 + P4
    digest = (digest ^ digest >> _33) * P2
    digest = (digest ^ digest >> _29) * P3
    return digest ^ digest >> _32


@cache
def seed_word(seed: int) -> np.uint64:
    """The hash of a seed, `xxhash64(lit(seed))`, which the hash of a fingerprint continues."""
    running = hash_word(np.array([seed & _WORD], np.uint64), np.uint64(SPARK_SEED))
    return np.uint64(running[0])


def owner_words(fingerprints: U64, seed: int) -> U64:
    """Spark's `xxhash64(lit(seed), fingerprint)` of every fingerprint."""
    words, running = np.empty(len(fingerprints), np.uint64), np.array([seed_word(seed)])
    for i in range(0, len(words), _BLOCK):
        words[i : i + _BLOCK] = hash_word(fingerprints[i : i + _BLOCK], running)
    return words


def owner_of(fingerprints: U64, n: int, seed: int) -> I32:
    """The owner, 0 … n − 1, of every key, by a hash of its fingerprint.

    Guarantee: the worker that `grouping.KeyGrouping` sends the key to with the same seed, and the
    partition that Spark's own expressions send it to.

    Parameters:
        fingerprints: the keys' 64-bit fingerprints.
        n: the number of owners, at most 2³¹.
        seed: chooses the hash function.

    Example:
        >>> import numpy as np
        >>> owner_of(np.array([7, 8, 7], np.uint64), n=10, seed=0).tolist()
        [8, 3, 8]
    """
    words = owner_words(fingerprints, seed)
    words >>= _32
    words *= np.uint64(n)
    words >>= _32
    return words.astype(np.int32)


_OWNER = shapes.whole(0, 2**31 - 1)
_SHAPE = shapes.fields(
    {
        "partitions": shapes.whole(1, 2**31 - 1),
        "seed": shapes.whole(),
        "table": shapes.mapping(_OWNER, shapes.fingerprint),
    },
    {"buckets": shapes.a_list(_OWNER)},
)


@dataclass(frozen=True)
class Owners:
    """The placement of one epoch, as stored in a manifest.

    Guarantee: a pure function of the fingerprint, the same on every machine: the owner in the table if
    there is one, else the hash.

    Parameters:
        workers: the number of owners.
        seed: chooses the hash function.
        table: fingerprint → owner, for a few keys.
        buckets: hash bucket → owner, if they are not dealt out evenly and in order.

    Example:
        >>> import numpy as np
        >>> place = Owners.from_json({"partitions": 10, "seed": 0, "table": {"8": 2}})
        >>> place(np.array([7, 8], np.uint64)).tolist()
        [8, 2]
    """

    partitions: int
    seed: int = 0
    table: Mapping[int, int] = field(default_factory=dict)
    buckets: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        check_whole("the number of partitions", self.partitions, 1)

    @classmethod
    def of(cls, plan: Plan) -> Owners:
        """The owners under a plan."""
        return cls(plan.partitions, plan.seed, plan.table.entries, plan.buckets)

    def homes(self, fingerprints: U64) -> I32:
        """The owners by hash alone."""
        if not self.buckets:
            return owner_of(fingerprints, self.partitions, self.seed)
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
        """As plain JSON, with keys as strings."""
        table = {str(fingerprint): owner for fingerprint, owner in self.table.items()}
        plain = {"partitions": self.partitions, "seed": self.seed, "table": table}
        return {**plain, "buckets": list(self.buckets)} if self.buckets else plain

    @classmethod
    def from_json(cls, plain: Mapping[str, Any]) -> Owners:
        """From the result of `to_json`. Unknown fields are rejected: ignoring them would misplace
        keys."""
        wrong = _SHAPE(plain, "it")
        if not wrong and set(plain) - {"buckets"} != {"partitions", "seed", "table"}:
            wrong = f"they have {', '.join(sorted(plain))}"
        owners = [] if wrong else [*plain["table"].values(), *plain.get("buckets", ())]
        if any(owner >= plain["partitions"] for owner in owners):
            wrong = "an owner is beyond the partitions"
        if wrong:
            raise InputError(
                f"owners have partitions, seed and table, but {wrong}; read this checkpoint with the "
                "version of evenflow that wrote it"
            )
        table = {int(fingerprint): owner for fingerprint, owner in plain["table"].items()}
        return cls(plain["partitions"], plain["seed"], table, tuple(plain.get("buckets", ())))
