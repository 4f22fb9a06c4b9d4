"""The checkpoint: identity, lock, one manifest per batch, segments."""

from __future__ import annotations

import json
import os
import re
import socket
import time
from collections.abc import Callable, Mapping
from typing import Any, Self
from uuid import uuid4

from evenflow.model import InputError
from evenflow.model.validation import check_whole
from evenflow.state.errors import AlreadyCommitted, CheckpointError, explained, other_format
from evenflow.state.manifest import FORMAT, Manifest, dump, load, seal, unseal
from evenflow.state.segments import SEGMENTS, batch_of
from evenflow.storage import Lock, Storage, storage_at

FOLDER = "evenflow"  #: of the checkpoint location, beside Spark's own
IDENTITY = "identity.json"
MANIFESTS = "manifests/"
_QUERY = "query"
_MANIFEST = re.compile(r"manifests/(\d{10,})\.json(\..*)?")


class CheckpointLock:
    """Held by one driver; it goes when the process ends, however it ends."""

    def __init__(self, lock: Lock) -> None:
        self._lock = lock

    def release(self) -> None:
        """Let others in. A second call does nothing."""
        self._lock.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


class Checkpoint:
    """The state of a query between its batches, in `PATH/evenflow/`.

    Guarantee: `last()` is the manifest that was committed last, whole, whenever and however the
    process that wrote it ended. A manifest that exists is never changed.

    Example:
        >>> import tempfile
        >>> checkpoint = Checkpoint.open(tempfile.mkdtemp(), {"key": ["page"], "seed": 0})
        >>> with checkpoint.lock():
        ...     checkpoint.commit(Manifest(batch=0))
        >>> checkpoint.last().batch
        0
        >>> checkpoint.differences({"key": ["user"], "seed": 0})
        ['key: ["page"] in the checkpoint, ["user"] now']
    """

    def __init__(self, storage: Storage, identity: Mapping[str, Any]) -> None:
        self.storage = storage  #: everything lies in it, rooted at PATH/evenflow
        self.identity = identity
        self._known: dict[int, Manifest] = {}  # a manifest never changes: read it once

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str] | Storage,
        identity: Mapping[str, Any] | None = None,
    ) -> Checkpoint:
        """Open a checkpoint, or begin one.

        What is stored stays, also if `identity` differs from it: ask `differences`, then refuse the
        query or `carry_over`.

        Parameters:
            path: the location that the user named, or the storage there.
            identity: what the state depends on (key columns and types, the operator's signature, the
                state's schema, seed, …), as JSON. None: it must exist.
        """
        storage = storage_at(path).under(FOLDER)
        where = storage.where(IDENTITY)
        stored = _read_if_there(storage, IDENTITY)
        if stored is None:
            if identity is None:
                raise InputError(
                    f"{_location(storage)} is not a checkpoint of evenflow: {where} is missing; give "
                    "the location that the query was started with"
                )
            _begin(storage, identity)
            with explained("read", where):
                stored = storage.read(IDENTITY)
        return cls(storage, unseal(stored, where))

    @property
    def location(self) -> str:
        """The address that the user named."""
        return _location(self.storage)

    # --- identity --------------------------------------------------------------------------------

    @property
    def query(self) -> str:
        """A name that no other checkpoint has, and that this one keeps."""
        return str(self.identity.get(_QUERY, ""))

    def differences(self, identity: Mapping[str, Any]) -> list[str]:
        """In what the stored identity and this one differ, one sentence each; empty if in nothing."""
        wanted = {"format": FORMAT, **identity}
        return [
            f"{name}: {_shown(self.identity, name)} in the checkpoint, {_shown(wanted, name)} now"
            for name in sorted({*self.identity, *wanted} - {_QUERY})
            if _shown(self.identity, name) != _shown(wanted, name)
        ]

    def carry_over(self, identity: Mapping[str, Any]) -> None:
        """Replace the stored identity, once the caller has seen that the state still fits."""
        content = seal({"format": FORMAT, _QUERY: self.query, **identity})
        with explained("write", self.storage.where(IDENTITY)):
            self.storage.put(IDENTITY, [content])
        self.identity = unseal(content, self.storage.where(IDENTITY))

    # --- lock ------------------------------------------------------------------------------------

    def lock(self, clock: Callable[[], float] = time.time) -> CheckpointLock:
        """Keep every other driver out, until it is released or this process ends.

        A second driver gets an `InputError` that names the holder. No stale lock is left behind by a
        crash.
        """
        now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(clock()))
        holder = {"pid": os.getpid(), "host": socket.gethostname(), "since": now}
        with explained("lock", self.storage.where("lock")):
            try:
                return CheckpointLock(self.storage.lock("lock", json.dumps(holder)))
            except BlockingIOError as error:
                raise InputError(
                    f"the checkpoint {self.location} is in use by {_holder(error.strerror)}; stop that "
                    "query first, or give this one a checkpoint of its own"
                ) from None

    # --- manifests -------------------------------------------------------------------------------

    def batches(self) -> list[int]:
        """The batches whose manifests are kept, oldest first."""
        with explained("list", self.storage.where(MANIFESTS)):
            names = self.storage.list(MANIFESTS)
        matches = map(_MANIFEST.fullmatch, names)
        return sorted(int(match[1]) for match in matches if match and not match[2])

    def last(self) -> Manifest | None:
        """The manifest committed last; None before the first."""
        batches = self.batches()
        return self.manifest(batches[-1]) if batches else None

    def manifest(self, batch: int) -> Manifest:
        """The manifest of a batch that is kept; `DamagedState` if it is not what was written."""
        if batch not in self._known:
            name = manifest_name(batch)
            self._known[batch] = load(content_of(self.storage, name), self.storage.where(name))
        return self._known[batch]

    def commit(self, manifest: Manifest) -> None:
        """Make a batch count, in one step.

        Guarantee: after it returns, the batch survives a crash of the machine; if it raises, or the
        process dies within, the batch is committed as a whole or not at all. The same manifest may be
        committed twice; another one for the same batch is `AlreadyCommitted`.
        """
        check_whole("the batch", manifest.batch, 0)
        name, content = manifest_name(manifest.batch), dump(manifest)
        batches = self.batches()
        if batches and manifest.batch < batches[-1] and manifest.batch not in batches:
            raise AlreadyCommitted(
                f"batch {manifest.batch} was committed to {self.location} long ago: batch "
                f"{batches[-1]} is; is an older query still running on this checkpoint?"
            )
        with explained("write", self.storage.where(name)):
            ours = self.storage.create(name, content)
        if not ours:
            raise AlreadyCommitted(
                f"batch {manifest.batch} is already committed to {self.storage.where(name)} with "
                "another content; is a second query running on this checkpoint?"
            )

    # --- cleaning up -----------------------------------------------------------------------------

    def retain(self, keep: int = 10) -> list[int]:
        """Drop all but the newest `keep` manifests; returns the batches dropped."""
        check_whole("the number of manifests to keep", keep, 1)
        dropped = self.batches()[:-keep]
        for batch in dropped:  # oldest first, so that what is kept has no holes after a crash
            name = manifest_name(batch)
            with explained("delete", self.storage.where(name)):
                self.storage.delete(name)
            self._known.pop(batch, None)
        return dropped

    def collect_garbage(self) -> list[str]:
        """Delete the segments that no kept manifest names; returns the names deleted.

        Those of batches that are not committed yet stay: a task may just be writing them. If a kept
        manifest cannot be read, nothing is deleted.
        """
        batches = self.batches()
        if not batches:
            return []
        named = {s.name for batch in batches for s in self.manifest(batch).segments}
        with explained("clean up", self.storage.where()):
            found = {
                *self.storage.list(SEGMENTS),
                *self.storage.unfinished(SEGMENTS),
                *self.storage.unfinished(MANIFESTS),
            }
            removed = sorted(name for name in found - named if _is_over(name, batches[-1]))
            for name in removed:
                self.storage.delete(name)
        return removed


