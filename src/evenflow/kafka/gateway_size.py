"""Records that the target topic would not take, found before anything that follows them is sent.

Readers take a position to mean that all lower ones were written. If the broker refused one record and
took later ones, then the refused one, written later, would be dropped as a duplicate.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import NamedTuple

from evenflow.model import InputError

_MARK = "evenflow-too-large"
_FOUND = re.compile(_MARK + r" (\d+) (\d+) (\d+) ([\w+/=]*)")
_OVERHEAD = 160  # bytes, at most: Kafka's of a batch and a record, and our header
_PER_HEADER = 10  # bytes, at most: two lengths
_FIRST_SOURCE = 2  # the lane of source 0
_SHOWN = 60  # bytes of a key


class SizeLimit(NamedTuple):
    """The largest record that can be sent, uncompressed, in bytes; and the setting that says so."""

    size: int
    setting: str

    @classmethod
    def of(cls, topic_limit: int, options: Mapping[str, str]) -> SizeLimit:
        """The smallest of the topic's limit and the producer's."""
        limits = [cls(topic_limit, "max.message.bytes of the topic")]
        for name in ("kafka.max.request.size", "kafka.buffer.memory"):
            limits.append(cls(int(options[name]), f"the option {name}"))
        return min(limits)

    @contextmanager
    def explained(self, topic: str, name_source: Callable[[int], str]) -> Iterator[None]:
        """Turn the error of `checked_value` into a sentence that names the message."""
        try:
            yield
        except Exception as error:
            found = _FOUND.search(str(error))
            if found is None:
                raise
            lane, sequence, size = (int(number) for number in found.groups()[:3])
            if lane >= _FIRST_SOURCE:
                what = f"the message of {name_source(lane - _FIRST_SOURCE)}, offset {sequence},"
            else:
                what = f"a message of key {base64.b64decode(found[4])!r}"
            raise InputError(
                f"{what} has up to {size} bytes with its headers and cannot be written to {topic!r}: "
                f"{self.setting} is {self.size}. Nothing was lost: set it to at least {size}, and "
                "start the gateway again"
            ) from None


def checked_value(limit: int, headers: bool) -> str:
    """The expression of a record's value, which fails if the record has more bytes than the limit.

    The limit is compared with the size before compression: what a batch is compressed to is not known
    here.
    """
    size = f"{_OVERHEAD} + coalesce(octet_length(key), 0) + coalesce(octet_length(value), 0)"
    if headers:
        # As text, because a function over the array would keep Spark from compiling the whole.
        text = f"octet_length(string(headers)) + {_PER_HEADER} * size(headers)"
        size += f" + if(headers is null or size(headers) = 0, 0, {text})"
    key = f"base64(substring(binary(coalesce(key, '')), 1, {_SHOWN}))"
    found = f"concat_ws(' ', '{_MARK}', lane, sequence, {size}, {key})"
    return f"if({size} > {limit}, string(raise_error({found})), value)"
