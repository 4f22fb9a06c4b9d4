"""Spark's own log of a streaming query: which rows each of its batches has."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import partial

from evenflow.model import InputError, shapes
from evenflow.state.errors import damaged, explained
from evenflow.state.source import PROGRESS, Source
from evenflow.storage import Storage, together

__all__ = ["PROGRESS", "ProgressLog"]


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
        try:
            query = json.loads(metadata)["id"]
        except (ValueError, KeyError, TypeError, RecursionError):
            query = None
        if shapes.text(query, "id"):
            raise damaged(self.storage.where("metadata"), "it does not name Spark's query")
        return Source(query, offsets)

    def _read(self, name: str) -> str:
        where = self.storage.where(name)
        try:
            with explained("read", where):
                return self.storage.read(name).decode()
        except UnicodeDecodeError as error:
            raise damaged(where, f"it is not text: {error.reason}") from None
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
