"""The cost model: how long a batch takes, from how it loads the partitions and what its parts cost."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from evenflow.planning.protocol import F64

#: What is assumed until it has been measured, in seconds: `evenflow bench regret` prints what it
#: measured of each.
ROUTE = 1e-6  #: of a row that visits Python on its way
LOOK = 3e-7  #: of a row whose key is looked at before it is routed
MERGE = 1e-5  #: of a part of a state: shuffled, and merged by its owner
STAGE = 0.1  #: of a second shuffle, without its tasks
TASK = 0.02  #: of each of its tasks, which start one after the other
MOVE = 1e-8  #: of a byte of state that its new owner reads
UNKNOWN_ROW = 1e-4  #: of a row of work that nothing is known of: a call of Python

_EVEN = (
    0.05  #: of the average load; less than this between partitions says nothing about a row's cost
)


def usual_stage(partitions: int) -> float:
    """What a second shuffle is assumed to take."""
    return STAGE + TASK * partitions


class Load(NamedTuple):
    """What a scheme makes of a batch: measured, or predicted.

    Parameters:
        rows: of the batch.
        fullest: rows of the fullest partition.
        parts: parts of states that the keys' owners merge; None where no key is split.
        in_python: whether rows visit Python to be routed.
        moved: keys whose state would change its owner, once.
    """

    rows: float
    fullest: float
    parts: float | None = None
    in_python: bool = False
    moved: float = 0.0


@dataclass(frozen=True)
class Prices:
    """What the parts of a batch cost, in seconds.

    Parameters:
        row: of the work on a row.
        slots: how many tasks run at once.
        fixed: of a batch, whatever its rows and its scheme.
        route, merge, move: as `ROUTE`, `MERGE` and `MOVE`.
        stage: of a second shuffle, its tasks included.
        state: bytes that are kept of a key.

    Example:
        >>> prices = Prices(row=0.001, slots=4, fixed=0.5, stage=0.2)
        >>> prices.seconds(Load(rows=4000, fullest=3000))
        3.5
        >>> prices.seconds(Load(rows=4000, fullest=1000, parts=400, in_python=True))
        1.702
    """

    row: float
    slots: float
    fixed: float = 0.0
    route: float = ROUTE
    merge: float = MERGE
    stage: float = STAGE
    move: float = MOVE
    state: float = 0.0

    def work(self, load: Load) -> float:
        """Seconds until the last task has done the work of its rows."""
        return self.row * max(load.fullest, load.rows / self.slots)

    def extra(self, load: Load) -> float:
        """Seconds that a scheme takes beyond the work and what every batch takes."""
        visits = self.route * load.rows / self.slots if load.in_python else 0.0
        merging = 0.0 if load.parts is None else self.stage + self.merge * load.parts / self.slots
        return visits + merging

    def moving(self, load: Load) -> float:
        """Seconds until the owners have the states of keys that move, once."""
        return self.move * self.state * load.moved / self.slots

    def seconds(self, load: Load) -> float:
        """How long such a batch takes."""
        return self.fixed + self.work(load) + self.extra(load)


class Observed(NamedTuple):
    """What was measured of a batch.

    Parameters:
        load: of the partitions.
        seconds: that its tasks took altogether, from first to last.
        rows: of each task that worked on rows.
        work: seconds of each of them.
        calls: seconds of each of them within the operator.
        merging: seconds of each owner that merged parts; empty where no key was split.
        slots: how many tasks were at work at once.
    """

    load: Load
    seconds: float
    rows: F64
    work: F64
    calls: F64
    merging: F64
    slots: float

    def row(self) -> float:
        """What a row costs: how much longer tasks take that have more of them.

        Where all tasks have as many rows, that is unknown, and the calls of the operator count alone;
        what a task takes anyway is no cost of its rows.
        """
        total = float(self.rows.sum())
        if not total:
            return 0.0
        least, most = float(self.calls.sum()) / total, float(self.work.sum()) / total
        rows, work = self.rows - self.rows.mean(), self.work - self.work.mean()
        weight = len(rows) * (_EVEN * float(self.rows.mean())) ** 2
        slope = (float(rows @ work) + weight * least) / (float(rows @ rows) + weight)
        return float(np.clip(slope, least, max(least, most)))

    def merge(self) -> float:
        """What a part of a state costs its owner."""
        if not self.load.parts:
            return 0.0
        return float(self.merging.sum()) / self.load.parts


def at_once(began: F64, seconds: F64) -> int:
    """The largest number of tasks that were at work at the same moment.

    Example:
        >>> at_once(np.array([0.0, 0.5, 1.0]), np.array([1.0, 1.0, 1.0]))
        2
    """
    moments = np.concatenate([began + seconds, began])
    change = np.repeat([-1, 1], len(began))
    # At equal moments, tasks end before others begin.
    return int(np.cumsum(change[np.argsort(moments, kind="stable")]).max(initial=1))
