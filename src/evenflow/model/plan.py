"""How a batch is routed: what routers and tasks must agree on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from evenflow.model.key_counts import KeyCounts
from evenflow.model.routing_table import RoutingTable


@dataclass(frozen=True)
class Plan:
    """What a batch is computed from, besides its rows and the state: fixed before the batch begins, and
    written down with the manifest of the batch before it.

    Parameters:
        scheme: the grouping scheme's name.
        partitions: how many partitions there are.
        parameters: the scheme's: a batch that is run again, maybe by a driver that was started with
            others, routes by these.
        epoch: grows by one whenever keys change their owner: with the number of partitions, the seed,
            the buckets or the table.
        table: explicit owners of a few keys; all others go by hash.
        buckets: the hash: bucket → partition, once their number has changed; empty while every
            partition has as many neighbouring buckets as any other.
        hot: what the batches before have shown of the hot keys; routers begin with it.
        reason: why the plan is as it is, in words.
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
        """From what `to_dict` has made, also after a way through JSON.

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
