"""Readj: keys go home where they can, then the best move or swap, again and again."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from evenflow.kernels.jit import kernel
from evenflow.model.validation import check_positive, check_whole
from evenflow.planning.key_order import in_key_order
from evenflow.planning.protocol import F64, I32, Constraints, Proposal, Statistics

I64 = npt.NDArray[np.int64]

_NONE = -1
_ROUNDING = 1e-12  #: sums of many costs are not exact
_NEGLIGIBLE = 1e-6  #: of a worker's share; an exchange that relieves less is no improvement


@dataclass(frozen=True)
class Readj:
    """Moves keys home where that overloads nobody; then takes the best single move or swap of large
    keys between an overloaded worker and another, until all are within θmax or nothing helps.

    An exchange is as good as it lowers the higher of the two workers' loads. Only keys that cost at
    least σ times the average load of a worker take part: a smaller σ finds better plans and takes
    longer. The routing table's limit is not looked at; neither is the state that moves, except to
    choose among the plans of several σ.

    Guarantee: no exchange raises the highest load of the workers. A larger table or a costlier
    migration than others need is to be expected: that is what the paper holds against it.

    Parameters:
        sigma: σ. Not given: it is searched between the smallest and the largest key, by halving on
            a logarithmic scale. Plans within θmax ask for a larger σ, others for a smaller one, the
            last trial for the smallest if nothing else has helped; the best of all comes back.
        trials: how many σ the search tries.
        most_keys: the search keeps σ so large that no more keys take part (those of equal cost
            aside): a step looks at every one of them, and Gedik's system tracks only so many.

    Example:
        >>> seen = Statistics.of(costs=[7, 4, 2, 1, 5, 1], worker=[0, 0, 1, 1, 0, 1])
        >>> Readj(sigma=0.1).plan(seen, Constraints(2, theta=0.0)).loads().tolist()
        [10.0, 10.0]

    Paper: B. Gedik's, as "Parallel stream processing against workload skewness and variance" has it,
    §V "Baseline Approaches" and §VI.
    """

    name: ClassVar[str] = "readj"
    symbol: ClassVar[str] = "Readj"

    sigma: float | None = None
    trials: int = 8
    most_keys: int = 20_000

    def __post_init__(self) -> None:
        if self.sigma is not None:
            check_positive("σ", self.sigma)
        check_whole("the number of trials", self.trials, 1)
        check_whole("the number of keys", self.most_keys, 1)

    def plan(self, statistics: Statistics, constraints: Constraints) -> Proposal:
        """Where each key goes next."""
        constraints.check(statistics)
        return in_key_order(statistics, lambda seen: self._plan(seen, constraints))

    def _plan(self, statistics: Statistics, constraints: Constraints) -> Proposal:
        start = _sent_home(statistics, constraints)
        if self.sigma is not None:
            return _exchanged(statistics, constraints, start, self.sigma, 1)
        costs = statistics.costs[statistics.costs > 0]
        total = float(costs.sum())
        if len(costs) > self.most_keys:
            costs = -np.partition(-costs, self.most_keys - 1)[: self.most_keys]
        if not len(costs):
            return Proposal(statistics, constraints, start, self.name, {"steps": 0})
        average = total / constraints.workers
        low, high = float(costs.min()) / average, float(costs.max()) / average
        smallest, best = low, None
        for trial in range(1, self.trials + 1):
            last = trial == self.trials and best is not None and not _is_even(best)
            sigma = smallest if last else math.sqrt(low * high)
            tried = _exchanged(statistics, constraints, start, sigma, trial)
            if best is None or _worth(tried) < _worth(best):
                best = tried
            if _is_even(tried):
                low = sigma
            else:
                high = sigma
        assert best is not None
        return best


def _is_even(proposal: Proposal) -> bool:
    return proposal.overload() <= proposal.constraints.theta + _ROUNDING


def _worth(proposal: Proposal) -> tuple[int, float, float]:
    """Smaller is better: constraints that are broken, then overload that is too much, then bytes."""
    excess = max(proposal.overload() - proposal.constraints.theta, 0.0)
    return len(proposal.failures()), excess, proposal.migration_bytes()


def _sent_home(statistics: Statistics, constraints: Constraints) -> I32:
    """Every key at home whose return overloads nobody, smallest first so that most can return."""
    worker = statistics.worker.copy()
    gone = worker >= constraints.workers
    worker[gone] = statistics.home[gone]
    loads = np.bincount(worker, statistics.costs, constraints.workers)
    away = np.flatnonzero(worker != statistics.home)
    away = away[np.argsort(statistics.costs[away], kind="stable")]
    limits = constraints.limits(float(loads.sum()))
    _send_home(away, statistics.costs, statistics.home, limits, loads, worker)
    return worker


def _exchanged(
    statistics: Statistics, constraints: Constraints, start: I32, sigma: float, trial: int
) -> Proposal:
    """The plan that exchanges among keys of at least σ times the average lead to."""
    workers, costs = constraints.workers, statistics.costs
    loads = np.bincount(start, costs, workers)
    total = float(loads.sum())
    large = np.flatnonzero(costs >= max(sigma * total / workers, np.finfo(np.float64).tiny))
    large = large[np.argsort(-costs[large], kind="stable")]
    owner = start[large]
    steps = _exchange(
        costs[large],
        constraints.shares() * workers,
        constraints.limits(total) * (1 + _ROUNDING),
        _NEGLIGIBLE * total / workers,
        loads,
        owner,
        np.empty(workers, np.int64),
        np.empty(len(large), np.int64),
        np.empty((workers, workers)),
        np.empty((workers, workers, 2), np.int64),
    )
    worker = start.copy()
    worker[large] = owner
    details = {"sigma": sigma, "keys": len(large), "steps": int(steps), "trial": trial}
    return Proposal(statistics, constraints, worker, Readj.name, details)


@kernel
def _send_home(away: I64, costs: F64, home: I32, limits: F64, loads: F64, worker: I32) -> None:
    for k in away:
        h = home[k]
        if costs[k] == 0 or loads[h] + costs[k] <= limits[h]:
            loads[worker[k]] -= costs[k]
            loads[h] += costs[k]
            worker[k] = h


@kernel
def _exchange(
    costs: F64,
    weights: F64,
    limits: F64,
    least_gain: float,
    loads: F64,
    owner: I32,
    first: I64,
    following: I64,
    gains: F64,
    pairs: I64,
) -> int:
    """Carry out the best exchange until none is left. Keys come in descending order of cost; each
    worker's are a linked list in that order, so that a pair of workers is searched in one walk.

    `gains` and `pairs` hold the best exchange of each pair of workers: after an exchange only the
    pairs of the two workers in it are searched again.
    """
    n = len(loads)
    first[:] = _NONE
    for k in range(len(costs) - 1, -1, -1):
        following[k] = first[owner[k]]
        first[owner[k]] = k
    for a in range(n):
        for b in range(n):
            _search(costs, weights, limits, loads, first, following, a, b, gains, pairs)
    steps = 0
    while True:
        best, giver, taker = least_gain, _NONE, _NONE
        for a in range(n):
            for b in range(n):
                # Many workers relieve a much fuller one alike; the least loaded of them is taken.
                if gains[a, b] > best or (
                    giver != _NONE
                    and gains[a, b] == best
                    and loads[b] / weights[b] < loads[taker] / weights[taker]
                ):
                    best, giver, taker = gains[a, b], a, b
        if giver == _NONE:
            return steps
        given, taken = pairs[giver, taker]
        loads[giver] -= costs[given]
        loads[taker] += costs[given]
        _hand_over(first, following, owner, given, taker)
        if taken != _NONE:
            loads[giver] += costs[taken]
            loads[taker] -= costs[taken]
            _hand_over(first, following, owner, taken, giver)
        steps += 1
        for w in range(n):
            _search(costs, weights, limits, loads, first, following, giver, w, gains, pairs)
            _search(costs, weights, limits, loads, first, following, taker, w, gains, pairs)
            _search(costs, weights, limits, loads, first, following, w, giver, gains, pairs)
            _search(costs, weights, limits, loads, first, following, w, taker, gains, pairs)


@kernel
def _hand_over(first: I64, following: I64, owner: I32, k: int, to: int) -> None:
    """Take key k out of its worker's list and put it into that of `to`, both in order."""
    if first[owner[k]] == k:
        first[owner[k]] = following[k]
    else:
        before = first[owner[k]]
        while following[before] != k:
            before = following[before]
        following[before] = following[k]
    owner[k] = to
    if first[to] == _NONE or first[to] > k:
        following[k] = first[to]
        first[to] = k
    else:
        before = first[to]
        while following[before] != _NONE and following[before] < k:
            before = following[before]
        following[k] = following[before]
        following[before] = k


