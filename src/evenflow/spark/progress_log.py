"""Spark's own log of a streaming query: which rows each of its batches has."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import partial

from evenflow.model import InputError
from evenflow.state.errors import explained
from evenflow.state.source import Source
from evenflow.storage import Storage, together

PROGRESS = "spark"  #: of the checkpoint location, beside ours


@dataclass(frozen=True)
class ProgressLog:
    """Spark's part of a checkpoint.

    Guarantee: a batch that Spark runs again has the same `Source`, and rows that get the number of an
    earlier batch have another one: Spark writes the offsets of a batch before it runs it, with the
    time of day, and reads them again after a restart.

    Parameters:
        storage: where it is.
    """

    storage: Storage

    def __call__(self, batch: int) -> Source:
        """The rows of a batch that Spark has begun."""
        names = ("metadata", f"offsets/{batch}")
        metadata, offsets = together(self.storage, [partial(self._read, name) for name in names])
        return Source(json.loads(metadata)["id"], offsets)

    def _read(self, name: str) -> str:
        where = self.storage.where(name)
        try:
            with explained("read", where):
                return self.storage.read(name).decode()
        except FileNotFoundError:
            raise InputError(
                f"Spark has begun a batch, and {where} is missing: was it deleted while the query ran?"
            ) from None

    def drop_unfinished(self) -> None:
        """Delete what a killed driver has left half written.

        Spark ignores such files, but for one case: before the first batch it refuses to start unless
        the logs are empty, whatever lies in them. On local disks and on stores alike, it writes
        `.N.UUID.tmp` and renames that.
        """
        for log in ("offsets/.", "commits/."):
            with explained("clean up", self.storage.where(log)):
                names = {*self.storage.list(log), *self.storage.unfinished(log)}
                self.storage.delete(*sorted(name for name in names if ".tmp" in name))
