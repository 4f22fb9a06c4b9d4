"""What tries of a batch leave that never was committed."""

from __future__ import annotations

from evenflow.state.checkpoint import Checkpoint
from evenflow.state.errors import explained
from evenflow.state.journal import of_batches
from evenflow.state.records import is_over
from evenflow.state.segments import SEGMENTS
from evenflow.storage import Storage

STAGING = "staging/"  #: files that go away after their batch


def drop_uncommitted(checkpoint: Checkpoint, *staged: Storage) -> None:
    """Delete the segments and staged files of batches that were not committed.

    For a driver that has acquired the checkpoint and not yet begun. Tasks of an earlier driver may
    still be writing, but nobody reads what they write. Without this, every try of a batch that fails
    would leave a copy of the state that it touched.

    Parameters:
        checkpoint: with the lease.
        staged: other places with staged files, such as those of a sink.
    """
    checkpoint.confirm()
    last = checkpoint.last()
    latest = -1 if last is None else last.batch
    for storage in {checkpoint.storage, *staged}:
        with explained("clean up", storage.where()):
            segments = _names(checkpoint.storage, SEGMENTS) if storage == checkpoint.storage else []
            left = [name for name in segments if not is_over(name, latest)]
            files = _names(storage, STAGING)
            over = set(of_batches(files, STAGING, latest))
            storage.delete(*left, *(name for name in files if name not in over))


def _names(storage: Storage, folder: str) -> list[str]:
    return [*storage.list(folder), *storage.unfinished(folder)]