@kernel
def _search(
    costs: F64,
    weights: F64,
    limits: F64,
    loads: F64,
    first: I64,
    following: I64,
    a: int,
    b: int,
    gains: F64,
    pairs: I64,
) -> None:
    """The best exchange that gives a key of overloaded worker a to b, for one of b's or for none.

    The gain rises with the load that changes over until the two are even and falls from there on.
    Both lists are sorted, so for the next smaller key of a the best partner in b cannot be a larger
    one than before: each list is walked through once.
    """
    gains[a, b] = lowest = 0.0
    pairs[a, b, 0] = pairs[a, b, 1] = _NONE
    if a == b or loads[a] <= limits[a]:
        return
    before = max(loads[a] / weights[a], loads[b] / weights[b])
    even = (loads[a] * weights[b] - loads[b] * weights[a]) / (weights[a] + weights[b])
    j, i = first[b], first[a]
    last = _NONE  # the partner just above j: the difference steps over the even one between them
    while i != _NONE:
        while j != _NONE and costs[i] - costs[j] <= even:
            last, j = j, following[j]
        for partner in (_NONE, last, j):
            moved = costs[i] if partner == _NONE else costs[i] - costs[partner]
            height = (loads[b] + moved) / weights[b]
            gain = before - max((loads[a] - moved) / weights[a], height)
            if gain > gains[a, b] or (gain == gains[a, b] and height < lowest):
                gains[a, b], lowest = gain, height
                pairs[a, b, 0], pairs[a, b, 1] = i, partner
        i = following[i]
