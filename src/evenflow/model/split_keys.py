"""Keys of a join that several tasks share: rows of one side go to one part, their partners to all."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, NamedTuple

from evenflow.model import shapes


class Split(NamedTuple):
    """How a key is split.

    Parameters:
        right: whether the rows of the right side are split, and those of the left side copied.
        grown: (number of parts, first batch with so many), both growing.
    """

    right: bool
    grown: tuple[tuple[int, int], ...]

    @property
    def parts(self) -> int:
        return self.grown[-1][0]

    def born(self) -> list[int]:
        """The first batch of each part."""
        return [next(first for n, first in self.grown if n > i) for i in range(self.parts)]

    def grown_to(self, parts: int, batch: int) -> Split:
        """With so many parts from this batch on. Parts never become fewer: their rows are stored."""
        return self if parts <= self.parts else self._replace(grown=(*self.grown, (parts, batch)))


@dataclass(frozen=True)
class SplitKeys:
    """The keys that are split.

    Parameters:
        entries: fingerprint → how.
    """

    entries: Mapping[int, Split] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.entries)

    def to_json(self) -> dict[str, Any]:
        """As plain JSON, with keys as strings."""
        return {
            str(key): {"right": split.right, "grown": [list(one) for one in split.grown]}
            for key, split in self.entries.items()
        }

    @classmethod
    def from_json(cls, plain: Mapping[str, Any]) -> SplitKeys:
        """From the result of `to_json`, once `shape` has found nothing wrong with it."""
        return cls(
            {
                int(key): Split(one["right"], tuple((n, batch) for n, batch in one["grown"]))
                for key, one in plain.items()
            }
        )


def _grown(value: Any, what: str) -> str | None:
    """Pairs of a number of parts and a batch, both growing."""
    wrong = shapes.a_list(shapes.a_list(shapes.whole(0, 2**31 - 1)))(value, what)
    if wrong:
        return wrong
    fits = value and all(len(one) == 2 for one in value) and value[0][0] > 1
    later = pairwise(value)
    if fits and all(a[0] < b[0] and a[1] < b[1] for a, b in later):
        return None
    return f"{what} does not say how the parts of a key have grown"


#: What a file must have for `from_json`.
shape = shapes.mapping(shapes.fields({"right": shapes.truth, "grown": _grown}), shapes.fingerprint)
