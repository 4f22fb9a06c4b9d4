"""Nodes that serve the tuples of their operators in the order in which they come, event by event.

A node has one queue, shared by its operators, and serves one tuple at a time. What a tuple leaves
behind is at the next operator at once. An operator that is being moved is suspended: the tuple that its
node is serving is finished, all others of it wait, and join the queue of its new node when it resumes.

How many tuples the i-th tuple of an operator leaves is drawn by its number i: it does not depend on
when it was served. At the same moment, services end before tuples arrive, nodes by number.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from evenflow.kernels.jit import inlined, kernel
from evenflow.kernels.mixing import salt
from evenflow.simulator.workloads.drawing import random_word, unit
from evenflow_lab.simulators.operator_networks import OperatorNetwork

F64 = npt.NDArray[np.float64]
I32 = npt.NDArray[np.int32]
I64 = npt.NDArray[np.int64]

_ROLE = 301  # keeps these draws apart from other random numbers of the seed
_SLOTS = 1 << 12
_FREE, _READ = range(2)  # `counters`: slots that are free, arrivals that have been read
LATENCY, WORK, TUPLES = range(3)  # `sums`, of the tuples that have left the network


class _Network(NamedTuple):
    cost: F64
    selectivity: F64
    start: I32  #: where the targets of each operator begin
    target: I32
    salt: npt.NDArray[np.uint64]


class _Slots(NamedTuple):
    """Tuples that are somewhere in the network; slots are used again."""

    birth: F64
    work: F64  #: service that it has had, and its forebears
    operator: I32
    following: I32
    free: I32


class _Nodes(NamedTuple):
    where: I32  #: the node of each operator
    held: npt.NDArray[np.bool_]  #: operators that are being moved
    held_first: I32
    held_last: I32
    first: I32  #: the queue of each node
    last: I32
    serving: I32  #: the slot that is being served, −1 for none
    done: F64  #: when
    speed: F64
    busy: F64  #: seconds of service that have begun
    tree: I32  #: a tournament of the earliest `done`
    served: I64  #: tuples of each operator


class OperatorQueues:
    """The queues of some nodes, and all tuples in them.

    Guarantee: exact: no step in time, and nothing depends on how far `run` goes at a time. Memory
    grows with the tuples in the network, not with those that have gone through it.

    Parameters:
        network: the operators.
        where: the node of each operator.
        speeds: of each node; a tuple takes its operator's cost over this.
        seed: of how many tuples come out.

    Example:
        >>> network = OperatorNetwork.chains(1, length=2, cost=1.0, selectivity=(1.0, 1.0))
        >>> queues = OperatorQueues(network, [0, 1], [1.0, 1.0])
        >>> queues.arrive(np.array([0.0, 0.5]), np.array([0, 0]))
        >>> queues.run(10.0)
        >>> queues.take_sums().tolist()
        [4.5, 4.0, 2.0]
    """

    def __init__(
        self,
        network: OperatorNetwork,
        where: npt.ArrayLike,
        speeds: npt.ArrayLike,
        seed: int = 0,
    ) -> None:
        operators, n = len(network), len(np.asarray(speeds))
        flat = [target for targets in network.targets for target in targets]
        sizes = [len(targets) for targets in network.targets]
        self._inputs = network.inputs
        self._network = _Network(
            network.cost,
            network.selectivity,
            np.concatenate(([0], np.cumsum(sizes))).astype(np.int32),
            np.array(flat, np.int32),
            np.array([salt(seed, _ROLE, o) for o in range(operators)], np.uint64),
        )
        leaves = 1 << max(n - 1, 0).bit_length()
        self._nodes = _Nodes(
            where=np.array(where, np.int32),
            held=np.zeros(operators, np.bool_),
            held_first=np.full(operators, -1, np.int32),
            held_last=np.full(operators, -1, np.int32),
            first=np.full(n, -1, np.int32),
            last=np.full(n, -1, np.int32),
            serving=np.full(n, -1, np.int32),
            done=np.full(n, np.inf),
            speed=np.array(speeds, np.float64),
            busy=np.zeros(n),
            tree=np.zeros(2 * leaves, np.int32),
            served=np.zeros(operators, np.int64),
        )
        _start_tournament(self._nodes)
        # As many as one event can make: the check is then one comparison.
        most = np.ceil(network.selectivity) * np.maximum(sizes, 1) if operators else np.zeros(1)
        self._room = int(most.max()) + 2
        self._slots = _new_slots(max(_SLOTS, 2 * self._room))
        self._counters = np.array([len(self._slots.free), 0], np.int64)
        self._sums: F64 = np.zeros(3)
        self._times: F64 = np.zeros(0)
        self._operators: I32 = np.zeros(0, np.int32)

    @property
    def where(self) -> I32:
        """The node of each operator; of one that is being moved, that it comes to."""
        return self._nodes.where

    @property
    def suspended(self) -> npt.NDArray[np.bool_]:
        """Which operators are being moved."""
        return self._nodes.held

    @property
    def busy(self) -> F64:
        """Seconds of service of each node so far."""
        return self._nodes.busy

    def waiting(self) -> int:
        """Tuples that are in the network."""
        return len(self._slots.free) - int(self._counters[_FREE])

    def arrive(self, times: F64, streams: npt.ArrayLike) -> None:
        """All further tuples of the input streams, by time."""
        self._times = np.concatenate((self._times[self._counters[_READ] :], times))
        operators = self._inputs[np.asarray(streams, np.int32)]
        self._operators = np.concatenate((self._operators[self._counters[_READ] :], operators))
        self._counters[_READ] = 0

    def run(self, until: float) -> None:
        """Everything that happens before this moment."""
        while not _run(
            self._network,
            self._nodes,
            self._slots,
            self._times,
            self._operators,
            self._counters,
            self._sums,
            self._room,
            until,
        ):
            self._grow()

    def suspend(self, operators: npt.ArrayLike, nodes: npt.ArrayLike) -> None:
        """These operators leave for these nodes: from now on their tuples wait."""
        for operator, node in zip(np.asarray(operators), np.asarray(nodes), strict=True):
            _suspend(self._nodes, self._slots, operator, node)

    def resume(self, operators: npt.ArrayLike, now: float) -> None:
        """These operators have come to their nodes; what waited for them joins the queues there."""
        for operator in np.asarray(operators):
            _resume(self._network, self._nodes, self._slots, operator, now)

    def take_sums(self) -> F64:
        """Of the tuples that have left since the last call: latencies, services and how many."""
        sums = self._sums.copy()
        self._sums[:] = 0
        return sums

    def _grow(self) -> None:
        old = self._slots
        size = len(old.free)
        new = _new_slots(2 * size)
        for name in ("birth", "work", "operator", "following"):
            getattr(new, name)[:size] = getattr(old, name)
        free = int(self._counters[_FREE])
        new.free[:free] = old.free[:free]
        new.free[free : free + size] = np.arange(size, 2 * size)
        self._counters[_FREE] = free + size
        self._slots = new


def _new_slots(size: int) -> _Slots:
    return _Slots(
        np.zeros(size),
        np.zeros(size),
        np.zeros(size, np.int32),
        np.full(size, -1, np.int32),
        np.arange(size, dtype=np.int32),
    )


# --- kernels --------------------------------------------------------------------------------------


@inlined
def _earlier(nodes, a, b):  # type: ignore[no-untyped-def]
    """The node of two that is done first, where −1 is none and a comes before b."""
    if b < 0 or (a >= 0 and nodes.done[a] <= nodes.done[b]):
        return a
    return b


@kernel
def _start_tournament(nodes):  # type: ignore[no-untyped-def]
    leaves = len(nodes.tree) // 2
    for node in range(leaves):
        nodes.tree[leaves + node] = node if node < len(nodes.done) else -1
    for i in range(leaves - 1, 0, -1):
        nodes.tree[i] = _earlier(nodes, nodes.tree[2 * i], nodes.tree[2 * i + 1])


@inlined
def _set_done(nodes, node, time):  # type: ignore[no-untyped-def]
    nodes.done[node] = time
    i = (len(nodes.tree) // 2 + node) // 2
    while i:
        nodes.tree[i] = _earlier(nodes, nodes.tree[2 * i], nodes.tree[2 * i + 1])
        i //= 2


@inlined
def _begin(network, nodes, slots, node, now):  # type: ignore[no-untyped-def]
    """The node serves the first of its queue, if there is one."""
    slot = nodes.first[node]
    nodes.serving[node] = slot
    if slot < 0:
        _set_done(nodes, node, np.inf)
        return
    nodes.first[node] = slots.following[slot]
    if nodes.first[node] < 0:
        nodes.last[node] = -1
    service = network.cost[slots.operator[slot]] / nodes.speed[node]
    nodes.busy[node] += service
    slots.work[slot] += service
    _set_done(nodes, node, now + service)


@inlined
def _join(network, nodes, slots, slot, now):  # type: ignore[no-untyped-def]
    """A tuple joins the queue of its operator's node, or waits for the operator."""
    operator = slots.operator[slot]
    slots.following[slot] = -1
    if nodes.held[operator]:
        if nodes.held_first[operator] < 0:
            nodes.held_first[operator] = slot
        else:
            slots.following[nodes.held_last[operator]] = slot
        nodes.held_last[operator] = slot
        return
    node = nodes.where[operator]
    if nodes.first[node] < 0:
        nodes.first[node] = slot
    else:
        slots.following[nodes.last[node]] = slot
    nodes.last[node] = slot
    if nodes.serving[node] < 0:
        _begin(network, nodes, slots, node, now)


