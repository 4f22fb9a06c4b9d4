"""How often keys were seen."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class KeyCounts:
    """The recent most frequent keys: fingerprint → messages, out of `total` messages of all keys."""

    counts: Mapping[int, int] = field(default_factory=dict)
    total: int = 0
