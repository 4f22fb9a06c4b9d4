"""confluent-kafka's clients on the model of a broker: the calls that the ordered consumer makes."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, OFFSET_INVALID, KafkaError, TopicPartition

from evenflow_lab.checking.simulation.broker_model import (
    BrokerModel,
    Entry,
    Group,
    Transaction,
    fatal,
    refusal,
)
from evenflow_lab.checking.simulation.world import Actor

_MOST = 40  # records of one fetch


class Message:
    """A record, or an event, as a consumer returns it."""

    def __init__(self, partition: int, offset: int, entry: Entry | None, code: int = 0) -> None:
        self._partition, self._offset, self._entry, self._code = partition, offset, entry, code

    def error(self) -> Any:
        return KafkaError(self._code, "event") if self._entry is None else None

    def partition(self) -> int:
        return self._partition

    def offset(self) -> int:
        return self._offset

    def key(self) -> Any:
        return self._entry and self._entry.key

    def value(self) -> Any:
        return self._entry and self._entry.value

    def headers(self) -> Any:
        return self._entry and self._entry.headers


class ConsumerModel:
    """`confluent_kafka.Consumer`: fetching, and membership of a group."""

    def __init__(self, broker: BrokerModel, settings: dict[str, Any]) -> None:
        actor = broker.world.current
        assert actor is not None
        self.broker, self.settings = broker, settings
        self.actor: Actor = actor
        self.stalled_until = 0.0
        self._topic = ""
        self._places: dict[int, int] = {}  # of the assigned partitions: the next offset
        self._paused: set[int] = set()
        self._ended: dict[int, int] = {}  # where an end was last reported
        self._member: str | None = None
        self._generation = 0
        self._callbacks: dict[str, Callable[[Any, list[TopicPartition]], None]] = {}

    # --- what the consumer calls -----------------------------------------------------------------

    def subscribe(self, topics: list[str], **callbacks: Any) -> None:
        (self._topic,) = topics
        self._callbacks = callbacks

    def assign(self, places: list[TopicPartition]) -> None:
        self._places.clear()
        self._ended.clear()
        self._paused.clear()
        self.incremental_assign(places)

    def incremental_assign(self, places: list[TopicPartition]) -> None:
        for place in places:
            self._topic = place.topic
            self._places[place.partition] = self._from(place)

    def incremental_unassign(self, places: list[TopicPartition]) -> None:
        for place in places:
            self._forget(place.partition)

    def pause(self, places: list[TopicPartition]) -> None:
        self._paused.update(place.partition for place in places)

    def resume(self, places: list[TopicPartition]) -> None:
        self._paused.difference_update(place.partition for place in places)

    def seek(self, place: TopicPartition) -> None:
        if place.partition not in self._places:
            raise refusal(KafkaError._STATE, "not assigned")
        self._places[place.partition] = self._from(place)
        self._ended.pop(place.partition, None)

    def poll(self, timeout: float) -> Message | None:
        found = self.consume(1, timeout)
        return found[0] if found else None

    def consume(self, most: int, timeout: float) -> list[Message]:
        self.broker.call(f"consume {self._topic}")
        if self._callbacks:
            self._take_part()
        if self.broker.fault == "broker error":
            self.broker.world.happened["broker error"] += 1
            self.broker.fault = None  # nothing comes for now
            return []
        found = self._fetch(min(most, _MOST))
        if not found and timeout > 0:
            self.actor.sleep(timeout)
        return found

    def committed(self, places: list[TopicPartition], timeout: float) -> list[TopicPartition]:
        self.broker.call("committed")
        group = self._group()
        if self.broker.pending(self.settings["group.id"], [(p.topic, p.partition) for p in places]):
            self.actor.sleep(timeout)
            raise refusal(KafkaError._TIMED_OUT, "unstable offsets", retriable=True)
        offsets = [group.offsets.get((p.topic, p.partition), OFFSET_INVALID) for p in places]
        return [
            TopicPartition(place.topic, place.partition, offset)
            for place, offset in zip(places, offsets, strict=True)
        ]

    def consumer_group_metadata(self) -> tuple[str, str, int]:
        group = self._group()
        if self._member in group.members and self.broker.world.chance.random() < 0.5:
            self._generation = group.generation  # the client's own thread has heard of it
        return self.settings["group.id"], self._member or "", self._generation

    def memberid(self) -> str:
        return self._member or ""

    def close(self) -> None:
        self.broker.call("close")
        if not self._callbacks:
            return
        group = self._group()
        if self._member in group.members and self._places:
            self._call("on_revoke", sorted(self._places))
        if self._member is not None:
            self.broker.leave(group, self._member)
        self._places.clear()

    def awake(self) -> bool:
        """Whether its own thread can send heartbeats."""
        return self.stalled_until <= self.broker.world.now

    # --- the group -------------------------------------------------------------------------------

    def _group(self) -> Group:
        name = self.settings["group.id"]
        if name not in self.broker.groups:
            session = self.settings.get("session.timeout.ms", 10_000) / 1000
            self.broker.groups[name] = Group(session)
        return self.broker.groups[name]

    def _take_part(self) -> None:
        group = self._group()
        if self._member is None:
            self._member = self.broker.join(group, self)
        if self._member not in group.members:
            lost, self._member = sorted(self._places), None
            if lost:
                self._call("on_lost", lost)
            self._places.clear()
            return
        member = group.members[self._member]
        if group.preparing:
            member.joined = True
            group.complete_if_all_joined(len(self.broker.topics[self._topic].logs))
            return
        target = group.target.get(self._member)
        if target is None or (self._generation == group.generation and target == member.owned):
            return
        self._generation = group.generation
        given_up = sorted(member.owned - target)
        if given_up:
            self._call("on_revoke", given_up)
            for partition in given_up:
                self._forget(partition)
            member.owned -= set(given_up)
            group.preparing = True
        new = sorted(target - member.owned)
        member.owned |= set(new)
        if new:
            self._call("on_assign", new)

    def _call(self, name: str, partitions: Iterable[int]) -> None:
        places = [TopicPartition(self._topic, partition) for partition in partitions]
        self._callbacks[name](self, places)

    # --- fetching --------------------------------------------------------------------------------

    def _from(self, place: TopicPartition) -> int:
        if place.offset == OFFSET_BEGINNING:
            return self.broker.log(place.topic, place.partition).start
        return int(place.offset)

    def _forget(self, partition: int) -> None:
        self._places.pop(partition, None)
        self._ended.pop(partition, None)
        self._paused.discard(partition)

    def _fetch(self, most: int) -> list[Message]:
        found: list[Message] = []
        places = [p for p in sorted(self._places) if p not in self._paused]
        self.broker.world.chance.shuffle(places)
        for partition in places:
            log, at = self.broker.log(self._topic, partition), self._places[partition]
            if at < log.start:
                if self.settings.get("auto.offset.reset") == "error":
                    found.append(Message(partition, at, None, KafkaError._AUTO_OFFSET_RESET))
                    continue
                at = log.start
            stable = log.stable()
            for entry in log.entries:
                if len(found) >= most or entry.offset >= stable:
                    break
                if entry.offset >= at:
                    at = entry.offset + 1
                    if log.visible(entry):
                        found.append(Message(partition, entry.offset, entry))
            if len(found) < most:
                at = max(at, stable)
            self._places[partition] = at
            at_end = at >= stable and self.settings.get("enable.partition.eof")
            if at_end and self._ended.get(partition) != at and len(found) < most:
                self._ended[partition] = at
                found.append(Message(partition, at, None, KafkaError._PARTITION_EOF))
        return found


class ProducerModel:
    """`confluent_kafka.Producer` with transactions."""

    def __init__(self, broker: BrokerModel, settings: dict[str, Any]) -> None:
        self._broker = broker
        self._name = settings["transactional.id"]
        self._timeout = settings["transaction.timeout.ms"] / 1000
        self._epoch = -1
        self._buffer: list[dict[str, Any]] = []
        self._mine: Transaction | None = None

    def init_transactions(self, timeout: float) -> None:
        self._broker.call("init_transactions")
        epoch, open_ = self._broker.producers.get(self._name, (-1, None))
        if open_ is not None:
            self._broker.end(open_, "aborted")
        self._epoch = epoch + 1
        self._broker.producers[self._name] = (self._epoch, None)

    def begin_transaction(self) -> None:
        self._buffer.clear()
        self._mine = None

    def produce(self, **record: Any) -> None:
        self._buffer.append(record)

    def poll(self, timeout: float) -> None:
        return None

    def flush(self, timeout: float) -> int:
        self._call("flush")
        transaction = self._open()
        while self._buffer:
            record = self._buffer.pop(0)
            topic, key = record["topic"], record["key"]
            partition = record.get("partition", self._broker.partition_of(topic, key))
            log = self._broker.log(topic, partition)
            if log not in transaction.logs:
                transaction.logs.append(log)
            log.append(
                key=key,
                value=record["value"],
                headers=record.get("headers"),
                transaction=transaction,
            )
        return 0

    def send_offsets_to_transaction(
        self, offsets: list[TopicPartition], metadata: tuple[str, str, int], timeout: float
    ) -> None:
        self._call("send_offsets", errors=True)
        name, member, generation = metadata
        group = self._broker.groups[name]
        if member not in group.members:
            raise refusal(KafkaError.UNKNOWN_MEMBER_ID, "not a member", abort=True)
        if generation != group.generation:
            raise refusal(KafkaError.ILLEGAL_GENERATION, "of another generation", abort=True)
        places = ((name, o.topic, o.partition, o.offset) for o in offsets)
        self._open().offsets.extend(places)

    def commit_transaction(self, timeout: float) -> None:
        self._call("commit_transaction", errors=True)
        transaction = self._open()
        self._broker.end(transaction, "committed")
        self._broker.producers[self._name] = (self._epoch, None)
        if self._broker.fault == "lost commit":
            self._happened()
            raise refusal(KafkaError.INVALID_TXN_STATE, "who knows", abort=True)
        self._broker.call("reply to commit_transaction")

    def abort_transaction(self, timeout: float) -> None:
        self._call("abort_transaction")
        if self._mine is not None:
            self._broker.end(self._mine, "aborted")
        self._broker.producers[self._name] = (self._epoch, None)

    def purge(self) -> None:
        self._buffer.clear()

    def _call(self, what: str, errors: bool = False) -> None:
        self._broker.call(what)
        if self._broker.producers[self._name][0] != self._epoch:
            raise fatal(KafkaError._FENCED, "another producer, or the broker's timeout")
        if errors and self._broker.fault == "broker error":
            self._happened()
            lasting = self._broker.world.chance.random() < 0.5
            code = KafkaError.INVALID_TXN_STATE if lasting else KafkaError._TIMED_OUT
            raise refusal(code, what, retriable=not lasting, abort=lasting)

    def _happened(self) -> None:
        self._broker.world.happened[str(self._broker.fault)] += 1
        self._broker.fault = None

    def _open(self) -> Transaction:
        if self._mine is None:
            self._mine = Transaction(self._broker.world.now, self._timeout)
            self._broker.producers[self._name] = (self._epoch, self._mine)
        return self._mine
