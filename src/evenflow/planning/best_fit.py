"""Best fit: hot keys of overloaded workers go where they fit best, the lightest first."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from evenflow.kernels.jit import kernel
from evenflow.model import InputError
from evenflow.model.validation import check_not_negative, check_positive
from evenflow.planning.key_order import in_key_order
from evenflow.planning.protocol import F64, I32, Constraints, Proposal, Statistics

I64 = npt.NDArray[np.int64]

MOVED, TOO_FAR, TOO_MUCH_STATE = range(3)  #: outcomes for the keys that were considered


@dataclass(frozen=True)
class BestFit:
    """Looks at hot keys alone: those of overloaded workers go, the lightest first, to the
    underloaded worker that they bring nearest to the average.

    The size of a worker is the work of its hot keys. A worker is underloaded below its share of that
    work, and overloaded above (1 + θmax) times its share (the paper has no θmax: there it is the
    share itself). A key moves only where that shrinks the load distance, the difference in size
    between the two workers. Keys of workers that leave go home first.

    Guarantee: only hot keys of overloaded workers move, and every move shrinks the load distance of
    the two workers in it. The routing table's limit is not looked at.

    State is looked at by one of the paper's two rules:

    - the interval rule (`message_seconds` not given): no more state moves than can arrive before the
      next plan, `interval` times `bandwidth` bytes;
    - equation 4: a key moves only if t_msg (1 + (1 − R_k / R_p1)) > t_SM + t_msg (1 + (1 − I / R_p2)),
      where t_SM is its state by the bandwidth, R are rates and I is one message a second. Solved, it
      says I / R_p2 − R_k / R_p1 > t_SM / t_msg: a key of at least one message a second never leaves
      for a worker of the same size or larger, and one that makes up a tenth of its worker needs a
      target below ten messages per second, even if its state costs nothing. That is why it hardly ever
      lets a hot key go, and why the interval rule, with which the paper measures, is the default.

    Parameters:
        hot: keys with at least this share of all work are hot; 0 for all keys.
        interval: seconds between two plans.
        bandwidth: bytes of state that move in a second.
        message_seconds: t_msg, the time a message takes; given, equation 4 applies, and costs must
            be numbers of messages.

    Example:
        >>> seen = Statistics.of(costs=[7, 4, 2, 1, 5, 1], worker=[0, 0, 1, 1, 0, 1])
        >>> BestFit(hot=0).plan(seen, Constraints(2, theta=0.0)).loads().tolist()
        [12.0, 8.0]

    Paper: "Load balancing and generalized split state reconciliation in event driven systems"
    (SMALOPS), §II: equations 1 to 3 and Figure 2 for the fit, equation 4 and the paragraph after it
    for the state. The default of `hot` is its 100 messages per window, of about 933 thousand.
    """

    name: ClassVar[str] = "best-fit"
    symbol: ClassVar[str] = "SMALOPS"

    hot: float = 1e-4
    interval: float = 10.0
    bandwidth: float = 1e8
    message_seconds: float | None = None

    def __post_init__(self) -> None:
        if not 0 <= self.hot <= 1:
            raise InputError(f"the share of a hot key must lie in [0, 1], got {self.hot}")
        check_positive("the interval", self.interval)
        if not self.bandwidth > 0:
            raise InputError(f"the bandwidth must be above 0, got {self.bandwidth}")
        if self.message_seconds is not None:
            check_not_negative("the time of a message", self.message_seconds)

    def plan(
        self, statistics: Statistics, constraints: Constraints, others: F64 | None = None
    ) -> Proposal:
        """Propose a worker for each key. `others` is further work of each worker, which the paper does
        not consider."""
        constraints.check(statistics)
        return in_key_order(statistics, lambda seen: self._plan(seen, constraints, others))

    def _plan(
        self, statistics: Statistics, constraints: Constraints, others: F64 | None
    ) -> Proposal:
        costs, workers = statistics.costs, constraints.workers
        worker = statistics.worker.copy()
        gone = worker >= workers
        worker[gone] = statistics.home[gone]
        hot = np.flatnonzero((costs >= self.hot * costs.sum()) & (costs > 0))
        hot = hot[np.lexsort((costs[hot], worker[hot]))]
        sizes: F64 = np.bincount(worker[hot], costs[hot], workers).astype(np.float64)
        if others is not None:
            sizes += others
        averages = constraints.shares() * sizes.sum()
        begins = np.searchsorted(worker[hot], np.arange(workers + 1)).astype(np.int64)
        limits = (1 + constraints.theta) * averages
        sources = np.flatnonzero(sizes > limits)
        fullest_first = np.argsort(-sizes[sources] / averages[sources], kind="stable")
        outcomes = np.zeros(3, np.int64)
        owner = worker[hot]
        _fit(
            sources[fullest_first],
            begins,
            costs[hot],
            statistics.state[hot],
            averages,
            limits,
            self.interval * self.bandwidth if self.message_seconds is None else math.inf,
            -1.0 if self.message_seconds is None else self.message_seconds,
            self.bandwidth,
            self.interval,
            sizes,
            owner,
            outcomes,
        )
        worker[hot] = owner
        counts = {
            "hot_keys": len(hot),
            "too_far": int(outcomes[TOO_FAR]),
            "too_much_state": int(outcomes[TOO_MUCH_STATE]),
        }
        return Proposal(statistics, constraints, worker, self.name, counts)


@kernel
def _fit(
    sources: I64,
    begins: I64,
    costs: F64,
    state: F64,
    averages: F64,
    limits: F64,
    budget: float,
    message_seconds: float,
    bandwidth: float,
    interval: float,
    sizes: F64,
    owner: I32,
    outcomes: I64,
) -> None:
    """Keys are sorted by worker, then by ascending cost; `begins` is where each worker's keys start."""
    for p in sources:
        for k in range(begins[p], begins[p + 1]):
            if sizes[p] <= limits[p]:
                break
            best, target = np.inf, -1
            for t in range(len(sizes)):
                if sizes[t] >= averages[t]:
                    continue
                apart = (sizes[p] - averages[p]) - (sizes[t] - averages[t])
                fit = abs(costs[k] + sizes[t] - averages[t])
                if abs(apart - 2 * costs[k]) < abs(apart) and fit < best:
                    best, target = fit, t
            if target == -1:
                outcomes[TOO_FAR] += 1
                continue
            if message_seconds < 0:
                allowed = state[k] <= budget
            else:
                # Rates per second from sizes per interval: R = size / interval, I = 1.
                before = message_seconds * (1 + (1 - costs[k] / sizes[p]))
                waiting = 1 - interval / sizes[target] if sizes[target] > 0 else -np.inf
                allowed = before > state[k] / bandwidth + message_seconds * (1 + waiting)
            if not allowed:
                outcomes[TOO_MUCH_STATE] += 1
                continue
            budget -= state[k]
            sizes[p] -= costs[k]
            sizes[target] += costs[k]
            owner[k] = target
            outcomes[MOVED] += 1
