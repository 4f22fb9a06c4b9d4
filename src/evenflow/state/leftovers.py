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
    """Delete the segments and staged files of batches that were not committed, and garbage.

    Guarantee: nothing that another driver writes, even if this one is taken over meanwhile.

    For a driver that has acquired the checkpoint and not yet begun. Tasks of an earlier driver may
    still be writing, but nobody reads what they write; and what they read, a kept manifest names.
    Without this, every try of a batch that fails would leave a copy of the state that it touched, and
    drivers that do not live as long as garbage must be garbage would never delete any.

    Parameters:
        checkpoint: with the lease.
        staged: other places with staged files, such as those of a sink.
    """
    storages = {checkpoint.storage, *staged}
    with explained("clean up", checkpoint.storage.where()):
        found = {storage: _names(storage, STAGING) for storage in storages}
        segments = _names(checkpoint.storage, SEGMENTS)
    # Asked after the names are known: if another driver takes over from here on, none of them is its.
    last = checkpoint.last()
    latest = -1 if last is None else last.batch
    left = {checkpoint.storage: [name for name in segments if not is_over(name, latest)]}
    for storage, files in found.items():
        over = set(of_batches(files, STAGING, latest))
        names = [*left.get(storage, []), *(name for name in files if name not in over)]
        with explained("clean up", storage.where()):
            storage.delete(*names)
    checkpoint.collect_garbage()


def _names(storage: Storage, folder: str) -> list[str]:
    return [*storage.list(folder), *storage.unfinished(folder)]
