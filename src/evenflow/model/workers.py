"""The workers that can get work."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from evenflow.model.errors import InputError

_LARGEST_ID = 2**31 - 1


@dataclass(frozen=True)
class Workers:
    """The live workers: their ids and, where they differ, their weights (capacities).

    Ids are whole numbers that never change during a worker's life, so a roster may have gaps after a
    removal. Weights are relative: only their proportions count.

    Example:
        >>> Workers.numbered(3).without(1).ids
        (0, 2)
        >>> Workers.numbered(2, weights=[1, 4]).joined_by(7, weight=2).weights
        (1.0, 4.0, 2.0)
    """

    ids: tuple[int, ...]
    weights: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        if not self.ids:
            raise InputError("got 0 workers; at least 1 is needed")
        if len(set(self.ids)) != len(self.ids):
            raise InputError(f"worker ids must be distinct, got {list(self.ids)}")
        if not all(0 <= i <= _LARGEST_ID for i in self.ids):
            raise InputError(f"worker ids must lie in 0..{_LARGEST_ID}, got {list(self.ids)}")
        if self.weights is not None:
            if len(self.weights) != len(self.ids):
                raise InputError(
                    f"{len(self.weights)} weights for {len(self.ids)} workers; give one each"
                )
            if not (all(w > 0 for w in self.weights) and math.isfinite(sum(self.weights))):
                raise InputError(
                    f"weights must be finite and above 0, got {list(self.weights)}; "
                    "to take a worker out, remove it"
                )

    @classmethod
    def numbered(cls, n: int, weights: Iterable[float] | None = None) -> Workers:
        """Workers 0 … n − 1."""
        if isinstance(n, bool) or not isinstance(n, int) or n < 1:
            raise InputError(f"got {n!r} workers; a whole number of at least 1 is needed")
        return cls(tuple(range(n)), None if weights is None else tuple(float(w) for w in weights))

    @classmethod
    def of(cls, workers: Workers | int) -> Workers:
        """`workers` itself, or that many numbered workers."""
        return workers if isinstance(workers, Workers) else cls.numbered(workers)

    def __len__(self) -> int:
        return len(self.ids)

    def without(self, *gone: int) -> Workers:
        """The roster after these workers have left."""
        unknown = set(gone) - set(self.ids)
        if unknown:
            raise InputError(f"no such worker to remove: {sorted(unknown)}; live: {list(self.ids)}")
        kept = [i for i, worker in enumerate(self.ids) if worker not in gone]
        return Workers(
            tuple(self.ids[i] for i in kept),
            None if self.weights is None else tuple(self.weights[i] for i in kept),
        )

    def joined_by(self, *new: int, weight: float = 1.0) -> Workers:
        """The roster after these workers have joined, each with `weight` if there are weights."""
        weights = self.weights
        if weights is None and weight != 1.0:
            weights = (1.0,) * len(self.ids)
        return Workers(
            (*self.ids, *new),
            None if weights is None else (*weights, *(float(weight) for _ in new)),
        )
