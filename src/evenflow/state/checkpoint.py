"""The checkpoint directory: identity, lock, one manifest a batch, segments."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import re
import socket
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Self
from uuid import uuid4

from evenflow.model import InputError
from evenflow.model.validation import check_whole
from evenflow.state.durable import TEMPORARY, sync_directory, write_whole
from evenflow.state.errors import AlreadyCommitted, CheckpointError, explained
from evenflow.state.manifest import FORMAT, Manifest, dump, load, seal, unseal
from evenflow.state.segments import batch_of

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):")
_QUERY = "query"
_MANIFEST = re.compile(r"(\d{10,})\.json")


def local_path(path: str | Path) -> Path:
    """The directory that a user means; refused if it is not one of a POSIX file system.

    Example:
        >>> local_path("file:///data/ckpt").as_posix()
        '/data/ckpt'
    """
    text = os.fspath(path)
    scheme = _SCHEME.match(text)
    if scheme and scheme[1] != "file":
        raise InputError(
            f"the checkpoint {text} is on {scheme[1]}, where a file cannot be put in place in one "
            "step; give a local path, or one on a file system that all machines mount"
        )
    if scheme:
        text = re.sub("^//[^/]*", "", text[len("file:") :])
    if not text:
        raise InputError("the path of the checkpoint is empty; give a directory")
    return Path(text).expanduser().absolute()


class Lock:
    """Held by one driver; the kernel lets go of it however the process ends."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor: int | None = descriptor

    def release(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

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

    def __init__(self, directory: Path, identity: Mapping[str, Any]) -> None:
        self.directory = directory  #: where everything lies, PATH/evenflow
        self.identity = identity
        self.segments_directory = directory / "segments"
        self._manifests = directory / "manifests"
        self._known: dict[int, Manifest] = {}  # a manifest never changes: read it once

    @classmethod
    def open(cls, path: str | Path, identity: Mapping[str, Any] | None = None) -> Checkpoint:
        """Open a checkpoint, or begin one.

        What is stored stays, also if `identity` differs from it: ask `differences`, then refuse the
        query or `carry_over`.

        Parameters:
            path: the directory that the user named.
            identity: what the state depends on (key columns and types, the operator's signature, the
                state's schema, seed, …), as JSON. None: it must exist.
        """
        directory = local_path(path) / "evenflow"
        file = directory / "identity.json"
        if not file.exists():
            if identity is None:
                raise InputError(
                    f"{directory.parent} is not a checkpoint of evenflow: {file} is missing; give the "
                    "directory that the query was started with"
                )
            _begin(directory, file, identity)
        return cls(directory, unseal(content_of(file), file))

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
        file = self.directory / "identity.json"
        content = seal({"format": FORMAT, _QUERY: self.query, **identity})
        with explained("write", file):
            write_whole(file, [content])
        self.identity = unseal(content, file)

    # --- lock ------------------------------------------------------------------------------------

    def lock(self, clock: Callable[[], float] = time.time) -> Lock:
        """Keep every other driver out, until it is released or this process ends.

        A second driver gets an `InputError` that names the holder. The lock is advisory and bound to
        the open file, so no stale lock is left behind by a crash.
        """
        file = self.directory / "lock"
        with explained("lock", file):
            descriptor = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            with explained("lock", file):
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(clock()))
                holder = {"pid": os.getpid(), "host": socket.gethostname(), "since": now}
                os.ftruncate(descriptor, 0)
                os.pwrite(descriptor, json.dumps(holder).encode(), 0)
        except CheckpointError as error:
            held = os.pread(descriptor, 4096, 0)
            os.close(descriptor)
            cause = error.__cause__
            if isinstance(cause, OSError) and cause.errno in (errno.EWOULDBLOCK, errno.EACCES):
                raise InputError(
                    f"the checkpoint {self.directory.parent} is in use by {_holder(held)}; stop that "
                    "query first, or give this one a checkpoint of its own"
                ) from None
            raise
        return Lock(descriptor)

    # --- manifests -------------------------------------------------------------------------------

    def batches(self) -> list[int]:
        """The batches whose manifests are kept, oldest first."""
        with explained("list", self._manifests):
            names = os.listdir(self._manifests)
        return sorted(int(match[1]) for name in names if (match := _MANIFEST.fullmatch(name)))

    def last(self) -> Manifest | None:
        """The manifest committed last; None before the first."""
        batches = self.batches()
        return self.manifest(batches[-1]) if batches else None

    def manifest(self, batch: int) -> Manifest:
        """The manifest of a batch that is kept; `DamagedState` if it is not what was written."""
        if batch not in self._known:
            file = self.manifest_file(batch)
            self._known[batch] = load(content_of(file), file)
        return self._known[batch]

    def manifest_file(self, batch: int) -> Path:
        return self._manifests / f"{batch:010d}.json"

    def commit(self, manifest: Manifest) -> None:
        """Make a batch count, in one step.

        Guarantee: after it returns, the batch survives a crash of the machine; if it raises, or the
        process dies within, the batch is committed as a whole or not at all. The same manifest may be
        committed twice; another one for the same batch is `AlreadyCommitted`.
        """
        check_whole("the batch", manifest.batch, 0)
        file, content = self.manifest_file(manifest.batch), dump(manifest)
        latest = max(self.batches(), default=-1)
        if manifest.batch < latest and not file.exists():
            raise AlreadyCommitted(
                f"batch {manifest.batch} was committed to {self.directory.parent} long ago: batch "
                f"{latest} is; is an older query still running on this checkpoint?"
            )
        with explained("write", file):
            try:
                write_whole(file, [content], replace=False)
            except FileExistsError:
                if file.read_bytes() == content:
                    sync_directory(file.parent)  # whoever put it there may not have come to that
                    return
                raise AlreadyCommitted(
                    f"batch {manifest.batch} is already committed to {file} with another content; "
                    "is a second query running on this checkpoint?"
                ) from None

    # --- cleaning up -----------------------------------------------------------------------------

    def retain(self, keep: int = 10) -> list[int]:
        """Drop all but the newest `keep` manifests; returns the batches dropped."""
        check_whole("the number of manifests to keep", keep, 1)
        dropped = self.batches()[:-keep]
        for batch in dropped:  # oldest first, so that what is kept has no holes after a crash
            file = self.manifest_file(batch)
            with explained("delete", file):
                file.unlink(missing_ok=True)
            self._known.pop(batch, None)
        return dropped

    def collect_garbage(self) -> list[str]:
        """Delete the segment files that no kept manifest names; returns their names.

        Files of batches that are not committed yet stay: a task may just be writing them. If a kept
        manifest cannot be read, nothing is deleted.
        """
        batches = self.batches()
        if not batches:
            return []
        named = {s.file for batch in batches for s in self.manifest(batch).segments}
        removed = []
        for directory in (self.segments_directory, self._manifests):
            with explained("clean up", directory):
                for name in os.listdir(directory):
                    if _is_garbage(name, named, batches[-1]):
                        (directory / name).unlink(missing_ok=True)
                        removed.append(name)
        return sorted(removed)


