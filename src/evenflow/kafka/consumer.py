"""The ordered consumer: each key's messages in the order sent, exactly once, even if the key moves
between partitions."""

from __future__ import annotations

import logging
import os
import socket
import time
from collections.abc import Callable, Iterable
from typing import Any
from uuid import uuid4

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient

from evenflow.kafka.consumer_config import ConsumerConfig, ConsumerCounts
from evenflow.kafka.consumer_loading import Loader, lost_dones
from evenflow.kafka.consumer_partition import (
    Handler,
    PartitionWork,
    StateFormat,
)
from evenflow.kafka.consumer_pressure import apply_back_pressure
from evenflow.kafka.consumer_purge import Purge
from evenflow.kafka.consumer_records import UNKNOWN, Saved, unpack_done
from evenflow.kafka.consumer_topics import group_topics, make_group_topics
from evenflow.kafka.consumer_transaction import (
    Aborted,
    ConsumerStopped,
    Transactions,
    is_end,
    raise_if_permanent,
)
from evenflow.ordering import unpack

__all__ = ["ConsumerConfig", "ConsumerStopped", "OrderedConsumer", "StateFormat"]

_LOG = logging.getLogger(__name__)

_IDLE = 0.01  # seconds to wait for a message; `done` messages are polled in between
_LOAD_SECONDS = 0.05  # for which partitions are loaded before others are read from again
_MOST_MESSAGES = 10_000  # per fetch
_RETRY_DELAY = 0.1  # seconds after a failed transaction


