"""All that one page watches, each in a thread of its own: a store that hangs holds up nothing else."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

from evenflow.dashboard.consumers import ConsumerLag
from evenflow.dashboard.history import QueryHistory, sentence_of
from evenflow.model.errors import EvenflowError

if TYPE_CHECKING:
    from evenflow.fleet.config import Fleet


class Watched(Protocol):
    """Something that is read again and again."""

    version: int

    def poll(self) -> bool:
        """Read what is new; whether to be called again at once."""
        ...


class FleetStatus:
    """Watches a fleet.

    Parameters:
        fleet: from its file.
    """

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet
        self.version = 0
        self.error: str | None = None
        self.seen: dict[str, Any] | None = None

    def poll(self) -> bool:
        """Read its status once; nothing is left to read."""
        from evenflow.fleet.status import status

        try:
            seen = status(self._fleet)
            seen["moves"] = seen["moves"][-200:]
            error = None
        except (EvenflowError, OSError, ValueError, KeyError) as problem:
            seen, error = None, sentence_of(problem)
        if (seen, error) != (self.seen, self.error):
            self.seen, self.error = seen, error
            self.version += 1
        return False

    def to_json(self) -> dict[str, Any]:
        """All that the page shows."""
        return {"error": self.error, "status": self.seen}


class Sources:
    """What a page watches.

    Parameters:
        queries: their histories.
        consumers: consumer groups.
        fleet: None without one.
        every: seconds between two readings.
    """

    def __init__(
        self,
        queries: Sequence[QueryHistory],
        consumers: Sequence[ConsumerLag] = (),
        fleet: FleetStatus | None = None,
        every: float = 1.0,
    ) -> None:
        self.queries, self.consumers, self.fleet = list(queries), list(consumers), fleet
        self._every = every
        self._stopped = threading.Event()

    @property
    def version(self) -> int:
        """Grows with every change."""
        return sum(one.version for one in self._all())

    def _all(self) -> list[Watched]:
        return [*self.queries, *self.consumers, *([self.fleet] if self.fleet else [])]

    def start(self) -> None:
        """Begin to watch."""
        for one in self._all():
            threading.Thread(
                target=self._watch, args=(one,), name="evenflow dashboard", daemon=True
            ).start()

    def stop(self) -> None:
        """End it."""
        self._stopped.set()

    @property
    def stopped(self) -> bool:
        """Whether `stop` was called."""
        return self._stopped.is_set()

    def _watch(self, one: Watched) -> None:
        while not self._stopped.is_set():
            more = one.poll()
            # Also with much to read: others want to compute as well.
            self._stopped.wait(0.02 if more else self._every)
