"""The records of a checkpoint in the order in which they came to be, and which of them count."""

from __future__ import annotations

import re
from typing import NamedTuple

from evenflow.state.manifest import Manifest
from evenflow.state.records import Place, record_in
from evenflow.state.source import moment_in
from evenflow_lab.checking.simulation.spark_habits import rows_in

_NAME = re.compile(r"manifests/(\d+)-(\d+)\.json")


class Violation(AssertionError):
    """What was promised and does not hold."""


class Committed(NamedTuple):
    """A batch that counts: its rows, none where it only closes what event time has passed, and when it
    began, in milliseconds."""

    manifest: Manifest
    start: int
    end: int
    moment: int


class History:
    """Which records there were. The newest place ever taken is the end of the sequence."""

    def __init__(self) -> None:
        self._newest: Place | None = None
        self._fence = 0
        self.committed: list[Committed] = []
        self.wrong: list[str] = []

    def copy(self) -> History:
        other = History()
        other.restore(self)
        return other

    def restore(self, other: History) -> None:
        """Be as the other one: a backup has replaced all that came after it."""
        self._newest, self._fence = other._newest, other._fence
        self.committed, self.wrong = list(other.committed), list(other.wrong)

    def add(self, name: str, content: bytes) -> None:
        """A record has come to be."""
        match = _NAME.fullmatch(name)
        assert match is not None, name
        place = Place(int(match[1]), int(match[2]))
        record = record_in(content, place, name)
        if self._newest is not None and place <= self._newest:
            return  # of a driver that was stopped for long; whether anybody sees it is checked
        if record.fence < self._fence:
            self.wrong.append(f"{name} of driver {record.fence} counts after driver {self._fence}")
        self._newest, self._fence = place, max(self._fence, record.fence)
        if isinstance(record, Manifest):
            self._commit(name, record)

    def _commit(self, name: str, manifest: Manifest) -> None:
        before = self.committed[-1] if self.committed else None
        expected = 0 if before is None else before.manifest.batch + 1
        if manifest.batch != expected:
            self.wrong.append(f"{name} commits batch {manifest.batch} after batch {expected - 1}")
        entry = manifest.source["offsets"]
        start, end = rows_in(entry)
        if before is not None and manifest.closings > before.manifest.closings:
            if manifest.source != before.manifest.source:
                self.wrong.append(
                    f"{name} has no rows, and another source than the batch before it"
                )
            start = before.end
        if start != (0 if before is None else before.end):
            done = 0 if before is None else before.end
            self.wrong.append(f"{name} has the rows from {start} on, and {done} rows are done")
        self.committed.append(Committed(manifest, start, end, moment_in(entry) or 0))