class OrderedConsumer:
    """Reads a topic as a member of a group, and passes each key's messages to a handler in order.

    Messages of a key that moved here wait for a `done` message, with the key's state, from its old
    partition. Outputs, states, waiting messages, `done` messages and offsets are committed in one
    Kafka transaction.

    Guarantee: every key's messages are handled in the order sent, and take effect exactly once, on the
    key's state and in the output topic (read with `isolation.level=read_committed`). This holds if
    consumers die, join and leave, if the writer rewrites a part of the log, and if the broker is killed
    and restarted (not with Kafka 4.3.0 and 4.3.1: KAFKA-20734). The handler may be called again for a
    message whose transaction failed.

    Parameters:
        config: the configuration.
        handler: handles the messages.
        state_format: how states are serialised.
        buffering: False to let moved keys overtake; only for testing that a checker notices.
        clock: a monotonic clock, in seconds.

    Example:
        >>> class Count:
        ...     def handle(self, key, value, state):
        ...         return (state or 0) + 1, []
        >>> config = ConsumerConfig("127.0.0.1:9092", "clicks", "counters")
        >>> OrderedConsumer(config, Count()).run()  # doctest: +SKIP

    Paper: SMALOPS, §II, Figure 5.
    """

    def __init__(
        self,
        config: ConsumerConfig,
        handler: Handler,
        state_format: StateFormat | None = None,
        *,
        buffering: bool = True,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.config, self.handler, self.buffering = config, handler, buffering
        self.counts = ConsumerCounts()
        self._format = state_format or StateFormat()
        self._clock = clock
        self._stopping = False
        self._works: dict[int, PartitionWork] = {}
        self._loaded: dict[int, Saved] = {}  # loaded partitions that cannot be read from yet
        self._changes = 0  # of the loaded partitions or their offsets
        self._since: float | None = None  # the time of the oldest uncommitted effect
        self._not_before = clock()  # for the next transaction
        self._message_seconds = 0.0  # the recent average per message
        client = config.client_settings()
        self.topics = group_topics(config.topic, config.group)
        admin = AdminClient(client)
        outputs = config.output_topic, config.dead_letter_topic
        self.partitions = make_group_topics(admin, self.topics, *outputs)
        self._purge = Purge(admin, self.topics.control)
        instance = config.instance or f"{socket.gethostname()}-{os.getpid()}-{uuid4().hex[:8]}"
        self._transactions = Transactions(config.producer_settings(instance), config.patience)
        self._control = Consumer(config.control_settings(f"{self.topics.control}-reader"))
        self._data = Consumer(config.data_settings())
        self._loader = Loader(client, self._data, self.topics, config)
        self._data.subscribe(
            [config.topic],
            on_assign=self._on_assign,
            on_revoke=self._on_revoke,
            on_lost=self._on_lost,
        )

    @property
    def owned(self) -> list[int]:
        """The partitions that this consumer has now."""
        return sorted(self._works)

    @property
    def held(self) -> int:
        """The number of waiting messages of awaited keys."""
        return sum(work.reader.held for work in self._works.values())

    @property
    def at_end(self) -> bool:
        """Whether it has partitions, has read all of them to the end, and no message waits."""
        works = self._works.values()
        read = bool(works) and not self._loading and all(work.at_end for work in works)
        return read and not self.held

    def run(self, seconds: float | None = None, until: Callable[[], bool] | None = None) -> None:
        """Consume until `stop` is called, the time is over, or `until` returns True; then close."""
        end = None if seconds is None else self._clock() + seconds
        try:
            while not self._stopping:
                self.step()
                if (end is not None and self._clock() >= end) or (until is not None and until()):
                    break
        except BaseException:
            self.close(commit=False)
            raise
        self.close()

    def stop(self) -> None:
        """End `run` after its current step; may be called by a signal handler."""
        self._stopping = True

    def step(self) -> int:
        """Read and handle the available records, commit if due; return the number of records."""
        config = self.config
        if self._loading:
            self._load()
        most = self._most_messages()
        changes = self._changes
        messages = self._data.consume(most, 0)
        dones = self._control.consume(most, 0) if self._works else []
        if not messages and not dones:
            one = self._data.poll(self._wait())
            messages = [] if one is None else [one]
        if changes != self._changes:
            self._read_again(messages, dones)
            return 0
        start = self._clock()
        read = self._read_dones(dones) + self._read_data(messages)
        for work in self._works.values():
            work.finish()
        if read:
            self._measure(read, self._clock() - start)
            if self._since is None:
                self._since = start
        if self._due():
            self.commit()
        self.counts.pauses += apply_back_pressure(
            self._data, self.topics.data, self._works.values(), config.buffer, self._clock()
        )
        return read

    def commit(self) -> None:
        """Commit everything so far. If that fails, it has no effect and is retried."""
        changed = [work for work in self._works.values() if work.changed]
        self._since = None
        if not changed:
            return
        offsets = []
        for work in changed:
            for topic, offset in (
                (self.topics.data, work.next_data),
                (self.topics.control, work.next_control),
            ):
                if offset != UNKNOWN:
                    offsets.append(TopicPartition(topic, work.partition, offset))
        try:
            group = self._data.consumer_group_metadata()
            if not self._data.memberid():
                # A broker does not check a commit without a member: it would overwrite another's.
                raise Aborted("this consumer is not a member of its group now")
            self._transactions.commit(self._records(changed), offsets, group)
        except Aborted as error:
            self.counts.aborts += 1
            _LOG.warning("a transaction was aborted and will be retried: %s", error)
            self._since = self._not_before = self._clock() + _RETRY_DELAY
            if not error.surely:
                self._unload()
            return
        except ConsumerStopped as error:
            if self.config.instance is not None or not error.fenced:
                raise
            # The name is unique, so the broker's timeout ended the transaction.
            self.counts.aborts += 1
            _LOG.warning("the broker ended a transaction that took too long; restarting")
            self._transactions.restart()
            self._unload()
            return
        self.counts.transactions += 1
        for work in changed:
            self.counts.keys_sent += len(work.dones)
            self.counts.set_aside += len(work.letters)
            work.committed()
        self._purge.after_commit(self._works.values(), self._clock())

    def close(self, commit: bool = True) -> None:
        """Leave the group; without `commit`, uncommitted work has no effect."""
        if not commit:
            self._works.clear()
        self.commit()  # if that fails, the next owner repeats the work
        self._data.close()
        self._control.close()
        self._loader.close()
        self._transactions.close()

    # Reading

    def _read_data(self, messages: list[Any]) -> int:
        read = 0
        for message in messages:
            error, work = message.error(), self._works.get(message.partition())
            if error is not None:
                if not is_end(error):
                    raise_if_permanent(error)
                elif work is not None:
                    work.at_end = True
                continue
            offset = message.offset()
            if work is None or offset < work.next_data:
                continue
            work.read(message.key() or b"", message.value(), unpack(message.headers()), offset)
            read += 1
        return read

    def _read_dones(self, messages: list[Any]) -> int:
        read = 0
        for message in messages:
            error = message.error()
            work = self._works.get(message.partition())
            if error is not None:
                if work is not None and error.code() == KafkaError._AUTO_OFFSET_RESET:
                    place = message.partition(), max(work.next_control, 0)
                    raise lost_dones(self.topics.control, *place)
                raise_if_permanent(error)
                continue
            offset = message.offset()
            if work is None or offset < work.next_control:
                continue
            set_id, _ = unpack_done(message.headers())
            work.done(message.key() or b"", set_id, message.value(), offset)
            self.counts.keys_received += 1
            read += 1
        return read

    def _most_messages(self) -> int:
        """As many as one commit interval can handle, so that others do not wait longer."""
        if self._message_seconds <= 0:
            return 100
        return int(min(_MOST_MESSAGES, max(1, self.config.commit_interval / self._message_seconds)))

    def _measure(self, read: int, seconds: float) -> None:
        taken = seconds / read
        before = self._message_seconds or taken
        self._message_seconds = 0.5 * (before + taken)
        processed = duplicates = 0
        for work in self._works.values():
            processed += work.processed
            duplicates += work.reader.duplicates
            work.processed = work.reader.duplicates = 0
        self.counts.processed += processed
        self.counts.duplicates += duplicates
        self.counts.most_held = max(self.counts.most_held, self.held)

    def _wait(self) -> float:
        if self._since is None:
            return _IDLE
        left = self._since + self.config.commit_interval - self._clock()
        return min(_IDLE, max(0.0, left))

    def _due(self) -> bool:
        if self._since is None or self._clock() < self._not_before:
            return False
        if any(work.dones for work in self._works.values()):
            return True
        return self._clock() - self._since >= self.config.commit_interval

    def _records(self, works: list[PartitionWork]) -> Iterable[dict[str, Any]]:
        for work in works:
            yield from work.records(self.topics, self.config.output_topic)

    # Assigned and revoked partitions

    def _on_assign(self, consumer: Consumer, places: list[TopicPartition]) -> None:
        partitions = [place.partition for place in places]
        _LOG.info("assigned: %s", partitions)
        # Loading may take long: here it would stop all partitions, and the group might go on without
        # this consumer.
        given = [TopicPartition(self.topics.data, p, OFFSET_BEGINNING) for p in partitions]
        consumer.incremental_assign(given)
        if given:
            consumer.pause(given)
        self._changes += 1
        self._loader.add(partitions)

    def _on_revoke(self, consumer: Consumer, places: list[TopicPartition]) -> None:
        _LOG.info("revoked: %s", [place.partition for place in places])
        self.commit()
        self._drop(places)

    def _on_lost(self, consumer: Consumer, places: list[TopicPartition]) -> None:
        _LOG.warning("lost: %s", [place.partition for place in places])
        self._drop(places)

    def _drop(self, places: list[TopicPartition]) -> None:
        self._changes += 1
        for place in places:
            self._works.pop(place.partition, None)
            self._loaded.pop(place.partition, None)
        self._loader.drop(place.partition for place in places)
        self._assign_control()

    def _assign_control(self) -> None:
        self._control.assign(
            [
                TopicPartition(self.topics.control, p, _from(work.next_control))
                for p, work in self._works.items()
            ]
        )

    def _read_again(self, messages: list[Any], dones: list[Any]) -> None:
        """Fetch these again: the partitions changed meanwhile, and some may be stale."""
        again = (m for m in messages if m.error() is None or is_end(m.error()))
        for partition in {message.partition() for message in again}:
            work = self._works.get(partition)
            if work is not None and not self._seek(partition, _from(work.next_data)):
                del self._works[partition]
                self._loader.add([partition])
        if dones:
            self._assign_control()

    def _unload(self) -> None:
        """Drop the state in memory, which may differ from what is committed; it is loaded again."""
        self._changes += 1
        self._loader.add(self._works)
        self._works.clear()
        self._since = None

    @property
    def _loading(self) -> bool:
        """Whether there are assigned partitions that are not read from yet."""
        return self._loader.loading or bool(self._loaded)

    def _load(self) -> None:
        """Load for a moment, and begin to read from the partitions that are ready."""
        self._loaded.update(self._loader.step(_LOAD_SECONDS))
        for partition, saved in list(self._loaded.items()):
            if self._seek(partition, _from(saved.data_offset)):
                del self._loaded[partition]
                self._changes += 1
                self._works[partition] = PartitionWork(
                    partition,
                    self.handler,
                    self._format,
                    saved,
                    self.buffering,
                    self.config.dead_letters,
                )
                self._works[partition].allowance = self.config.buffer
                self.counts.restores += 1
                self._assign_control()

    def _seek(self, partition: int, offset: int) -> bool:
        """Read from this offset on; False if the partition is being revoked, or not assigned yet."""
        place = TopicPartition(self.topics.data, partition, offset)
        try:
            self._data.seek(place)
            self._data.resume([place])
        except KafkaException:
            return False
        return True


def _from(offset: int) -> int:
    return OFFSET_BEGINNING if offset == UNKNOWN else offset
