"""How a batch is routed: what routers and tasks must agree on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from evenflow.model import shapes
from evenflow.model.errors import InputError
from evenflow.model.key_counts import KeyCounts
from evenflow.model.routing_table import RoutingTable
from evenflow.model.split_keys import SplitKeys
from evenflow.model.split_keys import shape as split_shape

AUTO = "auto"  #: in place of a scheme or of a number of partitions: what the data calls for

_OWNER = shapes.whole(0, 2**31 - 1)
_SHAPE = shapes.fields(
    {
        "scheme": shapes.text,
        "parameters": shapes.mapping(shapes.anything),
        "partitions": shapes.whole(1, 2**31 - 1),
        "seed": shapes.whole(),
        "epoch": shapes.whole(0),
        "table": shapes.mapping(_OWNER, shapes.fingerprint),
        "hot": shapes.mapping(shapes.whole(0), shapes.fingerprint),
        "total": shapes.whole(0),
        "reason": shapes.text,
    },
    {"buckets": shapes.a_list(_OWNER), "split": split_shape},
)


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
        split: the keys of a join that several tasks share.
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
    split: SplitKeys = field(default_factory=SplitKeys)

    def __str__(self) -> str:
        """For people, who know no fingerprints.

        Example:
            >>> print(Plan("table", 8, table=RoutingTable({7: 1, 9: 2}), reason="asked for"))
            table over 8 partitions, 2 keys in the routing table: asked for
        """
        listed = len(self.table.entries)
        parts = [f"{self.scheme} over {self.partitions} partitions"]
        if listed:
            parts.append(f"{listed:,} {'key' if listed == 1 else 'keys'} in the routing table")
        if self.hot.counts:
            parts.append(f"{len(self.hot.counts):,} keys followed as hot")
        return ", ".join(parts) + (f": {self.reason}" if self.reason else "")

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
            **({"split": self.split.to_json()} if self.split else {}),
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
        wrong = _SHAPE(plain, "it")
        if not wrong and any(owner >= plain["partitions"] for owner in plain["table"].values()):
            wrong = "an owner in table is beyond the partitions"
        if not wrong and any(owner >= plain["partitions"] for owner in plain.get("buckets", ())):
            wrong = "an owner in buckets is beyond the partitions"
        if wrong:
            raise InputError(
                f"this is not a plan: {wrong}; read this checkpoint with the version of evenflow that "
                "wrote it"
            )
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
            split=SplitKeys.from_json(plain.get("split", {})),
        )
