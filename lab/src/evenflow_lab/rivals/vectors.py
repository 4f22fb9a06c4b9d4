"""Keys alike as one row, and a plan for rows expanded back to keys.

The compact representation of "Parallel stream processing against workload skewness and variance",
§IV: a vector (d′, d, d_h, v_c, v_S, #) stands for # keys that are on worker d, have their home on d_h,
cost about v_c each and have about v_S bytes of state each. Here d, d_h, v_c and v_S are a row of
`Statistics`, # stands in `counts`, and d′ is what a plan says.

Nothing here depends on the order of the rows, and yet a million of them need not be sorted: sums are
made of whole numbers, and only keys of vectors that are divided are taken in the order of keys.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from evenflow.kernels.jit import inlined, kernel
from evenflow.kernels.mixing import mix
from evenflow.planning.protocol import F64, I32, U64, Booleans, Statistics
from evenflow_lab.rivals.half_linear import (
    check_degree,
    exponent_of,
    level_of,
    rounded,
    unit_and_largest,
)

I64 = npt.NDArray[np.int64]

_EMPTY = -1
_FULL = -1
_FEW = 1 << 16  #: vectors there is room for at first: what fits into a cache is found faster
_ODD = np.uint64(0x9E3779B97F4A7C15)
_HALF = np.uint64(32)
_LOW = np.uint64(0xFFFFFFFF)
_FRACTIONS = 2.0**20  #: errors are added up in whole parts of a unit
VALUES, PLACES, COST, STATE, COUNT = range(5)  #: columns of what is known of a vector
_COLUMNS = 8  #: a cache line


class Vectors(NamedTuple):
    """Keys, put together where they are alike.

    Parameters:
        rows: one row per vector; its `keys` say in which order vectors come.
        counts: #, how many keys each stands for.
        vector: of every key, the row that stands for it.
        deviation: what a vector's keys together cost more than it says.
        unit: in which costs were discretized.
    """

    rows: Statistics
    counts: I64
    vector: I32
    deviation: F64
    unit: float


def vectors_of(statistics: Statistics, degree: int, greedy: bool = False) -> Vectors:
    """The vectors of all keys.

    Keys with the same workers, whose cost and state lie between the same two representatives of the
    discretization, are one vector; its v_c and v_S are the averages of its keys.

    Guarantee: the costs of a vector are those of its keys together; only of a part of them it may err.

    Parameters:
        statistics: of the keys.
        degree: R, a power of two.
        greedy: v_c and v_S are representatives, to which keys were rounded greedily, as in §IV-B.
            Each worker, and each part of the discretization (`half_linear.level_of`), then has its
            own accumulated deviation, as if every worker had reported its own keys: the costs of a
            worker's vectors are right but for R units.

    Example:
        >>> seen = Statistics.of(costs=[4, 4, 5, 7, 9], worker=[0, 0, 0, 0, 1])
        >>> vectors = vectors_of(seen, degree=4)
        >>> vectors.rows.costs.tolist(), vectors.counts.tolist(), vectors.vector.tolist()
        ([5.0, 9.0], [4, 1], [0, 0, 0, 0, 1])
    """
    check_degree(degree)
    costs, state = statistics.costs, statistics.state
    (cost_unit, largest_cost), (state_unit, largest_state) = (
        unit_and_largest(values, degree) for values in (costs, state)
    )
    if greedy:
        costs = _rounded_greedily(statistics, costs, cost_unit, degree)
        state = _rounded_greedily(statistics, state, state_unit, degree)
    vector = np.empty(len(costs), np.int32)
    cost_scale = _scale(largest_cost / cost_unit + degree, len(costs))
    state_scale = _scale(largest_state / state_unit + degree, len(costs))
    found, room = _FULL, _FEW
    while found == _FULL:
        known = np.empty((room, _COLUMNS), np.uint64)
        found = _group(
            *(costs, costs.view(np.int64), exponent_of(cost_unit), cost_scale),
            *(state, state.view(np.int64), exponent_of(state_unit), state_scale),
            *(statistics.worker, statistics.home, exponent_of(degree)),
            *(np.full(2 * room, _EMPTY, np.int32), known, vector),
        )
        room *= 8
    known = known[:found]
    counts = known[:, COUNT].astype(np.int64)
    rank = np.empty(found, np.uint64)
    rank[np.lexsort((known[:, VALUES], known[:, PLACES]))] = np.arange(found, dtype=np.uint64)
    rows = Statistics(
        keys=rank,
        costs=known[:, COST] / counts * (cost_unit / cost_scale),
        state=known[:, STATE] / counts * (state_unit / state_scale),
        worker=(known[:, PLACES] & _LOW).astype(np.int32),
        home=(known[:, PLACES] >> _HALF).astype(np.int32),
    )
    deviation = np.zeros(found)
    if greedy:
        deviation = np.bincount(vector, statistics.costs, found) - counts * rows.costs
    return Vectors(rows, counts, vector, deviation, cost_unit)


def _scale(largest: float, keys: int) -> float:
    """By what units are multiplied to be added up as whole numbers, all of them within 62 bits."""
    return 2.0 ** min(max(61 - int(largest).bit_length() - keys.bit_length(), 0), 32)


def _rounded_greedily(statistics: Statistics, values: F64, unit: float, degree: int) -> F64:
    """φ of every value: by ascending key, each worker and part for itself."""
    workers, levels = int(statistics.worker.max(initial=-1)) + 1, exponent_of(degree) + 2
    out = np.empty(len(values))
    _round_greedily(
        *(values, values.view(np.int64), exponent_of(unit), exponent_of(degree)),
        *(np.argsort(statistics.keys), statistics.worker, np.zeros((workers, levels)), out),
    )
    return out


@kernel
def _round_greedily(
    values: F64,
    bits: I64,
    unit: int,
    degree: int,
    order: I64,
    workers: I32,
    deviation: F64,
    out: F64,
) -> None:
    per_unit = 2.0**-unit
    for k in order:
        d, x, level = workers[k], values[k] * per_unit, level_of(bits[k], unit, degree)
        whole = rounded(x, level, deviation[d, level + 1])
        deviation[d, level + 1] += x - whole
        out[k] = whole / per_unit


@inlined
def _below(x: float, level: int) -> np.uint64:
    """The representative below x, or x itself if it is one."""
    return np.uint64(np.int64(x) & ~((np.int64(1) << max(level, 0)) - 1))


@kernel
def _group(
    costs: F64,
    cost_bits: I64,
    cost_unit: int,
    cost_scale: float,
    states: F64,
    state_bits: I64,
    state_unit: int,
    state_scale: float,
    workers: I32,
    homes: I32,
    degree: int,
    slots: I32,
    known: U64,
    vector: I32,
) -> int:
    """Number the vectors as they come up: `vector` of each key, and in `known`, of each vector, the
    two representatives in units and the two workers, each pair packed into a word, the sums of costs
    and of state, and the number of keys. How many there are comes back, or that they are too many.

    Units and the degree are exponents of two. `slots` is a hash table, at most half full.
    """
    per_cost, per_state = 2.0**-cost_unit, 2.0**-state_unit
    found, mask = 0, np.uint64(len(slots) - 1)
    for k in range(len(costs)):
        x, y = costs[k] * per_cost, states[k] * per_state
        cost = _below(x, level_of(cost_bits[k], cost_unit, degree))
        state = _below(y, level_of(state_bits[k], state_unit, degree))
        value = cost | (state << _HALF)
        place = np.uint64(workers[k]) | (np.uint64(homes[k]) << _HALF)
        slot = mix(value * _ODD + place) & mask
        v = slots[slot]
        while v != _EMPTY and not ((known[v, VALUES] == value) & (known[v, PLACES] == place)):
            slot = (slot + np.uint64(1)) & mask
            v = slots[slot]
        if v == _EMPTY:
            if found == len(known):
                return _FULL
            v = slots[slot] = found
            known[v, VALUES], known[v, PLACES] = value, place
            known[v, COST] = known[v, STATE] = known[v, COUNT] = 0
            found += 1
        known[v, COST] += np.uint64(x * cost_scale + 0.5)
        known[v, STATE] += np.uint64(y * state_scale + 0.5)
        known[v, COUNT] += np.uint64(1)
        vector[k] = v
    return found


class Moves(NamedTuple):
    """What a plan says of vectors.

    Parameters:
        stays: the worker of each vector's keys, but those that follow.
        rows, workers, amounts: so many keys of that vector go to that worker.
    """

    stays: I32
    rows: I32
    workers: I32
    amounts: I64


class Expanded(NamedTuple):
    """What a plan says of keys.

    Parameters:
        worker: of every key.
        loads: of every worker, what its vectors, or parts of them, cost.
        deviation: what its keys cost more than that.
    """

    worker: I32
    loads: F64
    deviation: F64


def expanded(vectors: Vectors, statistics: Statistics, moves: Moves, workers: int) -> Expanded:
    """Says which keys of a vector go where, if so many of them go to each worker.

    Any key will do for the plan, for a vector's keys are alike. Yet they are not quite: of a vector
    that is divided, a key that costs more than its vector says goes to the worker, of those with a
    place left, that has come off best so far, and one that costs less to the one that has come off
    worst. So the errors of the keys cancel out on every worker. (§IV-A selects them by ψ, by which
    the keys of a vector are alike.)

    Guarantee: of every vector, as many keys go to every worker as the plan says.

    Parameters:
        vectors: what the plan was made for.
        statistics: of the keys, as they are.
        moves: the plan.
        workers: how many there are.
    """
    found, costs = len(vectors.counts), vectors.rows.costs
    moving = np.bincount(moves.rows, moves.amounts, found).astype(np.int64)
    divided, staying = moving > 0, vectors.counts - moving
    [choosing] = np.nonzero(divided)
    loads = np.bincount(moves.stays, staying * costs, workers)
    loads += np.bincount(moves.workers, moves.amounts * costs[moves.rows], workers)
    # One more entry for those of a divided vector that stay.
    of = np.concatenate([moves.rows, choosing]).astype(np.int64)
    entries = np.argsort(of, kind="stable")
    to = np.concatenate([moves.workers, moves.stays[choosing]]).astype(np.int32)[entries]
    left = np.concatenate([moves.amounts, staying[choosing]]).astype(np.int64)[entries]
    begin = np.searchsorted(of[entries], np.arange(found + 1)).astype(np.int64)
    scale = _FRACTIONS / vectors.unit
    whole = np.where(divided, 0.0, vectors.deviation)
    errors = np.rint(np.bincount(moves.stays, whole, workers) * scale).astype(np.int64)
    worker = np.empty(len(statistics), np.int32)
    keys = np.empty(int(vectors.counts[choosing].sum()), np.int64)
    _place_whole(vectors.vector, moves.stays, divided, worker, keys)
    keys = keys[np.argsort(statistics.keys[keys])]
    _divide(keys, vectors.vector, costs, statistics.costs, scale, begin, to, left, worker, errors)
    return Expanded(worker, loads.astype(np.float64), errors / scale)


@kernel
def _place_whole(vector: I32, stays: I32, divided: Booleans, worker: I32, choosing: I64) -> None:
    """Place every key as if no vector were divided, and list those that have a choice."""
    found = 0
    for k in range(len(vector)):
        v = vector[k]
        worker[k] = stays[v]
        if divided[v]:
            choosing[found] = k
            found += 1


@kernel
def _divide(
    keys: I64,
    vector: I32,
    expected: F64,
    costs: F64,
    scale: float,
    begin: I64,
    to: I32,
    left: I64,
    worker: I32,
    errors: I64,
) -> None:
    for k in keys:
        v = vector[k]
        error = np.int64((costs[k] - expected[v]) * scale)
        best = -1
        for i in range(begin[v], begin[v + 1]):
            if left[i] and (
                best == -1
                or (error > 0 and errors[to[i]] < errors[to[best]])
                or (error < 0 and errors[to[i]] > errors[to[best]])
            ):
                best = i
        left[best] -= 1
        worker[k] = to[best]
        errors[to[best]] += error
