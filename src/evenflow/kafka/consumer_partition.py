"""A partition of a consumer: its reader, its keys' states, and uncommitted effects."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Protocol

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
from evenflow.kafka.dead_letters import DeadLetters, HandlerFailed, Letter
from evenflow.model import InputError
from evenflow.ordering import Done, Header, Reader

Message = tuple[bytes | None, int]  #: a value, and its offset


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
    after all of them. A message that the handler fails for is named; if there are dead letters, it is
    one of them, and has no other effect.
    """

    def __init__(
        self,
        partition: int,
        handler: Handler,
        state_format: StateFormat,
        saved: Saved,
        buffering: bool = True,
        dead_letters: DeadLetters | None = None,
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
        self._runs: dict[bytes, list[Message]] = {}
        self._dead_letters, self._set_aside = dead_letters, saved.set_aside
        self.letters: list[Letter] = []
        self._handle = handler.handle
        self._handle_many = getattr(handler, "handle_many", None)
        self._format = state_format

    def read(self, key: bytes, value: bytes | None, header: Header | None, offset: int) -> None:
        """Read the next record of the data partition."""
        self.next_data, self.at_end = offset + 1, False
        self.reader.read(key, value, header, offset)

    def done(self, key: bytes, set_id: int, state: bytes | None, offset: int) -> None:
        """Read the next record of the control partition."""
        self.next_control = offset + 1
        self.reader.done(key, set_id, state)

    # The reader's actions

    def process(self, key: bytes, value: bytes | None) -> None:
        self.processed += 1
        message = (value, self.reader.offset)
        if self._handle_many is not None:
            self._runs.setdefault(key, []).append(message)
        else:
            self._apply(key, [message])

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
        if self._dead_letters is not None:
            for letter in self.letters:
                yield self._dead_letters.record(letter, topics.data, self.partition)
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
        yield META, pack_meta(*offsets, reader.next_number, reader.positions, self._set_aside)

    def committed(self) -> None:
        """Clear what has been committed."""
        self._saved_offsets = (self.next_data, self.next_control)
        self._changed.clear()
        self.outputs.clear()
        self.letters.clear()
        self.dones.clear()
        self.reader.saved()

    def _run(self, key: bytes) -> None:
        messages = self._runs.pop(key, None)
        if messages:
            self._apply(key, messages)

    def _apply(self, key: bytes, messages: list[Message]) -> None:
        """Pass messages of a key to the handler."""
        # The handler may change a state in place before it fails.
        before = None if self._dead_letters is None else self._bytes(key)
        try:
            values, state = [value for value, _ in messages], self._state(key)
            if self._handle_many is not None:
                state, outputs = self._handle_many(key, values, state)
            else:
                state, outputs = self._handle(key, values[0], state)
            outputs = list(outputs)
            _check_outputs(outputs)
        except Exception as error:
            first, last = messages[0][1], messages[-1][1]
            failed = HandlerFailed(key, self.partition, first, last, error)
            if self._dead_letters is None:
                raise failed from error
            self.install(key, before)
            if len(messages) > 1:
                for message in messages:
                    self._apply(key, [message])
                return
            self._dead_letters.check_limit(self._set_aside, failed)
            self._set_aside += 1
            self.letters.append(Letter(key, messages[0][0], first, error))
            return
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


def _check_outputs(outputs: list[Any]) -> None:
    for output in outputs:
        if output is not None and not isinstance(output, bytes | str):
            raise TypeError(f"an output must be bytes or None, got {type(output).__name__}")
