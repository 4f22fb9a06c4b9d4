"""The checkpoint: identity, lease, one manifest per batch, segments."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from functools import partial
from typing import Any
from uuid import uuid4

from evenflow.model.validation import check_whole
from evenflow.state import errors
from evenflow.state.errors import AlreadyCommitted, CheckpointError, explained
from evenflow.state.lease import (
    SECONDS,
    Clock,
    Lease,
    in_use,
    lease_name,
    lost,
    new_holder,
    new_token,
    old_leases,
    wait_until_free,
)
from evenflow.state.manifest import FORMAT, Manifest, seal, unseal
from evenflow.state.records import (
    RECORDS,
    TURNS,
    Place,
    Record,
    Takeover,
    content_of_record,
    counting,
    is_over,
    place_after,
    places,
    record_in,
)
from evenflow.state.segments import SEGMENTS
from evenflow.storage import Storage, storage_at, together

FOLDER = "evenflow"  #: of the checkpoint location, beside Spark's own
IDENTITY = "identity.json"
_QUERY = "query"
SCHEMA = "schema"  #: of an identity: what it says of the state's types, for machines


class Checkpoint:
    """The state of a query between its batches, in `PATH/evenflow/`.

    Guarantee: `last()` is the manifest that was committed last, whole, whenever and however the
    process that wrote it ended. A manifest that exists is never changed.

    Example:
        >>> import tempfile
        >>> checkpoint = Checkpoint.open(tempfile.mkdtemp(), {"key": ["page"], "seed": 0})
        >>> with checkpoint.acquire():
        ...     checkpoint.commit(Manifest(batch=0))
        >>> checkpoint.last().batch
        0
        >>> checkpoint.differences({"key": ["user"], "seed": 0})
        ['key: ["page"] in the checkpoint, ["user"] now']
    """

    def __init__(self, storage: Storage, identity: Mapping[str, Any]) -> None:
        self.storage = storage  #: everything lies in it, rooted at PATH/evenflow
        self.identity = identity
        self._known: dict[Place, Record] = {}  # a record never changes: read it once
        self._fence: int | None = None  # of the driver that has acquired it
        self._lease: Lease | None = None
        self._newest: tuple[Place, Record] | None = None  # all that a holder needs to know
        self._garbage: dict[str, float] = {}  # name → when it was first seen to be garbage

    def __getstate__(self) -> dict[str, Any]:
        # Another process has no part in the lease, and cannot know what is the newest record.
        return {**vars(self), "_known": {}, "_lease": None, "_newest": None, "_garbage": {}}

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
                raise errors.no_checkpoint(where)
            _begin(storage, identity)
            stored = content_of(storage, IDENTITY)
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
            for name in sorted({*self.identity, *wanted} - {_QUERY, SCHEMA})
            if _shown(self.identity, name) != _shown(wanted, name)
        ]

    def carry_over(self, identity: Mapping[str, Any]) -> None:
        """Replace the stored identity, once the caller has seen that the state still fits."""
        if self._fence is not None and self._newest_fence() != self._fence:
            raise lost(self.storage)
        content = seal({"format": FORMAT, _QUERY: self.query, **identity})
        with explained("write", self.storage.where(IDENTITY)):
            self.storage.put(IDENTITY, [content])
        self.identity = unseal(content, self.storage.where(IDENTITY))

    # --- lease -----------------------------------------------------------------------------------

    def acquire(
        self,
        seconds: float = SECONDS,
        clock: Clock = time.monotonic,
        sleep: Callable[[float], object] = time.sleep,
        holder: Callable[[], Mapping[str, Any]] = new_holder,
    ) -> Lease:
        """Become the driver that commits, until the lease is released or lost.

        A driver that has ended is known at once on the machine that it ran on; of another one it is
        believed once it was not heard of for its lease's time. If it is heard of, an `InputError`
        names it.

        Guarantee: from here on no other driver commits, however long it was stopped and whatever it
        has under way. Of several that acquire at the same moment, one does.

        Parameters:
            seconds: how long this driver must not be heard of for another to take over.
            clock, sleep: of this machine.
            holder: describes this process to others, with a companion that outlives it for a moment.
        """
        place, fence = Place(0), 0
        found = self._find_newest()
        if found is not None:
            place, fence = place_after(*found), found[1].fence
            said = asdict(found[1]) if isinstance(found[1], Takeover) else None
            changed = lambda: self._find_newest() != found  # noqa: E731
            wait_until_free(self.storage, fence, said, changed, clock, sleep)
        takeover = Takeover(fence + 1, holder(), new_token(), seconds)
        lease = Lease(self.storage, takeover, self._newest_fence, clock)
        try:
            with explained("write", self.storage.where(place.name)):
                first = self.storage.create(place.name, content_of_record(takeover))
            there = self._all_places()
            # Its place may have been cleared, had this process been stopped since it looked for it.
            if not first or there[-1] != place:
                raise in_use(self.storage, {})
            with explained("write", self.storage.where(lease_name(lease.fence))):
                lease.beat()
            with explained("delete", self.storage.where(RECORDS)):
                self.storage.delete(*(p.name for p in there[:-TURNS] if p.batch == place.batch))
            # Another driver, of another version, may have come and gone since this one has read it.
            self.identity = unseal(content_of(self.storage, IDENTITY), self.storage.where(IDENTITY))
        except BaseException:
            lease.abandon()
            raise
        self._fence, self._lease, self._newest = lease.fence, lease, (place, takeover)
        return lease

    @property
    def fence(self) -> int:
        """The number of the driver that has acquired it; 0 without a lease."""
        return self._fence or 0

    def confirm(self) -> None:
        """Raise `LostLease` if this driver has been taken over; nothing happens without a lease."""
        if self._lease is not None:
            self._lease.confirm()
        elif self._fence is not None and self._newest_fence() != self._fence:
            raise lost(self.storage)

    def _may_be_lost(self) -> bool:
        if self._lease is not None:
            return self._lease.overdue()
        return self._fence is not None  # of a lease in another process, whose time is unknown here

    def _newest_fence(self) -> int:
        found = self._find_newest()
        return 0 if found is None else found[1].fence

    # --- manifests -------------------------------------------------------------------------------

    def batches(self) -> list[int]:
        """The batches whose manifests are kept, oldest first."""
        return sorted(self.manifests())

    def manifests(self) -> dict[int, Manifest]:
        """Batch → its manifest, of all that are kept."""
        found = self.places()
        records = together(self.storage, [partial(self.record, place) for place in found])
        return {r.batch: r for r in records if isinstance(r, Manifest)}

    def last(self) -> Manifest | None:
        """The manifest committed last; None before the first; `LostLease` if it is another driver's."""
        if self._newest is not None and isinstance(self._newest[1], Manifest):
            return self._newest[1]
        for place in reversed(self.places()):
            record = self.record(place)
            if self._fence is not None and record.fence > self._fence:
                raise lost(self.storage)
            if isinstance(record, Manifest):
                return record
        return None

    def manifest(self, batch: int) -> Manifest:
        """The manifest of a batch that is kept; `DamagedState` if it is not what was written."""
        for place in self.places():
            record = self.record(place) if place.batch == batch else None
            if isinstance(record, Manifest):
                return record
        raise CheckpointError(
            f"the manifest of batch {batch} is not kept in {self.location}; "
            "`evenflow state show` says which ones are"
        )

    def commit(self, manifest: Manifest) -> None:
        """Make a batch count, in one step.

        Guarantee: after it returns, the batch survives a crash of the machine; if it raises, or the
        process dies within, the batch is committed as a whole or not at all. The same manifest may be
        committed twice; another one for the same batch is `AlreadyCommitted`. A driver that was taken
        over never commits: that is `LostLease`.
        """
        check_whole("the batch", manifest.batch, 0)
        newest = self._newest if self._newest is not None else self._find_newest()
        fence = self._fence
        if fence is None:
            fence = 0 if newest is None else newest[1].fence
        manifest = replace(manifest, fence=fence)
        place = self._place_of(manifest, newest)
        if place is None:
            return
        self._newest = None  # if the reply is lost, nobody knows
        with explained("write", self.storage.where(place.name)):
            ours = self.storage.create(place.name, content_of_record(manifest))
        # The places of old records are cleared: there, a driver that was stopped for long finds no one.
        if not ours or self._may_be_lost():
            newest = self._find_newest()
            if newest is not None and newest[1].fence > fence:
                raise lost(self.storage)
        if not ours:
            raise AlreadyCommitted(
                f"batch {manifest.batch} is already committed to {self.storage.where(place.name)} with "
                "another content; is a second query running on this checkpoint?"
            )
        self._known[place] = manifest
        if self._lease is not None:
            self._newest = (place, manifest)

    def _place_of(self, manifest: Manifest, newest: tuple[Place, Record] | None) -> Place | None:
        """Where the manifest belongs; None if it is committed already."""
        if newest is None:
            return Place(manifest.batch)
        place, record = newest
        if record.fence > manifest.fence:
            raise lost(self.storage)
        committed = place.batch if isinstance(record, Manifest) else place.batch - 1
        if manifest.batch > committed:
            # Whoever skips a batch goes on from what another driver has committed.
            if manifest.batch > committed + 1 and self._newest_fence() > manifest.fence:
                raise lost(self.storage)
            return Place(manifest.batch, place.turn + 1 if place.batch == manifest.batch else 0)
        there = self.manifest(committed) if manifest.batch == committed else None
        if there is not None and content_of_record(there) == content_of_record(manifest):
            return None
        raise AlreadyCommitted(
            f"batch {manifest.batch} is already committed to {self.location}, with another content or "
            f"long ago (batch {committed} is the last); is a second query running on this checkpoint?"
        )

    def places(self) -> list[Place]:
        """Where the records that count are, in order."""
        return counting(self._all_places())

    def _all_places(self) -> list[Place]:
        with explained("list", self.storage.where(RECORDS)):
            return places(self.storage)

    def record(self, place: Place) -> Record:
        """The record at a place; `DamagedState` if it is not what was written."""
        if place not in self._known:
            where = self.storage.where(place.name)
            self._known[place] = record_in(content_of(self.storage, place.name), place, where)
        return self._known[place]

    def _find_newest(self) -> tuple[Place, Record] | None:
        found = self.places()
        return (found[-1], self.record(found[-1])) if found else None

    # --- cleaning up -----------------------------------------------------------------------------

    def retain(self, keep: int = 10) -> list[int]:
        """Drop the records before the newest `keep` manifests; returns the batches dropped."""
        check_whole("the number of manifests to keep", keep, 1)
        self.confirm()
        found = self._all_places()
        kept = counting(found)
        if kept and isinstance(self.record(kept[-1]), Takeover):
            keep += 1  # its batch is not committed yet
        batches = {place.batch for place in kept[-keep:]}
        dropped = [place for place in found if place.batch not in batches]
        for place in dropped:  # oldest first, so that what is kept has no holes after a crash
            with explained("delete", self.storage.where(place.name)):
                self.storage.delete(place.name)
            self._known.pop(place, None)
        return sorted({place.batch for place in dropped})

    def collect_garbage(self, grace: float = 0.0, clock: Clock = time.monotonic) -> list[str]:
        """Delete the segments that no kept manifest names; returns the names deleted.

        Those of batches that are not committed yet stay: a task may just be writing them. If a kept
        manifest cannot be read, nothing is deleted.

        Parameters:
            grace: how many seconds ago it must have been garbage already, so that a slow task or
                reader that has begun with it finds it.
            clock: gives seconds.
        """
        self.confirm()
        manifests = self.manifests()
        if not manifests:
            return []
        latest, named = max(manifests), {s.name for m in manifests.values() for s in m.named()}
        with explained("clean up", self.storage.where()):
            unfinished = [*self.storage.unfinished(SEGMENTS), *self.storage.unfinished(RECORDS)]
            found = {*self.storage.list(SEGMENTS), *unfinished}
            garbage = {name for name in found - named if is_over(name, latest)}
            if self._fence is not None:
                garbage.update(old_leases(self.storage, self._fence))
            now = clock()
            self._garbage = {name: self._garbage.get(name, now) for name in garbage}
            removed = sorted(name for name, since in self._garbage.items() if now - since >= grace)
            self.storage.delete(*removed)
        return removed


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


def _begin(storage: Storage, identity: Mapping[str, Any]) -> None:
    with explained("create", storage.where()):
        if storage.list("metrics.jsonl"):
            raise errors.other_format(_location(storage), 1, FORMAT)
        if storage.list(RECORDS):
            raise CheckpointError(
                f"{storage.where()} holds committed batches, but its {IDENTITY} is missing; restore "
                "it from a backup, or start over with an empty checkpoint"
            )
        # Another process may begin it at the same moment: then its identity counts.
        storage.create(IDENTITY, seal({"format": FORMAT, _QUERY: uuid4().hex, **identity}))


def _shown(identity: Mapping[str, Any], name: str) -> str:
    found = json.dumps(identity.get(name), ensure_ascii=False, sort_keys=True)
    return found if name in identity else "nothing"
