"""Signals that stop a command which runs until somebody stops it."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def until_interrupted() -> Iterator[None]:
    """Ctrl-C or SIGTERM ends what is inside, as if it were done."""
    previous = signal.signal(signal.SIGTERM, _interrupt)
    try:
        yield
    except KeyboardInterrupt:
        pass
    finally:
        signal.signal(signal.SIGTERM, previous)


def _interrupt(sign: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt
