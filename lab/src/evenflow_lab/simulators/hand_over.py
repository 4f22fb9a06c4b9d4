"""Keys on their way from one consumer to another: who waits for whom, and until when."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from evenflow.simulator.workloads.protocol import U64

F64 = npt.NDArray[np.float64]
I32 = npt.NDArray[np.int32]
I64 = npt.NDArray[np.int64]

_NOT_YET = np.inf  #: a time that is not known yet


class Joined(NamedTuple):
    """Messages (work 1) and markers (work 0), in the order in which they join their queues."""

    time: F64
    arrived: F64
    partition: I32
    work: F64
    key: U64
    set: I64  #: the set that a message belongs to, or that a marker closes; −1: nobody asks


class HandOvers:
    """Message sets in virtual time: the messages of a key between two moves.

    When a key moves, a marker closes its set in the old partition. The new set opens when the old
    consumer has come to the marker, and `seconds` later the new one knows: until then the new set's
    messages are held, and then they join the queue. A key that moves again meanwhile leaves its marker
    with the messages that are held: that set opens only when this one has been processed.

    Guarantee: a key's messages join queues, and are processed, in the order of their arrival.

    Parameters:
        seconds: from the end of the old set's processing until the new consumer knows of it.

    Attributes:
        held: messages that have waited so far; `waited`: for how many seconds, together; `longest`: and
            at most; `most`: the most that were held at a time.

    Paper: "Load balancing and generalized split state reconciliation in event driven systems", Fig. 5.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._opens: dict[int, tuple[int, float]] = {}  # key → its last set, and when that opens
        self._sets = 0
        self._waiting = _nothing()
        self._fresh = _nothing()
        self.held = self.most = 0
        self.waited = self.longest = 0.0

    def move(self, key: int, source: int, now: float, free: float) -> None:
        """A key leaves a partition, whose consumer will have done all that is in its queue when it is
        `free`. What is put from now on belongs to the next set."""
        number, opens = self._opens.get(key, (-1, 0.0))
        self._sets += 1
        if opens <= now:
            self._opens[key] = (self._sets, max(now, free) + self._seconds)
            return
        marker = Joined(
            *(np.array([opens]), np.array([now]), np.array([source], np.int32), np.zeros(1)),
            *(np.array([key], np.uint64), np.array([number])),
        )
        self._waiting = _both(self._waiting, marker)
        self._opens[key] = (self._sets, _NOT_YET)

    def put(self, keys: U64, partitions: I32, times: F64) -> None:
        """Messages that arrive, in order; everything before them has been `joined`."""
        count = len(keys)
        fresh = Joined(times, times, partitions, np.ones(count), keys, np.full(count, -1, np.int64))
        if count and self._opens:
            now = float(times[0])
            self._opens = {k: (n, at) for k, (n, at) in self._opens.items() if at > now}
        if self._opens:
            fresh = self._hold(fresh)
        self._fresh = _both(self._fresh, fresh)

    def _hold(self, fresh: Joined) -> Joined:
        """Keep the messages of sets that are not open yet; returns the others."""
        known = np.sort(np.fromiter(self._opens, np.uint64, len(self._opens)))
        place = np.minimum(np.searchsorted(known, fresh.key), len(known) - 1)
        some = np.flatnonzero(known[place] == fresh.key)
        sets = [self._opens[key] for key in known.tolist()]
        opens = np.array([at for _, at in sets])[place[some]]
        early = opens > fresh.time[some]
        some, opens = some[early], opens[early]
        numbers = np.array([n for n, _ in sets], np.int64)[place[some]]
        self._waiting = _both(self._waiting, _chosen(fresh, some)._replace(time=opens, set=numbers))
        self.held += len(some)
        self.most = max(self.most, int(self._waiting.work.sum()))
        others = np.ones(len(fresh.time), bool)
        others[some] = False
        return _chosen(fresh, others)

    def joined(self, until: float) -> tuple[float, Joined]:
        """What joins a queue by `until`, or by the first marker that somebody waits for. Returns how
        far it goes; `done` must come before the next call."""
        waiting = self._waiting
        if not len(waiting.time):
            return until, self._take_fresh(until)
        markers = waiting.time[waiting.work == 0]
        stop = min(until, float(markers.min())) if len(markers) else until
        ready = waiting.time <= stop
        # What was held comes first in a tie, as it came first.
        both = _both(_chosen(waiting, ready), self._take_fresh(stop))
        self._waiting = _chosen(waiting, ~ready)
        waits = (waiting.time - waiting.arrived)[ready & (waiting.work > 0)]
        self.waited += float(waits.sum())
        self.longest = max(self.longest, float(waits.max(initial=0.0)))
        return stop, _chosen(both, np.argsort(both.time, kind="stable"))

    def _take_fresh(self, stop: float) -> Joined:
        fresh = self._fresh
        first = int(np.searchsorted(fresh.time, stop, side="right"))
        self._fresh = _chosen(fresh, slice(first, None))
        return _chosen(fresh, slice(0, first))

    def done(self, joined: Joined, begin: F64) -> None:
        """The same again, with the moment at which consumers came to each: sets open."""
        for i in np.flatnonzero(joined.work == 0).tolist():
            key, closed = int(joined.key[i]), int(joined.set[i])
            opens = float(begin[i]) + self._seconds
            waiting = self._waiting
            later = (waiting.key == np.uint64(key)) & (waiting.set > closed)
            last, at = self._opens.get(key, (-1, 0.0))
            following = min([*waiting.set[later].tolist(), *([last] if at == _NOT_YET else [])])
            opening = later & (waiting.set == following)
            waiting.time[opening] = np.maximum(opens, waiting.arrived[opening])
            if last == following:
                self._opens[key] = (last, opens)


def _nothing() -> Joined:
    empty = np.zeros(0)
    return Joined(
        *(empty, empty, np.zeros(0, np.int32), empty, np.zeros(0, np.uint64)),
        set=np.zeros(0, np.int64),
    )


def _both(first: Joined, second: Joined) -> Joined:
    if not len(first.time):
        return second
    if not len(second.time):
        return first
    columns: list[Any] = [
        np.concatenate([getattr(first, name), getattr(second, name)]) for name in Joined._fields
    ]
    return Joined(*columns)


def _chosen(of: Joined, rows: npt.NDArray | slice) -> Joined:
    columns: list[Any] = [getattr(of, name)[rows] for name in Joined._fields]
    return Joined(*columns)
