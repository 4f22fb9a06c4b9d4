"""What can go wrong with a checkpoint, and what to do about it."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class CheckpointError(RuntimeError):
    """A checkpoint could not be read or written: the message names the path and the remedy.

    Nothing that was committed is lost; once the cause is gone, the query resumes where it stopped.
    """


class DamagedState(CheckpointError):
    """A file of the checkpoint is not what was written: the message names it and the place in it."""


class AlreadyCommitted(CheckpointError):
    """This batch has been committed before, with another content."""


_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_FORBIDDEN = {errno.EROFS, errno.EACCES, errno.EPERM}


@contextmanager
def explained(doing: str, path: Path) -> Iterator[None]:
    """Turn what the operating system says into a `CheckpointError` with a path and a remedy."""
    try:
        yield
    except OSError as error:
        if error.errno in _FULL:
            remedy = "make room there (or raise the quota) and start the query again"
        elif error.errno in _FORBIDDEN:
            remedy = "let this user write there, or choose another checkpoint, and start again"
        elif error.errno == errno.ENOENT:
            remedy = (
                "it is missing: restore it from a backup, or start anew with an empty checkpoint"
            )
        else:
            remedy = "check the disk or the network mount, then start the query again"
        raise CheckpointError(
            f"cannot {doing} {path}: {error.strerror or error}; {remedy}"
        ) from error


def damaged(path: Path, what: str) -> DamagedState:
    """The error for a file whose content is wrong."""
    return DamagedState(
        f"{path} is damaged: {what}; restore this file from a backup, or start anew with an empty "
        "checkpoint (`evenflow state verify` lists everything that is damaged)"
    )
