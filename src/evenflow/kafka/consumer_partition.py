"""A partition of a consumer: its reader, its keys' states, uncommitted effects, back-pressure."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Protocol

from confluent_kafka import Consumer, TopicPartition

from evenflow.kafka.consumer_records import (
    META,
    STATE,
    Saved,
    item_key,
    pack_done,
    pack_item,
    pack_meta,
)
from evenflow.kafka.consumer_topics import GroupTopics
from evenflow.model import InputError
from evenflow.ordering import Done, Header, Reader

_LOG = logging.getLogger(__name__)

STUCK = 5.0  #: seconds without a `done`, with several writers, until the buffer may grow


class Handler(Protocol):
    """Handles messages. The state of a key is None before its first message.

    A handler may also have `handle_many(key, values, state)`, which takes several messages of a key in
    order and returns the same as `handle`; it is then called instead.
    """

    def handle(
        self, key: bytes, value: bytes | None, state: Any
    ) -> tuple[Any, Iterable[bytes | None]]:
        """Return the key's new state (None to forget the key) and values for the output topic."""


@dataclass(frozen=True)
class StateFormat:
    """How a key's state is serialised; JSON by default."""

    to_bytes: Callable[[Any], bytes] = lambda state: json.dumps(state).encode()
    from_bytes: Callable[[bytes], Any] = json.loads


class PartitionWork:
    """Carries out a reader's actions and collects the records of the next transaction.

    Guarantee: the handler gets a key's messages in the reader's order, and a key's state is sent only
    after all of them.
    """

    def __init__(
        self,
        partition: int,
        handler: Handler,
        state_format: StateFormat,
        saved: Saved,
        buffering: bool = True,
    ) -> None:
        self.partition = partition
        self.reader = Reader(self, saved.snapshot, buffering)
        self.next_data, self.next_control = saved.data_offset, saved.control_offset
        self.at_end = False
        self.paused_since: float | None = None
        self.allowance = 0
        self.outputs: list[tuple[bytes, bytes | None]] = []
        self.dones: list[tuple[Done, bytes | None]] = []
        self.processed = 0
        self._saved_offsets = (self.next_data, self.next_control)
        self._raw = dict(saved.states)
        self._states: dict[bytes, Any] = {}
        self._changed: set[bytes] = set()
        self._runs: dict[bytes, list[bytes | None]] = {}
        self._handle = handler.handle
        self._handle_many = getattr(handler, "handle_many", None)
        self._format = state_format

    def read(self, key: bytes, value: bytes | None, header: Header | None, offset: int) -> None:
        """Read the next record of the data partition."""
        self.next_data, self.at_end = offset + 1, False
        self.reader.read(key, value, header)

    def done(self, key: bytes, set_id: int, state: bytes | None, offset: int) -> None:
        """Read the next record of the control partition."""
        self.next_control = offset + 1
        self.reader.done(key, set_id, state)

    # The reader's actions

    def process(self, key: bytes, value: bytes | None) -> None:
        self.processed += 1
        if self._handle_many is not None:
            self._runs.setdefault(key, []).append(value)
            return
        state, outputs = self._handle(key, value, self._state(key))
        self._store(key, state, outputs)

    def install(self, key: bytes, state: bytes | None) -> None:
        self._states.pop(key, None)
        if state is None:
            self._raw.pop(key, None)
        else:
            self._raw[key] = state
        self._changed.add(key)

    def send(self, done: Done) -> None:
        self._run(done.key)
        self.dones.append((done, self._bytes(done.key)))
        self._states.pop(done.key, None)
        self._raw.pop(done.key, None)
        self._changed.add(done.key)

    def finish(self) -> None:
        """Pass all collected messages to the handler."""
        for key in list(self._runs):
            self._run(key)

    # The next transaction

    @property
    def changed(self) -> bool:
        """Whether there is something to commit."""
        return (self.next_data, self.next_control) != self._saved_offsets

    def records(self, topics: GroupTopics, output_topic: str | None) -> Iterable[dict[str, Any]]:
        """All records to produce: outputs, `done` messages and the changelog."""
        if output_topic is not None:
            for key, value in self.outputs:
                yield {"topic": output_topic, "key": key, "value": value}
        for done, state in self.dones:
            yield {
                "topic": topics.control,
                "partition": done.partition,
                "key": done.key,
                "value": state,
                "headers": pack_done(done.set, self.partition),
            }
        for key, value in self.changelog():
            place = {"topic": topics.changelog, "partition": self.partition}
            yield {**place, "key": key, "value": value}

    def changelog(self) -> Iterable[tuple[bytes, bytes | None]]:
        """Keys and values of this partition's changelog."""
        for key in self._changed:
            yield STATE + key, self._bytes(key)
        reader = self.reader
        for number in reader.removed:
            yield item_key(number), None
        for item in reader.added.values():
            yield item_key(item.number), pack_item(item)
        offsets = self.next_data, self.next_control
        yield META, pack_meta(*offsets, reader.next_number, reader.positions)

    def committed(self) -> None:
        """Clear what has been committed."""
        self._saved_offsets = (self.next_data, self.next_control)
        self._changed.clear()
        self.outputs.clear()
        self.dones.clear()
        self.reader.saved()

    def _run(self, key: bytes) -> None:
        values = self._runs.pop(key, None)
        if values:
            assert self._handle_many is not None
            state, outputs = self._handle_many(key, values, self._state(key))
            self._store(key, state, outputs)

    def _store(self, key: bytes, state: Any, outputs: Iterable[bytes | None]) -> None:
        if state is None:
            self._states.pop(key, None)
        else:
            self._states[key] = state
        self._changed.add(key)
        for output in outputs:
            self.outputs.append((key, output))

    def _state(self, key: bytes) -> Any:
        raw = self._raw.pop(key, None)
        if raw is not None:
            self._states[key] = self._format.from_bytes(raw)
        return self._states.get(key)

    def _bytes(self, key: bytes) -> bytes | None:
        raw = self._raw.get(key)
        if raw is not None:
            return raw
        state = self._states.get(key)
        if state is None:
            return None
        try:
            return self._format.to_bytes(state)
        except (TypeError, ValueError) as error:
            raise InputError(
                f"the state of key {key!r} cannot be saved ({error}); return a JSON value, or pass a "
                "StateFormat"
            ) from error


