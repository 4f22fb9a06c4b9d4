"""Algorithms 1 to 4 word by word: dictionaries and loops, no arrays.

The slow, obvious twin of `evenflow.planning.assigning`, and what `evenflow bench planner` measures it
against. It decides ties and the cases on which the paper is silent in the same way; the comments name
the paper's lines.

Paper: "Parallel stream processing against workload skewness and variance", §III.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass, field
from math import sqrt

from evenflow.planning.protocol import Constraints, Statistics

Key = int
Worker = int
_ROUNDING = 5e-10

#: What happened to a key: ("fits" | "exchanged" | "refused" | "unfit", key, worker, the set E)
Step = tuple[str, Key, Worker, tuple[Key, ...]]


@dataclass
class Keys:
    """The statistics as dictionaries."""

    cost: dict[Key, float]
    state: dict[Key, float]
    now: dict[Key, Worker]  #: F
    home: dict[Key, Worker]  #: h

    @classmethod
    def of(cls, statistics: Statistics | Keys) -> Keys:
        if isinstance(statistics, Keys):
            return statistics
        keys = statistics.keys.tolist()
        columns = (statistics.costs, statistics.state, statistics.worker, statistics.home)
        return cls(*(dict(zip(keys, column.tolist(), strict=True)) for column in columns))

    def table(self, workers: int) -> list[Key]:
        """The keys in A. A worker that leaves is in no table."""
        return [k for k, d in self.now.items() if d != self.home[k] and d < workers]


@dataclass
class Trial:
    """An assignment in the making."""

    keys: Keys
    constraints: Constraints
    on: dict[Worker, set[Key]]
    load: dict[Worker, float]
    limit: dict[Worker, float]
    order: Callable[[Key], tuple[float, float, Key]]  #: ψ, as a sort key
    candidates: list[tuple[float, Key]] = field(default_factory=list)  #: C, a heap
    steps: list[Step] = field(default_factory=list)
    unfit: int = 0

    def busy(self, d: Worker) -> float:
        """What "ascending order of L(d)" means where capacities differ."""
        weights = self.constraints.weights
        return self.load[d] / (1.0 if weights is None else weights[d])

    def assignment(self) -> dict[Key, Worker]:
        """F′."""
        return {k: d for d, keys in self.on.items() for k in keys}

    def table_size(self) -> int:
        return sum(d != self.keys.home[k] for k, d in self.assignment().items())

    def migration(self) -> float:
        now = self.keys.now
        return sum(
            self.keys.state[k]
            for k, d in self.assignment().items()
            if d != now[k] and now[k] < self.constraints.workers
        )


def highest_cost_first(keys: Keys) -> Callable[[Key], tuple[float, float, Key]]:
    return lambda k: (-keys.cost[k], -keys.cost[k], k)


def largest_gamma_first(keys: Keys, beta: float) -> Callable[[Key], tuple[float, float, Key]]:
    """γ = c^β / S; a key without state goes first, one without cost last."""

    def gamma(k: Key) -> float:
        cost, state = keys.cost[k], keys.state[k]
        if cost == 0:
            return 0.0
        # c^1.5 as the kernels make it: pow rounds otherwise, and would break ties otherwise.
        power = cost * sqrt(cost) if beta == 1.5 else cost**beta
        return power / state if state > 0 else float("inf")

    return lambda k: (-gamma(k), -keys.cost[k], k)


def start(
    keys: Keys,
    constraints: Constraints,
    order: Callable[[Key], tuple[float, float, Key]],
    moved_back: set[Key],
) -> Trial:
    """Phase I."""
    on: dict[Worker, set[Key]] = {d: set() for d in range(constraints.workers)}
    load = dict.fromkeys(range(constraints.workers), 0.0)
    for k, d in keys.now.items():
        if k in moved_back or d >= constraints.workers:
            d = keys.home[k]
        on[d].add(k)
        load[d] += keys.cost[k]
    total = sum(load.values())
    shares = constraints.shares().tolist()
    limit = {d: (1 + constraints.theta + _ROUNDING) * total * shares[d] for d in on}
    return Trial(keys, constraints, on, load, limit, order)


def prepare(trial: Trial) -> None:
    """Phase II: candidates from each overloaded instance, according to ψ."""
    for d, keys in trial.on.items():
        if trial.load[d] > trial.limit[d]:
            for k in sorted(keys, key=trial.order):
                if trial.load[d] <= trial.limit[d]:
                    break
                disassociate(trial, k, d)


def disassociate(trial: Trial, k: Key, d: Worker) -> None:
    trial.on[d].remove(k)
    trial.load[d] -= trial.keys.cost[k]
    heapq.heappush(trial.candidates, (-trial.keys.cost[k], k))


def llfd(trial: Trial) -> None:
    """Phase III, Algorithm 1."""
    while trial.candidates:
        _, k = heapq.heappop(trial.candidates)  # line 3: in descending order of c
        ascending = sorted(trial.on, key=lambda d: (trial.busy(d), d))  # line 4
        for d in ascending:
            if adjust(trial, k, d):  # line 5
                break
        else:
            d = ascending[0]
            trial.unfit += 1
            trial.steps.append(("unfit", k, d, ()))
        trial.on[d].add(k)  # lines 6 to 8; A′ is read off the assignment
        trial.load[d] += trial.keys.cost[k]


def adjust(trial: Trial, k: Key, d: Worker) -> bool:
    """Function Adjust, lines 10 to 20."""
    cost = trial.keys.cost
    if trial.load[d] + cost[k] <= trial.limit[d]:  # line 12
        trial.steps.append(("fits", k, d, ()))
        return True
    exchangeable: list[Key] = []
    left = trial.load[d] + cost[k]
    smaller = [other for other in trial.on[d] if cost[other] < cost[k]]  # (i), (ii)
    for other in sorted(smaller, key=trial.order):
        if left <= trial.limit[d]:  # (iii)
            break
        exchangeable.append(other)
        left -= cost[other]
    if left > trial.limit[d]:
        trial.steps.append(("refused", k, d, ()))
        return False  # line 20
    for other in exchangeable:  # lines 15 to 17
        disassociate(trial, other, d)
    trial.steps.append(("exchanged", k, d, tuple(exchangeable)))
    return True


def run(
    keys: Keys,
    constraints: Constraints,
    order: Callable[[Key], tuple[float, float, Key]],
    moved_back: set[Key],
) -> Trial:
    """The three phases."""
    trial = start(keys, constraints, order, moved_back)
    prepare(trial)
    llfd(trial)
    return trial


def llfd_alone(statistics: Statistics | Keys, constraints: Constraints) -> Trial:
    keys = Keys.of(statistics)
    return run(keys, constraints, highest_cost_first(keys), set())


def min_table(statistics: Statistics | Keys, constraints: Constraints) -> Trial:
    """Algorithm 2."""
    keys = Keys.of(statistics)
    table = set(keys.table(constraints.workers))
    return run(keys, constraints, highest_cost_first(keys), table)


def min_mig(statistics: Statistics | Keys, constraints: Constraints, beta: float = 1.5) -> Trial:
    """Algorithm 3."""
    keys = Keys.of(statistics)
    return run(keys, constraints, largest_gamma_first(keys, beta), set())


def mixed(
    statistics: Statistics | Keys,
    constraints: Constraints,
    beta: float = 1.5,
    most_trials: int = 20,
    as_printed: bool = False,
) -> list[Trial]:
    """Algorithm 4: its trials, the last of which is its answer.

    `as_printed`, n is what the last trial overused (line 10), however many it had moved back itself;
    otherwise it is added to those, and the last trial moves back all."""
    keys = Keys.of(statistics)
    order = largest_gamma_first(keys, beta)
    table = keys.table(constraints.workers)
    table.sort(key=lambda k: (keys.state[k], keys.cost[k], k))  # η, line 1
    trials: list[Trial] = []
    n = 0
    while True:
        trials.append(run(keys, constraints, order, set(table[:n])))  # lines 6 to 9
        over = trials[-1].table_size() - constraints.table_limit  # line 10
        if over <= 0 or len(trials) == most_trials:
            return trials
        if as_printed:
            n = over
        elif n >= len(table):
            return trials
        else:
            n = min(n + over, len(table)) if len(trials) < most_trials - 1 else len(table)


def mixed_brute_force(
    statistics: Statistics | Keys, constraints: Constraints, beta: float = 1.5
) -> list[Trial]:
    """Mixed_BF: the trials for n = 0, 1, …, N_A."""
    keys = Keys.of(statistics)
    order = largest_gamma_first(keys, beta)
    table = keys.table(constraints.workers)
    table.sort(key=lambda k: (keys.state[k], keys.cost[k], k))
    return [run(keys, constraints, order, set(table[:n])) for n in range(len(table) + 1)]
