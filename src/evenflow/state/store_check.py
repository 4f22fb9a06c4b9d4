"""Can a store do what a commit needs? Asked before the first batch."""

from __future__ import annotations

from contextlib import suppress
from uuid import uuid4

from evenflow.model import InputError
from evenflow.state.errors import explained
from evenflow.storage import Storage

PROBES = "preflight"  #: the folder of a storage for objects that are there only during a check


def check_store(storage: Storage) -> None:
    """Write, create, read and delete an object from this process, as a commit does: five requests.

    Guarantee: a wrong bucket, wrong credentials, missing rights, an unreachable host or a store without
    conditional writes is one sentence, with what to do about it. Nothing stays there.

    Parameters:
        storage: the location that the user named.

    Example:
        >>> from evenflow.storage import MemoryStorage
        >>> check_store(MemoryStorage())
    """
    folder, name = storage.under(PROBES), uuid4().hex
    with explained("write to", storage.where()):
        folder.put(name, [b"put"])
    try:
        with explained("create an object in", storage.where()):
            created = folder.create(name, b"create")
        if created:
            raise InputError(
                f"{storage.where()} overwrites objects that are to be created only if they are not "
                "there; use a store that has conditional writes"
            )
        with explained("read from", storage.where()):
            folder.read(name)
    except BaseException:
        with suppress(OSError):
            folder.delete(name)
        raise
    with explained("delete from", storage.where()):
        folder.delete(name)