@inlined
def _new_tuple(network, nodes, slots, counters, operator, birth, work, now):  # type: ignore[no-untyped-def]
    counters[_FREE] -= 1
    slot = slots.free[counters[_FREE]]
    slots.birth[slot], slots.work[slot], slots.operator[slot] = birth, work, operator
    _join(network, nodes, slots, slot, now)


@kernel
def _run(network, nodes, slots, times, operators, counters, sums, room, until):  # type: ignore[no-untyped-def]
    """Events before `until`; False if there is no room for more tuples."""
    while True:
        node = nodes.tree[1]
        ends = nodes.done[node]
        read = counters[_READ]
        arrives = times[read] if read < len(times) else np.inf
        now = min(ends, arrives)
        if not now < until:
            return True
        if counters[_FREE] < room:
            return False
        if arrives < ends:
            counters[_READ] = read + 1
            _new_tuple(network, nodes, slots, counters, operators[read], now, 0.0, now)
            continue
        slot = nodes.serving[node]
        operator = slots.operator[slot]
        birth, work = slots.birth[slot], slots.work[slot]
        draw = unit(random_word(network.salt[operator], nodes.served[operator]))
        nodes.served[operator] += 1
        amount = int(np.floor(network.selectivity[operator] + draw))
        first, end = network.start[operator], network.start[operator + 1]
        for _ in range(amount):
            for i in range(first, end):
                _new_tuple(network, nodes, slots, counters, network.target[i], birth, work, now)
            if first == end:
                sums[LATENCY] += now - birth
                sums[WORK] += work
                sums[TUPLES] += 1
        slots.free[counters[_FREE]] = slot
        counters[_FREE] += 1
        _begin(network, nodes, slots, node, now)


@kernel
def _suspend(nodes, slots, operator, node):  # type: ignore[no-untyped-def]
    """Take the operator's tuples out of its node's queue, in their order."""
    old = nodes.where[operator]
    nodes.held[operator], nodes.where[operator] = True, node
    before, slot = np.int32(-1), nodes.first[old]
    while slot >= 0:
        following = slots.following[slot]
        if slots.operator[slot] != operator:
            before = slot
        else:
            if before < 0:
                nodes.first[old] = following
            else:
                slots.following[before] = following
            if following < 0:
                nodes.last[old] = before
            slots.following[slot] = -1
            if nodes.held_first[operator] < 0:
                nodes.held_first[operator] = slot
            else:
                slots.following[nodes.held_last[operator]] = slot
            nodes.held_last[operator] = slot
        slot = following


@kernel
def _resume(network, nodes, slots, operator, now):  # type: ignore[no-untyped-def]
    slot = nodes.held_first[operator]
    nodes.held[operator] = False
    nodes.held_first[operator] = nodes.held_last[operator] = -1
    while slot >= 0:
        following = slots.following[slot]
        _join(network, nodes, slots, slot, now)
        slot = following
