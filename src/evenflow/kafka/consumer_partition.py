"""One partition in a consumer's hands: its reader, its keys' states, and what is not committed yet."""

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
from evenflow.model import InputError
from evenflow.ordering import Done, Header, Reader


class Handler(Protocol):
    """What a service does with its messages. State of a key is None before its first message.

    A handler may have, beside this, `handle_many(key, values, state)`, which is given several
    messages of a key at once, in order, and returns the same; it is called instead where possible.
    """

    def handle(
        self, key: bytes, value: bytes | None, state: Any
    ) -> tuple[Any, Iterable[bytes | None]]:
        """The key's new state (None: forget the key) and values for the output topic."""


@dataclass(frozen=True)
class StateFormat:
    """How a key's state becomes bytes; as JSON unless said otherwise."""

    to_bytes: Callable[[Any], bytes] = lambda state: json.dumps(state).encode()
    from_bytes: Callable[[bytes], Any] = json.loads


class PartitionWork:
    """Does what a reader decides, and gathers what a transaction must hold.

    Guarantee: messages of a key go to the handler in the order in which the reader gives them, and a
    key's state leaves only after all of them.
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
        """The next record of the data partition."""
        self.next_data, self.at_end = offset + 1, False
        self.reader.read(key, value, header)

    def done(self, key: bytes, set_id: int, state: bytes | None, offset: int) -> None:
        """The next record of the control partition."""
        self.next_control = offset + 1
        self.reader.done(key, set_id, state)

    # What the reader wants done

    def process(self, key: bytes, value: bytes | None) -> None:
        self.processed += 1
        if self._handle_many is not None:
            run = self._runs.get(key)
            if run is None:
                run = self._runs[key] = []
            run.append(value)
            return
        state, outputs = self._handle(key, value, self._state(key))
        self._keep(key, state, outputs)

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
        """Hands all gathered messages to the handler."""
        for key in list(self._runs):
            self._run(key)

    # What a transaction must hold

    @property
    def changed(self) -> bool:
        """There is something to commit."""
        return (self.next_data, self.next_control) != self._saved_offsets

    def records(self, topics: GroupTopics, output_topic: str | None) -> Iterable[dict[str, Any]]:
        """All that is to be produced: outputs, words to others, and what to remember."""
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
            yield {
                "topic": topics.changelog,
                "partition": self.partition,
                "key": key,
                "value": value,
            }

    def changelog(self) -> Iterable[tuple[bytes, bytes | None]]:
        """Keys and values for this partition's changelog."""
        for key in self._changed:
            yield STATE + key, self._bytes(key)
        reader = self.reader
        for number in reader.removed:
            yield item_key(number), None
        for item in reader.added.values():
            yield item_key(item.number), pack_item(item)
        yield (
            META,
            pack_meta(self.next_data, self.next_control, reader.next_number, reader.positions),
        )

    def committed(self) -> None:
        """All of it is committed."""
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
            self._keep(key, state, outputs)

    def _keep(self, key: bytes, state: Any, outputs: Iterable[bytes | None]) -> None:
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
                f"the state of key {key!r} cannot be saved ({error}): return something that JSON has, "
                "or give a StateFormat"
            ) from error
