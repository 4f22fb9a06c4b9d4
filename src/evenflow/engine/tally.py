"""A task's counts of its own work."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pyarrow as pa

from evenflow.engine.key_names import key_names
from evenflow.engine.layout import Keys
from evenflow.engine.pieces import row_bytes

TOP = 64  #: the number of most frequent keys that a task reports


class Tally:
    """A task's counts of its own work: rows, keys, seconds and its most frequent keys."""

    def __init__(self) -> None:
        self.rows = 0
        self.seconds = 0.0
        self.started: float | None = None  #: when the operator's work began, wall-clock time
        self.cpu = time.process_time()
        self.began = time.perf_counter()
        self._tops: dict[int, tuple[int, str]] = {}
        self._floor = 0
        self.moved_keys = 0  #: keys that came from other owners, with their states
        self.moved_bytes = 0

    def add(self, keys: Keys, group: np.ndarray) -> None:
        """Count the rows of one chunk."""
        counts = np.bincount(group, minlength=len(keys))
        self.rows += len(group)
        top = np.arange(len(counts))
        if len(counts) > TOP:
            top = np.argpartition(counts, -TOP)[-TOP:]
            self._floor += int(counts[top].min())
        names = key_names(keys.columns.take(pa.array(top)))
        for i, name in zip(top.tolist(), names, strict=True):
            fingerprint = int(keys.fingerprints[i])
            before = self._tops.get(fingerprint, (0, ""))[0]
            self._tops[fingerprint] = (before + int(counts[i]), name)

    def moved(self, rows: pa.Table) -> None:
        """Count rows of state that come from other owners."""
        self.moved_keys += rows.num_rows
        self.moved_bytes += int(row_bytes(rows).sum())

    @contextmanager
    def updating(self) -> Iterator[None]:
        """Measure the time within as the operator's."""
        self.started = time.time() if self.started is None else self.started
        began = time.perf_counter()
        yield
        self.seconds += time.perf_counter() - began

    def report(self, stage: str, partition: int, **more: Any) -> str:
        """The report as JSON; `floor` bounds the rows of any key that is not listed."""
        top = [[str(k), n, name] for k, (n, name) in self._tops.items()]
        return json.dumps(
            {
                "stage": stage,
                "partition": partition,
                "rows": self.rows,
                "seconds": time.perf_counter() - self.began,
                "cpu_seconds": time.process_time() - self.cpu,
                "update_seconds": self.seconds,
                "started": self.started,
                "top": top,
                "floor": self._floor,
                "moved_keys": self.moved_keys,
                "moved_bytes": self.moved_bytes,
                **more,
            }
        )
