"""What can go wrong with a checkpoint, and what to do about it."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager

from evenflow.model.errors import EvenflowError, InputError
from evenflow.storage.store_errors import Problem, StoreError


class CheckpointError(EvenflowError, RuntimeError):
    """A checkpoint could not be read or written: the message names the path and the remedy.

    Nothing that was committed is lost; once the cause is gone, the query resumes where it stopped.
    """


class DamagedState(CheckpointError):
    """A file of the checkpoint is not what was written: the message names it and the place in it."""


class AlreadyCommitted(CheckpointError):
    """This batch has been committed before, with another content."""


class LostLease(CheckpointError):
    """Another driver has taken over the checkpoint: this one must not commit any more."""


class OtherFormat(InputError):
    """The checkpoint was written by a version of evenflow whose format this one does not read."""


_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_FORBIDDEN = {errno.EROFS, errno.EACCES, errno.EPERM}
_KEYS = (
    "give them as storage_options, in Spark's Hadoop configuration (fs.s3a.access.key, …) or in the "
    "environment"
)
_STORE_REMEDIES = {
    Problem.BUCKET: "create the bucket, or give a location in one that exists",
    Problem.CREDENTIALS: f"check them, or {_KEYS}",
    Problem.NO_CREDENTIALS: _KEYS,
    Problem.RIGHTS: "let them read, write, list and delete there, or choose another location",
    Problem.REGION: "give the bucket's region, as storage_options or in the environment",
    Problem.HOST: "check the address of the store and the name service",
    Problem.NETWORK: "check the address of the store and the network, then start the query again",
    Problem.TIMEOUT: "check the network and the store, then start the query again",
    Problem.CONDITIONAL: "use a store that has conditional writes (If-None-Match)",
    Problem.BUSY: "start the query again once the store has recovered",
    Problem.OTHER: "check the store, then start the query again",
}


@contextmanager
def explained(doing: str, where: object) -> Iterator[None]:
    """Turn what the storage says into a `CheckpointError` with an address and a remedy.

    Parameters:
        doing: a verb, such as "write".
        where: the address, such as `storage.where(name)`.
    """
    try:
        yield
    except OSError as error:
        if isinstance(error, StoreError):
            remedy = _STORE_REMEDIES[error.problem]
        elif error.errno in _FULL:
            remedy = "make room there (or raise the quota) and start the query again"
        elif error.errno in _FORBIDDEN:
            remedy = "let this user write there, or choose another checkpoint, and start again"
        elif error.errno == errno.ENOENT:
            remedy = (
                "it is missing: restore it from a backup, or start over with an empty checkpoint"
            )
        else:
            remedy = "check the disk, the mount or the store, then start the query again"
        raise CheckpointError(
            f"cannot {doing} {where}: {error.strerror or error}; {remedy}"
        ) from error


def no_checkpoint(missing: str) -> InputError:
    """The error for a location that is not a checkpoint's.

    Parameters:
        missing: the address of the file that every checkpoint has, in a folder of its location.
    """
    location = missing.rpartition("/")[0].rpartition("/")[0]
    return InputError(
        f"{location} is not a checkpoint of evenflow: {missing} is missing; give the location that the "
        "query was started with"
    )


def damaged(where: str, what: str) -> DamagedState:
    """The error for a file whose content is wrong."""
    return DamagedState(
        f"{where} is damaged: {what}; restore this file from a backup, or start over with an empty "
        "checkpoint (`evenflow state verify` lists everything that is damaged)"
    )


def other_format(where: str, found: object, known: int) -> OtherFormat:
    """The error for a file of another format than the one that this version reads."""
    if found == 1:
        return OtherFormat(
            f"{where} was written by evenflow 0.1, which this version does not read; finish it with "
            "0.1 or start with a new checkpoint location"
        )
    return OtherFormat(
        f"{where} has format {found}, but this version of evenflow reads format {known}; use the "
        "version that wrote it"
    )
