"""Messages that a handler fails for: named, or set aside in a topic of their own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from evenflow.model.errors import EvenflowError

_LONGEST = 1000  # characters of an error's text


class HandlerFailed(EvenflowError):
    """A handler has failed; nothing of the transaction has had an effect.

    The error that it raised is the `__cause__`.
    """

    def __init__(
        self, key: bytes, partition: int, first: int, last: int, error: BaseException
    ) -> None:
        at = f"offset {first}" if first == last else f"offsets {first} to {last}"
        super().__init__(
            f"the handler failed for key {key!r}, partition {partition}, {at}: {_text(error)}. Nothing "
            "was lost: mend the handler and start the consumer again, or set dead_letter_topic to set "
            "such messages aside"
        )
        self.key, self.partition, self.offset = key, partition, first


class Letter(NamedTuple):
    """A message to set aside."""

    key: bytes
    value: bytes | None
    offset: int
    error: BaseException


@dataclass(frozen=True)
class DeadLetters:
    """Where to set messages aside, and how many.

    Guarantee: they are written in the transaction that moves the group beyond them, so exactly once.

    Parameters:
        topic: for the messages: key and value as they were, and headers that say where they stood and
            why they are here.
        limit: messages per partition since the group began; the next one stops the consumer.
        group: that reads the messages.
    """

    topic: str
    limit: int
    group: str

    def check_limit(self, already: int, failed: HandlerFailed) -> None:
        """Raise the error if the limit is reached."""
        if already >= self.limit:
            raise DeadLettersFull(
                f"partition {failed.partition} has set aside {already} messages, as many as "
                f"dead_letter_limit allows, and the next one failed, too: {failed}. Look at "
                f"{self.topic!r}; if that is as it should be, raise the limit"
            )

    def record(self, letter: Letter, topic: str, partition: int) -> dict[str, Any]:
        """The record of a message."""
        headers = {
            "topic": topic,
            "partition": partition,
            "offset": letter.offset,
            "group": self.group,
            "error": _text(letter.error),
        }
        return {
            "topic": self.topic,
            "key": letter.key,
            "value": letter.value,
            "headers": [(f"evenflow-{name}", str(text).encode()) for name, text in headers.items()],
        }


class DeadLettersFull(EvenflowError):
    """More messages have failed than may be set aside."""


def _text(error: BaseException) -> str:
    text = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"
