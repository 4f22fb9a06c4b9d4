"""The lease of a checkpoint: one driver at a time, and what becomes of one that was not heard of.

A driver begins by a takeover in the sequence of records (`state.records`), which alone decides who may
commit. The lease tells others that it lives: an object `lease/FENCE.json` that it writes again and
again. Only if neither that object nor the sequence has changed for the lease's whole time, by the clock
of the one who waits, may another take over. No clock is compared with another machine's.
"""

from __future__ import annotations

import json
import logging
import re
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict
from typing import Any, Self
from uuid import uuid4

from evenflow.model import InputError, shapes
from evenflow.model.processes import alive, identity, stopped
from evenflow.state.errors import CheckpointError, LostLease, explained
from evenflow.state.records import MOST_SECONDS, Takeover
from evenflow.storage import Storage

LEASES = "lease/"
SECONDS = 30.0  #: that a driver must not be heard of before another takes over
_BEATS = 6  # in that time
_COMPANION = "companion"  # of a holder: a process that works for it
_POLL = 0.1  # seconds
_NAME = re.compile(r"lease/[0-9]{10,}\.json")
_LOG = logging.getLogger("evenflow.query")

Clock = Callable[[], float]


class Lease:
    """The right to commit to a checkpoint, kept until `release`, or until another driver takes over.

    Guarantee: `confirm` raises `LostLease` once another driver has taken over and this one was not
    heard of for the lease's time.

    Parameters:
        storage: the checkpoint's.
        takeover: what the driver said of itself.
        newest_fence: gives that of the newest record.
        clock: gives seconds, also while this process is stopped.
    """

    def __init__(
        self,
        storage: Storage,
        takeover: Takeover,
        newest_fence: Callable[[], int],
        clock: Clock = time.monotonic,
    ) -> None:
        self.fence, self.token, self.seconds = takeover.fence, takeover.token, takeover.seconds
        #: whether the work that it is held for goes on; once it does not, this process may take over
        self.in_use: Callable[[], bool] = lambda: True
        self._storage, self._takeover, self._clock = storage, takeover, clock
        self._newest_fence = newest_fence
        self._heard = clock()  # when others last could see that this driver lives
        self._beats = 0
        self._released = threading.Event()
        self._guard = threading.Lock()
        _living[self.token] = self

    @property
    def held(self) -> bool:
        """Whether it is not released yet."""
        return not self._released.is_set()

    def beat(self) -> None:
        """Show that this driver lives, if no other has taken over."""
        self.confirm()
        with self._guard:
            if not self.held:
                return
            now = self._clock()
            self._put({"beat": self._beats})
            self._beats += 1
            self._heard = now

    def keep_beating(self) -> None:
        """Have a thread do it until the lease is released or this process ends."""
        threading.Thread(target=self._keep_beating, name="evenflow lease", daemon=True).start()

    def overdue(self) -> bool:
        """Whether another driver may have taken over meanwhile."""
        return self._clock() - self._heard >= self.seconds

    def taken_over(self) -> LostLease | None:
        """The error of a driver that another one has taken over from; None if none has."""
        return lost(self._storage) if self._newest_fence() != self.fence else None

    def confirm(self) -> None:
        """Raise `LostLease` if another driver has taken over; asks only if that may be."""
        if self.overdue():
            now = self._clock()
            if (error := self.taken_over()) is not None:
                raise error
            self._heard = now

    def release(self) -> None:
        """Let others in at once. A second call does nothing."""
        with self._guard:
            if not self.held:
                return
            self.abandon()
            # Whoever comes next waits for the lease's time if this cannot be written.
            with suppress(OSError):
                self._put({"released": True})

    def abandon(self) -> None:
        """Hold it no longer, without a word: as if this process had died."""
        self._released.set()
        _living.pop(self.token, None)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()

    def _put(self, what: Mapping[str, Any]) -> None:
        content = json.dumps({**asdict(self._takeover), **what}).encode()
        self._storage.put(lease_name(self.fence), [content])

    def _keep_beating(self) -> None:
        while not self._released.wait(self.seconds / _BEATS):
            try:
                self.beat()
            except LostLease as error:
                _LOG.error("%s", error)
                return
            except (OSError, CheckpointError) as error:
                _LOG.warning("the lease of %s: %s", self._storage.where(), error)


_living: dict[str, Lease] = {}  # of this process, by their tokens


def lease_name(fence: int) -> str:
    """The name of a driver's lease in the checkpoint's storage."""
    return f"{LEASES}{fence:010d}.json"


def old_leases(storage: Storage, fence: int) -> list[str]:
    """The names of the leases of drivers before this one."""
    return [name for name in storage.list(LEASES) if name < lease_name(fence)]


def newest_lease(storage: Storage) -> dict[str, Any] | None:
    """What the driver that came last says of itself; None if no driver has begun."""
    with explained("list", storage.where(LEASES)):
        names = storage.list(LEASES)
    fences = [int(name[len(LEASES) : -len(".json")]) for name in names if _NAME.fullmatch(name)]
    return _read(storage, max(fences)) if fences else None