def content_of(file: Path) -> bytes:
    """All of a small file, or a `CheckpointError`."""
    with explained("read", file):
        return file.read_bytes()


def _is_garbage(name: str, named: set[str], latest: int) -> bool:
    if name in named:
        return False
    batch = batch_of(name)
    if batch is None and name.endswith(TEMPORARY):
        batch = int(digits[0]) if (digits := re.match(r"\d{10,}", name)) else None
    return batch is not None and batch <= latest


def _begin(directory: Path, file: Path, identity: Mapping[str, Any]) -> None:
    with explained("create", directory):
        for name in ("manifests", "segments"):
            (directory / name).mkdir(parents=True, exist_ok=True)
        sync_directory(directory)
    if any((directory / "manifests").glob("*.json")):
        raise CheckpointError(
            f"{directory} holds committed batches, but its identity.json is missing; restore it from "
            "a backup, or start anew with an empty checkpoint"
        )
    # Another process may begin it at the same moment: then its identity counts.
    with explained("write", file), suppress(FileExistsError):
        content = seal({"format": FORMAT, _QUERY: uuid4().hex, **identity})
        write_whole(file, [content], replace=False)


def _shown(identity: Mapping[str, Any], name: str) -> str:
    if name not in identity:
        return "nothing"
    return json.dumps(identity[name], ensure_ascii=False, sort_keys=True)


def _holder(content: bytes) -> str:
    try:
        holder = json.loads(content)
        return f"process {holder['pid']} on {holder['host']} since {holder['since']}"
    except (ValueError, KeyError, TypeError):
        return "another process"
