"""A reference handler for the ordered consumer: counts each key's messages, at a given service time."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from evenflow.model import InputError

_SHORTEST_SLEEP = 1e-3  # seconds; shorter sleeps are too inaccurate


@dataclass
class CountPerKey:
    """Counts the messages of each key; each output is the count so far, a space, and the message.

    Guarantee: n messages take at least n times `service_time`, less a millisecond. It sleeps, so that
    a few cores can stand in for many machines.

    Parameters:
        service_time: seconds per message.
        sleep: replaced in tests.
        clock: a monotonic clock, in seconds.

    Example:
        >>> CountPerKey().handle(b"page", b"hello", 4)
        (5, [b'5 hello'])
    """

    service_time: float = 0.0
    sleep: Callable[[float], object] = time.sleep
    clock: Callable[[], float] = time.monotonic
    _owed: float = field(default=0.0, init=False)

    def __post_init__(self) -> None:
        if not (math.isfinite(self.service_time) and self.service_time >= 0):
            raise InputError(
                f"the service time must be a finite number of seconds, got {self.service_time}"
            )

    def handle(
        self, key: bytes, value: bytes | None, state: int | None
    ) -> tuple[int, list[bytes | None]]:
        """Count one message."""
        if self.service_time:
            self._owed += self.service_time
            if self._owed >= _SHORTEST_SLEEP:
                start = self.clock()
                self.sleep(self._owed)
                # If a sleep takes too long, the next one is shorter.
                self._owed -= self.clock() - start
        count = (state or 0) + 1
        return count, [b"%d %s" % (count, value or b"")]
