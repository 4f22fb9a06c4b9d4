"""Whether a query runs, as far as its checkpoint shows."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from evenflow.state.lease import SECONDS, described, driver_state, newest_lease
from evenflow.storage import Storage


class Liveness:
    """Watches the lease of a checkpoint.

    Guarantee: a driver on another machine counts as silent only after its lease's whole time without
    a sign of it, by this machine's clock.

    Parameters:
        storage: the checkpoint's.
        clock: a monotonic clock.
    """

    def __init__(self, storage: Storage, clock: Callable[[], float] = time.monotonic) -> None:
        self._storage, self._clock = storage, clock
        self._lease: dict[str, Any] | None = None
        self._changed = clock()
        self._beating = False  # whether the lease was seen to change

    def look(self) -> tuple[str, str]:
        """(state, who): "running", "stopped", "ended", "silent" or, while nothing is known, "waiting";
        and the driver in words."""
        lease = newest_lease(self._storage)
        if lease is None:
            return "waiting", ""
        now = self._clock()
        if lease != self._lease:
            self._beating = self._lease is not None
            self._lease, self._changed = lease, now
        state = driver_state(lease)
        if state == "unknown":
            silent = now - self._changed > float(lease.get("seconds", SECONDS))
            state = "silent" if silent else "running" if self._beating else "waiting"
        return state, described(lease)
