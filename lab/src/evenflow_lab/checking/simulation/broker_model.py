"""A Kafka broker as a model: partitions with transactions, consumer groups, retention, compaction."""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from confluent_kafka import KafkaError, KafkaException

from evenflow_lab.checking.simulation.world import World

_KEPT_FOREVER = "-1"


def refusal(code: int, text: str, *, retriable: bool = False, abort: bool = False) -> Any:
    """An error as the client reports it."""
    return KafkaException(KafkaError(code, text, False, retriable, abort))


def fatal(code: int, text: str) -> Any:
    """An error after which the client is of no use."""
    return KafkaException(KafkaError(code, text, True))


@dataclass(eq=False)
class Transaction:
    """Records and offsets that become visible together or not at all."""

    began: float
    timeout: float
    state: str = "open"
    logs: list[Log] = field(default_factory=list)
    offsets: list[tuple[str, str, int, int]] = field(default_factory=list)


@dataclass(frozen=True)
class Entry:
    """A record of a partition; one without a key and a value of `None` may be a transaction's end."""

    offset: int
    key: bytes | None
    value: bytes | None
    headers: Any = None
    transaction: Transaction | None = None
    is_marker: bool = False


@dataclass(eq=False)
class Log:
    """One partition."""

    entries: list[Entry] = field(default_factory=list)
    start: int = 0
    end: int = 0

    def append(self, **fields: Any) -> None:
        self.entries.append(Entry(self.end, **fields))
        self.end += 1

    def stable(self) -> int:
        """Where the first open transaction begins."""
        open_ = (e.offset for e in self.entries if e.transaction and e.transaction.state == "open")
        return min(open_, default=self.end)

    def visible(self, entry: Entry) -> bool:
        if entry.is_marker:
            return False
        return entry.transaction is None or entry.transaction.state == "committed"

    def delete_before(self, offset: int) -> None:
        self.start = max(self.start, min(offset, self.end))
        self.entries = [entry for entry in self.entries if entry.offset >= self.start]

    def compact(self) -> None:
        """Of each key only the newest visible record stays; offsets do not change."""
        stable, newest = self.stable(), {}
        for entry in self.entries:
            if entry.offset < stable and self.visible(entry):
                newest[entry.key] = entry.offset
        self.entries = [
            entry
            for entry in self.entries
            if entry.offset >= stable
            or not self.visible(entry)
            or newest[entry.key] == entry.offset
        ]


@dataclass(eq=False)
class Topic:
    logs: list[Log]
    settings: dict[str, str]


@dataclass(eq=False)
class Member:
    """A consumer of a group, as the broker knows it."""

    client: Any
    seen: float
    joined: bool = False
    owned: set[int] = field(default_factory=set)


@dataclass(eq=False)
class Group:
    """Who has which partition of the topic, and what is committed."""

    session: float
    members: dict[str, Member] = field(default_factory=dict)
    generation: int = 0
    preparing: bool = False
    target: dict[str, set[int]] = field(default_factory=dict)
    offsets: dict[tuple[str, int], int] = field(default_factory=dict)

    def complete_if_all_joined(self, partitions: int) -> None:
        """The next generation, once every member has come back; cooperative and sticky."""
        if not self.preparing or not all(m.joined for m in self.members.values()):
            return
        self.generation, self.preparing = self.generation + 1, False
        owned = {name: set(member.owned) for name, member in self.members.items()}
        free = set(range(partitions)) - set().union(set(), *owned.values())
        most, extra = divmod(partitions, max(len(owned), 1))
        # What is too much is given up now, and given to others in the next generation.
        for name in sorted(owned, key=lambda n: -len(owned[n])):
            quota = most + (extra > 0)
            extra -= len(owned[name]) >= quota and extra > 0
            owned[name] = set(sorted(owned[name])[:quota])
        for partition in sorted(free):
            owned[min(owned, key=lambda n: (len(owned[n]), n))].add(partition)
        self.target = owned
        for member in self.members.values():
            member.joined = False


class BrokerModel:
    """All topics, groups and transactions of a schedule.

    Parameters:
        world: the clock, and who is at work.
    """

    def __init__(self, world: World) -> None:
        self.world = world
        self.topics: dict[str, Topic] = {}
        self.groups: dict[str, Group] = {}
        self.producers: dict[str, tuple[int, Transaction | None]] = {}
        self.fault: str | None = None
        self._names = 0

    def call(self, what: str) -> None:
        """One request: time passes, and the broker does what is due."""
        self.world.call(what)
        self.tick()

    def tick(self) -> None:
        now = self.world.now
        for name, (epoch, transaction) in list(self.producers.items()):
            if transaction is not None and now - transaction.began > transaction.timeout:
                self.end(transaction, "aborted")
                self.producers[name] = (epoch + 1, None)  # its owner is shut out
        for group in self.groups.values():
            for name, member in list(group.members.items()):
                if self._beats(member):
                    member.seen = now
                elif now - member.seen > group.session:
                    self.leave(group, name)

    def add_topic(self, name: str, partitions: int, settings: dict[str, str]) -> None:
        self.topics[name] = Topic([Log() for _ in range(partitions)], settings)

    def log(self, topic: str, partition: int) -> Log:
        return self.topics[topic].logs[partition]

    def partition_of(self, topic: str, key: bytes | None) -> int:
        return zlib.crc32(key or b"") % len(self.topics[topic].logs)

    def expire(self) -> None:
        """Weeks pass: what has no retention of its own is deleted, up to open transactions."""
        for topic in self.topics.values():
            policy = topic.settings.get("cleanup.policy", "delete")
            if policy == "delete" and topic.settings.get("retention.ms") != _KEPT_FOREVER:
                for log in topic.logs:
                    log.delete_before(log.stable())

    def compact(self) -> None:
        for topic in self.topics.values():
            if topic.settings.get("cleanup.policy") == "compact":
                for log in topic.logs:
                    log.compact()

    # --- transactions ----------------------------------------------------------------------------

    def end(self, transaction: Transaction, state: str) -> None:
        """Commit or abort: all records and offsets at once."""
        if transaction.state != "open":
            return
        transaction.state = state
        for log in transaction.logs:
            log.append(key=None, value=None, is_marker=True)
        if state == "committed":
            for group, topic, partition, offset in transaction.offsets:
                self.groups[group].offsets[topic, partition] = offset

    def pending(self, group: str, places: Iterable[tuple[str, int]]) -> bool:
        """Whether an open transaction has offsets of these partitions."""
        wanted = set(places)
        return any(
            open_ is not None and any(o[0] == group and o[1:3] in wanted for o in open_.offsets)
            for _, open_ in self.producers.values()
        )

    # --- groups ----------------------------------------------------------------------------------

    def join(self, group: Group, client: Any) -> str:
        self._names += 1
        name = f"member {self._names}"
        group.members[name] = Member(client, self.world.now)
        group.preparing = True
        return name

    def leave(self, group: Group, name: str) -> None:
        if group.members.pop(name, None) is not None:
            group.preparing = True

    def _beats(self, member: Member) -> bool:
        actor = member.client.actor
        return not actor.dead and not actor.ended and member.client.awake()
