"""The protocol of sketches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from evenflow.model import InputError

U64 = npt.NDArray[np.uint64]
I64 = npt.NDArray[np.int64]


class FrequentKeys(NamedTuple):
    """Keys with the bounds on their counts, most frequent first (by upper bound, then by key)."""

    keys: U64
    lower: I64
    upper: I64
    born: I64  #: position in the stream of the message that brought the key into the sketch

    @classmethod
    def of(
        cls, keys: U64, lower: I64, upper: I64, born: I64, share: float, total: int
    ) -> FrequentKeys:
        """Those of the keys whose upper bound is at least `share` of the total."""
        if not 0 <= share <= 1:
            raise InputError(f"a share must lie in 0..1, got {share}")
        hot = np.flatnonzero(upper >= share * total)
        hot = hot[np.lexsort((keys[hot], -upper[hot]))]
        return cls(keys[hot], lower[hot], upper[hot], born[hot])


@runtime_checkable
class Sketch(Protocol):
    """Counts keys in little memory. Frozen configuration; everything that changes is in `state`.

    Guarantee of every sketch: for every key, `lower ≤ true count ≤ upper`. After `age`, the true
    count is the real-valued count halved at that moment, and so is `total`.
    """

    name: ClassVar[str]

    def start(self) -> Any:
        """An empty state: a NamedTuple of arrays, picklable."""
        ...

    def update(self, state: Any, keys: U64) -> Any:
        """Count `keys` in order. Returns the state to continue with: the same one, or a grown copy."""
        ...

    def total(self, state: Any) -> int:
        """The number of counted messages (halved by `age`, rounded up)."""
        ...

    def bounds(self, state: Any, keys: U64) -> tuple[I64, I64]:
        """(lower, upper) for each key, whether tracked or not."""
        ...

    def hot(self, state: Any, share: float) -> FrequentKeys:
        """Every key whose upper bound is at least `share` of the total."""
        ...

    def age(self, state: Any) -> None:
        """Halve every count, so that the recent past weighs more."""
        ...

    def merge(self, states: Sequence[Any]) -> Any:
        """One state for the union of several sources' streams; the bounds stay valid.

        Positions continue from the number of messages of all sources together; `born` of keys that
        were tracked before is −1.
        """
        ...
