"""The batches of one query as the page knows them: read piece by piece, the newest first."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from evenflow.dashboard.batch_summary import LOAD, BatchSummary, Loads, loads_of
from evenflow.dashboard.liveness import Liveness
from evenflow.dashboard.source_lag import source_lag
from evenflow.metrics.prometheus import BatchCounters
from evenflow.model.errors import EvenflowError
from evenflow.state.checkpoint import FOLDER, IDENTITY, Checkpoint
from evenflow.state.metrics import KEPT
from evenflow.state.metrics_reader import MetricsReader
from evenflow.storage import Storage

LOADS_KEPT = (64 << 20) // LOAD.itemsize  #: partitions times batches whose loads are kept
_LOOK = 2.0  # seconds between two looks at the driver
HOT_KEPT = 200  #: batches whose hot keys are kept


class QueryHistory:
    """What one query has committed.

    Guarantee: reads only what is committed, and writes nothing. The newest batches come first, so
    that a page has something to show at once; memory is bounded, whatever the query has.

    Parameters:
        location: the checkpoint location, as the user named it.
        storage: there.
        name: of the query; None for what its metrics or its location say.
        bootstrap: a broker's address, to tell how far a query that reads Kafka is behind.
        clock: a monotonic clock.
    """

    def __init__(
        self,
        location: str,
        storage: Storage,
        name: str | None = None,
        bootstrap: str | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.location = location
        self.storage = storage
        self.version = 0  #: grows with every change
        self.error: str | None = None  #: why nothing can be read, as a sentence
        self.reading: int = 0  #: how many older batches are still to be read
        self.state = ("waiting", "")  #: of its driver, as `Liveness.look` says it
        self.lag: int | None = None  #: messages of its topics that no batch has yet, if known
        self.counters = BatchCounters(name or _last_part(location))
        self._given_name = name
        self._clock = clock
        self._bootstrap = bootstrap
        self._liveness = Liveness(storage.under(FOLDER), clock)
        self._looked = -_LOOK
        self._reader = MetricsReader(storage.under(FOLDER))
        self._lock = threading.Lock()
        self._summaries: dict[int, BatchSummary] = {}
        self._loads: dict[int, Loads] = {}
        self._hot: dict[int, list[Mapping[str, Any]]] = {}
        self._newest: Mapping[str, Any] = {}
        self._cells = 0  # of all loads

    @property
    def name(self) -> str:
        """Of the query."""
        return self.counters.query

    def poll(self, seconds: float = 1.0) -> bool:
        """Read what is new, and then what is old, for about so long; whether something is left."""
        until = self._clock() + seconds
        try:
            left = self._read(until)
            self._look()
            error = None if self._summaries else self._nothing_there()
        except (EvenflowError, OSError) as problem:
            error, left = sentence_of(problem), False
        reading = self._reader.left() if left else 0
        if error != self.error or reading != self.reading:
            self.error, self.reading = error, reading
            self.version += 1
        return left

    def _read(self, until: float) -> bool:
        for metrics in self._reader.read():
            self._take(metrics)
            if self._clock() > until:
                return True
        return False

    def _look(self) -> None:
        """See now and then whether the query runs, and how far it is behind."""
        if self._clock() - self._looked < _LOOK:
            return
        self._looked = self._clock()
        before = self.state, self.lag
        self.state = self._liveness.look()
        if self._bootstrap is not None and self._summaries:
            last = self.checkpoint().last()
            offsets = "" if last is None else last.source.get("offsets", "")
            self.lag = source_lag(self._bootstrap, offsets)
        if (self.state, self.lag) != before:
            self.version += 1

    def _nothing_there(self) -> str | None:
        if self.storage.under(FOLDER).list(IDENTITY):
            return None
        return (
            f"There is no checkpoint at {self.location} yet. The page fills once a query has started "
            "there; if one is running, check the location."
        )

    def _take(self, metrics: Mapping[str, Any]) -> None:
        summary = BatchSummary.of(metrics)
        loads = loads_of(metrics)
        with self._lock:
            if self._given_name is None and isinstance(metrics.get("name"), str):
                self.counters.query = metrics["name"]
            self._summaries[summary.batch] = summary
            if summary.batch >= self._newest.get("batch", 0):
                self._newest = {
                    k: v for k, v in metrics.items() if k not in ("partitions", "state")
                }
            self._loads[summary.batch] = loads
            self._cells += len(loads)
            hot = metrics.get("hot_keys")
            self._hot[summary.batch] = hot if isinstance(hot, list) else []
            self._forget()
            self.version += 1
        self.counters.take(metrics)

    def _forget(self) -> None:
        """Keep within the bounds: what is oldest goes first."""
        if len(self._summaries) > KEPT:
            del self._summaries[min(self._summaries)]
        if len(self._hot) > HOT_KEPT:
            del self._hot[min(self._hot)]
        while len(self._loads) > 1 and self._cells > LOADS_KEPT:
            self._cells -= len(self._loads.pop(min(self._loads)))

    # --- what the page shows ---------------------------------------------------------------------

    def summaries(self) -> list[BatchSummary]:
        """All batches that are known, in order."""
        with self._lock:
            return [self._summaries[batch] for batch in sorted(self._summaries)]

    def known(self) -> int:
        """How many batches are known."""
        return len(self._summaries)

    def newest(self) -> BatchSummary | None:
        """The batch that was committed last."""
        with self._lock:
            return self._summaries[max(self._summaries)] if self._summaries else None

    def newest_metrics(self) -> Mapping[str, Any]:
        """The metrics of the newest batch, without its partitions."""
        with self._lock:
            return self._newest

    def loads(self, batch: int) -> Loads | None:
        """The loads of a batch's partitions; None if they are not kept."""
        with self._lock:
            return self._loads.get(batch)

    def hot_keys(self, batch: int) -> list[Mapping[str, Any]] | None:
        """The hot keys of a batch, hottest first; None if they are not kept."""
        with self._lock:
            return self._hot.get(batch)

    def summary(self, batch: int) -> BatchSummary | None:
        """One batch."""
        with self._lock:
            return self._summaries.get(batch)

    def checkpoint(self) -> Checkpoint:
        """The checkpoint itself, for what its manifests say."""
        return Checkpoint.open(self.storage)


def _last_part(location: str) -> str:
    return location.rstrip("/").rpartition("/")[2] or location


def sentence_of(problem: Exception) -> str:
    """An error as a sentence for the page."""
    text = " ".join(str(problem).split()) or type(problem).__name__
    return f"{text[:1].upper()}{text[1:]}{'' if text.endswith('.') else '.'}"
