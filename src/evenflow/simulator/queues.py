"""First come, first served: one queue per worker, and the finish time of each message.

A message's finish time is known on arrival, as no message overtakes another. So a queue of any length
is two clocks and a few counters: the first clock is when the worker will be free, the second when the
next message leaves. Between two idle times messages leave back to back, so the second clock can repeat
the same service times; exponential ones are drawn by the message's number, and are the same again.
"""

from __future__ import annotations

import numpy as np

from evenflow.kernels.jit import inlined, kernel
from evenflow.kernels.mixing import salt
from evenflow.metrics.roster import F64, I32, I64
from evenflow.simulator.cluster import CapacityPlan
from evenflow.simulator.workloads.drawing import random_word, unit
from evenflow.simulator.workloads.protocol import U64

# Columns of `clocks`, one row per worker: when it will be free, when the next message leaves, and the
# sum of latencies of its messages in this slot.
_FREE, _LEAVING, _LATENCY = range(3)
# Columns of `counts`: the eras that the two clocks are in; messages so far; the number of the next
# message to leave; how many are there, at most (see `_drain`); the most there ever were; and
# messages in this slot.
_ERA, _LEAVING_ERA, _SENT, _LEFT, _WAITING, _LONGEST, _ASSIGNED = range(7)

_ROLE = 201  # keeps the service times apart from other random numbers of the seed


class Queues:
    """One first-come-first-served queue per worker; messages are given in order of arrival.

    A message that arrives at t at worker w is done at max(t, when w is free) + 1 ÷ the capacity that w
    has when the service begins. It is in the queue, service included, from t until just before it is
    done.

    Guarantee: exact, however the stream is chunked; memory per worker, none per message.

    Parameters:
        plan: the capacities.
        exponential: service times are exponential, with the same mean, instead of constant.
        seed: of the exponential service times.

    Example:
        >>> from evenflow.simulator.arrivals import ArrivalCurve
        >>> from evenflow.simulator.cluster import Cluster
        >>> curve = ArrivalCurve("constant", messages=4)
        >>> queues = Queues(CapacityPlan(Cluster(workers=1, utilisation=2.0), curve))
        >>> queues.serve(np.zeros(4, np.int32), curve.times(0, 4)).tolist()
        [2.0, 4.0, 6.0, 8.0]
        >>> queues.lengths(5.0).tolist(), queues.longest
        ([2], 3)

    Paper: the queueing model of "Consistent Grouping", §IV.
    """

    def __init__(self, plan: CapacityPlan, exponential: bool = False, seed: int = 0) -> None:
        n = plan.capacities.shape[1]
        self._service: F64 = 1.0 / plan.capacities
        self._until = plan.until
        salts = [salt(seed, _ROLE, w) for w in range(n)] if exponential else []
        self._salts: U64 = np.array(salts, np.uint64)
        self._clocks: F64 = np.zeros((n, 3))
        self._counts: I64 = np.zeros((n, 7), np.int64)

    def serve(self, numbers: I32, times: F64) -> F64:
        """The finish times of the next messages, from their worker numbers and arrival times."""
        finish = np.empty(len(times))
        _serve(
            numbers,
            times,
            self._service,
            self._until,
            self._salts,
            self._clocks,
            self._counts,
            finish,
        )
        return finish

    def lengths(self, now: float) -> I64:
        """Messages in each queue at `now`, which must not go back or be before the last arrival."""
        _drain_all(now, self._service, self._until, self._salts, self._clocks, self._counts)
        return self._counts[:, _WAITING].copy()

    def end_slot(self) -> tuple[I64, F64]:
        """(messages, sum of their latencies) of each worker since the last call."""
        assigned, latency = self._counts[:, _ASSIGNED].copy(), self._clocks[:, _LATENCY].copy()
        self._counts[:, _ASSIGNED] = 0
        self._clocks[:, _LATENCY] = 0.0
        return assigned, latency

    @property
    def longest(self) -> int:
        """The longest queue of any worker at any time."""
        return int(self._counts[:, _LONGEST].max())

    @property
    def last_finish(self) -> float:
        """The last finish time so far."""
        return float(self._clocks[:, _FREE].max())


@inlined
def _era_at(until: F64, era: int, begin: float) -> int:
    while begin >= until[np.uint64(era)]:
        era += 1
    return era


@inlined
def _work(service: F64, salts: U64, era: int, worker: np.uint64, number: int) -> float:
    """The service time of a worker's message of that number, if its service begins in that era."""
    time: float = service[np.uint64(era), worker]
    if len(salts):
        time *= -np.log1p(-unit(random_word(salts[worker], number)))
    return time


@inlined
def _drain(
    now: float, w: np.uint64, service: F64, until: F64, salts: U64, clocks: F64, counts: I64
) -> None:
    """Remove the messages that are done by `now` from worker w's queue.

    Called only when the length matters: in between, _WAITING is an upper bound.
    """
    waiting, leaving = counts[w, _WAITING], clocks[w, _LEAVING]
    era, left = counts[w, _LEAVING_ERA], counts[w, _LEFT]
    while waiting > 0 and leaving <= now:
        waiting -= 1
        left += 1
        if waiting > 0:
            era = _era_at(until, era, leaving)
            leaving += _work(service, salts, era, w, left)
    counts[w, _WAITING], clocks[w, _LEAVING] = waiting, leaving
    counts[w, _LEAVING_ERA], counts[w, _LEFT] = era, left


@kernel
def _drain_all(now: float, service: F64, until: F64, salts: U64, clocks: F64, counts: I64) -> None:
    for w in range(len(counts)):
        _drain(now, np.uint64(w), service, until, salts, clocks, counts)


@kernel
def _serve(
    numbers: I32,
    times: F64,
    service: F64,
    until: F64,
    salts: U64,
    clocks: F64,
    counts: I64,
    finish: F64,
) -> None:
    for i in range(len(numbers)):
        w, now = np.uint64(numbers[i]), times[i]
        free, number = clocks[w, _FREE], counts[w, _SENT]
        idle = free <= now
        begin = now if idle else free
        era = _era_at(until, counts[w, _ERA], begin)
        done = begin + _work(service, salts, era, w, number)
        # The queue of an idle worker is empty: the second clock starts with this message.
        clocks[w, _LEAVING] = done if idle else clocks[w, _LEAVING]
        counts[w, _LEAVING_ERA] = era if idle else counts[w, _LEAVING_ERA]
        counts[w, _LEFT] = number if idle else counts[w, _LEFT]
        waiting = 1 if idle else counts[w, _WAITING] + 1
        clocks[w, _FREE] = done
        clocks[w, _LATENCY] += done - now
        counts[w, _ERA] = era
        counts[w, _SENT] = number + 1
        counts[w, _ASSIGNED] += 1
        counts[w, _WAITING] = waiting
        if waiting > counts[w, _LONGEST]:
            _drain(now, w, service, until, salts, clocks, counts)
            counts[w, _LONGEST] = max(counts[w, _LONGEST], counts[w, _WAITING])
        finish[i] = done
