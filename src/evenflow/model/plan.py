"""How a batch is routed: what routers and tasks must agree on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from evenflow.model.key_counts import KeyCounts
from evenflow.model.routing_table import RoutingTable


@dataclass(frozen=True)
class Plan:
    """The input of a batch besides its rows and the state: fixed before the batch begins, and stored
    with the manifest of the previous batch.

    Parameters:
        scheme: the grouping scheme's name.
        partitions: the number of partitions.
        parameters: the scheme's parameters: a retried batch uses these, even if the driver was
            restarted with others.
        epoch: grows by one whenever keys change their owner: with the number of partitions, the seed,
            the buckets or the table.
        table: explicit owners of a few keys; all others go by hash.
        buckets: hash bucket → partition, once the number of partitions has changed; empty while the
            buckets are dealt out evenly and in order.
        hot: the hot keys of previous batches, with which routers start.
        reason: the reason for the plan, in words.
    """

    scheme: str
    partitions: int
    seed: int = 0
    epoch: int = 0
    table: RoutingTable = field(default_factory=RoutingTable)
    buckets: tuple[int, ...] = ()
    hot: KeyCounts = field(default_factory=KeyCounts)
    reason: str = ""
    parameters: Mapping[str, Any] = field(default_factory=dict)

    def owners(self) -> dict[str, Any]:
        """What decides who owns a key."""
        return {**self.hashing(), "table": dict(self.table.entries)}

    def hashing(self) -> dict[str, Any]:
        """What decides who owns a key that is not in the table."""
        return {"partitions": self.partitions, "seed": self.seed, "buckets": self.buckets}

    def followed_by(self, **changes: Any) -> Plan:
        """This plan with some changes; the epoch grows if they change who owns a key."""
        new = replace(self, **changes)
        return new if new.owners() == self.owners() else replace(new, epoch=self.epoch + 1)

    def to_dict(self) -> dict[str, Any]:
        """As plain JSON."""
        return {
            "scheme": self.scheme,
            "parameters": dict(self.parameters),
            "partitions": self.partitions,
            "seed": self.seed,
            "epoch": self.epoch,
            "table": {str(key): owner for key, owner in self.table.entries.items()},
            "buckets": list(self.buckets),
            "hot": {str(key): count for key, count in self.hot.counts.items()},
            "total": self.hot.total,
            "reason": self.reason,
        }

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> Plan:
        """From the result of `to_dict`, also after a round trip through JSON.

        Example:
            >>> import json
            >>> plan = Plan("key", 4, hot=KeyCounts({17: 3}, 9))
            >>> Plan.from_dict(json.loads(json.dumps(plan.to_dict()))) == plan
            True
        """
        return cls(
            scheme=plain["scheme"],
            parameters=plain["parameters"],
            partitions=plain["partitions"],
            seed=plain["seed"],
            epoch=plain["epoch"],
            table=RoutingTable({int(key): owner for key, owner in plain["table"].items()}),
            buckets=tuple(plain.get("buckets", ())),
            hot=KeyCounts({int(key): n for key, n in plain["hot"].items()}, plain["total"]),
            reason=plain["reason"],
        )
