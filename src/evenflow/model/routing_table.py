"""An explicit placement of a few keys; all others go by hash."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from evenflow.model.errors import InputError


@dataclass(frozen=True)
class RoutingTable:
    """Key fingerprint → worker id (mixed routing, `A` in §II of "Parallel stream processing against
    workload skewness and variance").

    Example:
        >>> RoutingTable({17: 2}).entries[17]
        2
    """

    entries: Mapping[int, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for key, worker in self.entries.items():
            if not 0 <= key < 2**64:
                raise InputError(f"a routing table holds 64-bit fingerprints, got key {key!r}")
            if worker < 0:
                raise InputError(f"a routing table holds worker ids, got {worker!r} for key {key}")