def driver_state(lease: Mapping[str, Any]) -> str:
    """What its lease says of a driver: "stopped", "running", "ended" without a word, or "unknown",
    which is a driver on another machine: it runs as long as its lease changes."""
    if lease.get("released"):
        return "stopped"
    if _has_ended(lease):
        return "ended"
    return "running" if _is_at_work(lease) else "unknown"


def new_holder(
    wall_clock: Clock = time.time, companion: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """This process, as others see it, and another one that works for it."""
    since = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(wall_clock()))
    also = {} if companion is None else {_COMPANION: dict(companion)}
    return {**identity(), "since": since, **also}


def new_token() -> str:
    return uuid4().hex


def wait_until_free(
    storage: Storage,
    fence: int,
    takeover: Mapping[str, Any] | None,
    changed: Callable[[], bool],
    clock: Clock = time.monotonic,
    sleep: Callable[[float], object] = time.sleep,
) -> None:
    """Return once the driver with this number has ended, or was not heard of for its lease's time.

    Raises `InputError` as soon as it shows that it lives.

    Parameters:
        storage: the checkpoint's.
        fence: the number of the driver.
        takeover: what it said when it began, as long as nothing else is known of it.
        changed: whether a record was added since.
    """
    if not fence:
        return  # whoever committed had no lease
    first = _read(storage, fence)
    lease = first or takeover or {}
    if lease.get("released"):
        return
    if _has_ended(lease):
        _wait_for_companion(lease, clock, sleep)
        return
    if _is_at_work(lease):
        raise in_use(storage, lease)
    seconds = float(lease.get("seconds", SECONDS))
    _LOG.info("%s: waiting %g s for a sign of %s", storage.where(), seconds, described(lease))
    began = clock()
    while clock() - began < seconds:
        sleep(min(seconds / 20, 0.5))
        now = _read(storage, fence)
        if now is not None and now.get("released"):
            return
        if now != first or changed():
            raise in_use(storage, now or lease)


def in_use(storage: Storage, lease: Mapping[str, Any]) -> InputError:
    """The error of a driver that finds another one at work."""
    return InputError(
        f"the checkpoint {_location(storage)} is in use by {described(lease)}; stop that query first, "
        "or give this one a checkpoint of its own"
    )


def lost(storage: Storage) -> LostLease:
    """The error of a driver that was taken over."""
    return LostLease(
        f"another driver has taken over the checkpoint {_location(storage)}, because this one was not "
        "heard of for longer than its lease; this one stops, and nothing of its batch counts. Nothing "
        "is lost: the other one goes on with it"
    )


def described(lease: Mapping[str, Any]) -> str:
    """The holder of a lease, in words."""
    holder = lease.get("holder", {})
    try:
        return f"process {holder['pid']} on {holder['host']} since {holder['since']}"
    except (KeyError, TypeError):
        return "another process"


def _has_ended(lease: Mapping[str, Any]) -> bool:
    """Whether this machine knows that the holder is gone."""
    holder = lease.get("holder", {})
    if not holder or alive(holder) is None:
        return False
    if not alive(holder):
        return True
    if holder["pid"] != identity()["pid"]:
        return False
    mine = _living.get(str(lease.get("token")))
    return mine is None or not mine.in_use()


def _wait_for_companion(
    lease: Mapping[str, Any], clock: Clock, sleep: Callable[[float], object]
) -> None:
    """Wait, at most for the lease's time, until what a killed driver has left running has ended."""
    holder = lease.get("holder", {})
    left = holder.get(_COMPANION)
    if not left or alive(holder) is not False:
        return  # unknown; or in this process, with which it goes on
    began, seconds = clock(), float(lease.get("seconds", SECONDS))
    while alive(left):
        if clock() - began >= seconds:
            _LOG.warning(
                "process %s of the driver before this one still runs, after %g s; if it still works on "
                "the checkpoint, Spark will stop one of the two",
                left["pid"],
                seconds,
            )
            return
        sleep(_POLL)


def _is_at_work(lease: Mapping[str, Any]) -> bool:
    """Whether this machine knows that the holder runs; one that was stopped may be taken over."""
    holder = lease.get("holder", {})
    return bool(holder) and alive(holder) is True and not stopped(holder)


def _read(storage: Storage, fence: int) -> dict[str, Any] | None:
    name = lease_name(fence)
    with explained("read", storage.where(name)):
        try:
            found = json.loads(storage.read(name))
        except (FileNotFoundError, ValueError, RecursionError):
            return None
    return found if _SHAPE(found, "it") is None else None


_SHAPE = shapes.fields(
    {},
    {
        "holder": shapes.mapping(shapes.anything),
        "seconds": shapes.number(0, MOST_SECONDS),
        "token": shapes.text,
    },
)


def _location(storage: Storage) -> str:
    return storage.where().rpartition("/")[0]
