"""Several requests to a store at once, where each of them is waited for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from functools import partial
from typing import TypeVar

from evenflow.storage.protocol import Storage

T = TypeVar("T")


def together(storage: Storage, calls: Sequence[Callable[[], T]]) -> list[T]:
    """The results of independent calls to a storage, in order; the first error among them is raised.

    Guarantee: one after the other on a storage whose `concurrency` is 1; elsewhere so many at a time.

    Example:
        >>> from evenflow.storage.memory import MemoryStorage
        >>> together(MemoryStorage(), [lambda: 1, lambda: 2])
        [1, 2]
    """
    threads = min(storage.concurrency, len(calls))
    if threads <= 1:
        return [call() for call in calls]
    # Each thread counts its requests where this one does.
    counted = [partial(copy_context().run, call) for call in calls]
    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(lambda call: call(), counted))