def apply_back_pressure(
    consumer: Consumer, topic: str, works: Iterable[PartitionWork], bound: int, now: float
) -> int:
    """Pause partitions whose awaited messages fill the buffer, resume the others; return the pauses.

    Guarantee: with one writer, no partition waits forever. A paused partition waits for a `last` marker
    of an epoch that is not later than what it has read. If the partition with that marker is paused
    before it, it has read earlier epochs only, because markers precede the messages of their epoch. So
    epochs decrease along every chain of waiting partitions, and its end does not wait. With several
    writers two partitions can block each other's markers; then the bound is raised, `bound` messages at
    a time.
    """
    pauses = 0
    for work in works:
        held = work.reader.held
        place = [TopicPartition(topic, work.partition)]
        if work.paused_since is None:
            if held <= bound:
                work.allowance = bound
            if held > work.allowance:
                consumer.pause(place)
                work.paused_since = now
                pauses += 1
        elif held <= work.allowance // 2:
            consumer.resume(place)
            work.paused_since = None
        elif len(work.reader.positions) > 1 and now - work.paused_since > STUCK:
            work.allowance = held + bound
            consumer.resume(place)
            work.paused_since = None
            _LOG.warning(
                "partition %d: message set %d was not done for %.0f s, and there are several writers; "
                "continuing beyond the buffer of %d messages",
                work.partition,
                work.reader.oldest_awaited() or 0,
                STUCK,
                bound,
            )
    return pauses