def manifest_name(batch: int) -> str:
    """The name of a batch's manifest in the checkpoint's storage.

    Example:
        >>> manifest_name(12)
        'manifests/0000000012.json'
    """
    return f"{MANIFESTS}{batch:010d}.json"


def content_of(storage: Storage, name: str) -> bytes:
    """All of a small object, or a `CheckpointError`."""
    with explained("read", storage.where(name)):
        return storage.read(name)


def _read_if_there(storage: Storage, name: str) -> bytes | None:
    with explained("read", storage.where(name)):
        try:
            return storage.read(name)
        except (FileNotFoundError, NotADirectoryError):
            return None


def _location(storage: Storage) -> str:
    return storage.where().removesuffix(f"/{FOLDER}")


def _is_over(name: str, latest: int) -> bool:
    """Whether an object is of a batch that is committed, so that nobody is writing it any more."""
    manifest = _MANIFEST.fullmatch(name)
    batch = int(manifest[1]) if manifest else batch_of(name)
    return batch is not None and batch <= latest


def _begin(storage: Storage, identity: Mapping[str, Any]) -> None:
    with explained("create", storage.where()):
        if storage.list("metrics.jsonl"):
            raise other_format(_location(storage), 1, FORMAT)
        if storage.list(MANIFESTS):
            raise CheckpointError(
                f"{storage.where()} holds committed batches, but its {IDENTITY} is missing; restore "
                "it from a backup, or start over with an empty checkpoint"
            )
        # Another process may begin it at the same moment: then its identity counts.
        storage.create(IDENTITY, seal({"format": FORMAT, _QUERY: uuid4().hex, **identity}))


def _shown(identity: Mapping[str, Any], name: str) -> str:
    if name not in identity:
        return "nothing"
    return json.dumps(identity[name], ensure_ascii=False, sort_keys=True)


def _holder(content: str | None) -> str:
    try:
        holder = json.loads(content or "")
        return f"process {holder['pid']} on {holder['host']} since {holder['since']}"
    except (ValueError, KeyError, TypeError):
        return "another process"
