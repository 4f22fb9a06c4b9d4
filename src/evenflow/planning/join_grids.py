"""Hot keys of a join → grids of partitions: one side is split, the other replicated, or both."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from evenflow.model.validation import check_partitions

F64 = npt.NDArray[np.float64]

_CELL = 0.25  # the share of a partition that one cell of a grid may be
_LISTED = 0.05  # keys below this share of a partition go by hash


class JoinKey(NamedTuple):
    """How many rows of a key each side has.

    Parameters:
        key: the hash of the key.
        left, right: its rows.
        pairs: the rows of the result.
    """

    key: int
    left: int
    right: int
    pairs: float

    @property
    def load(self) -> float:
        """What the key costs in one partition: the rows that are read, and those that are made."""
        return self.left + self.right + self.pairs


class Grid(NamedTuple):
    """Where the rows of one key go: a left row to all cells of one row of the grid, a right row to all
    cells of one column. So every pair of rows meets in exactly one cell.

    Parameters:
        rows: in how many parts the left side is split.
        columns: in how many parts the right side is split.
        partitions: of the cells, row by row; no two are the same.
    """

    rows: int
    columns: int
    partitions: tuple[int, ...]

    def transposed(self) -> Grid:
        """The grid as the other side sees it."""
        cells = np.array(self.partitions).reshape(self.rows, self.columns).T
        return Grid(self.columns, self.rows, tuple(cells.ravel().tolist()))


@dataclass(frozen=True)
class JoinPlan:
    """Which keys of a join have a grid, and what is expected of it.

    Parameters:
        partitions: how many there are.
        grids: hash of a key → its grid; all other keys go by hash.
        fullest: the load of the fullest partition, in multiples of the average.
        plain: the same without any grids: no less than the hottest key.
    """

    partitions: int
    grids: dict[int, Grid]
    fullest: float
    plain: float


def plan_join(
    keys: Sequence[JoinKey],
    total: float,
    partitions: int,
    *,
    spread: float = 0.0,
    splits: tuple[bool, bool] = (True, True),
) -> JoinPlan:
    """Grids for the hot keys of a join, by measured counts.

    A key that is more than a quarter of a partition's share gets as many cells as it takes to make each
    of them smaller, in the shape that replicates the fewest rows. The cells go to the partitions with
    the least load, largest first.

    Guarantee: the cells of a key are in different partitions. A pure function of its arguments.

    Parameters:
        keys: the hottest keys, in any order.
        total: the load of all keys, these included.
        partitions: how many tasks share the work.
        spread: a part of the total that has no key and can go anywhere.
        splits: whether the left and the right side may be split.

    Example:
        >>> plan = plan_join([JoinKey(7, left=600, right=1, pairs=600)], total=2401, partitions=4)
        >>> plan.grids[7].rows, plan.grids[7].columns, round(plan.fullest, 2), round(plan.plain, 2)
        (4, 1, 1.0, 2.0)
    """
    check_partitions(partitions)
    share = total / partitions
    ordered = sorted(keys, key=lambda one: (-one.load, one.key))
    hot = [one for one in ordered if one.load > _LISTED * share]
    shapes = _shapes(partitions, *splits)
    chosen = [(one, *_shape_of(one, share, shapes)) for one in hot]
    chosen.sort(key=lambda one: (-one[3], one[0].key))
    loads = np.full(partitions, max(total - sum(one.load for one in hot), 0.0) / partitions)
    grids = {}
    for one, rows, columns, cell in chosen:
        least = np.argsort(loads, kind="stable")[: rows * columns]
        loads[least] += cell
        grids[one.key] = Grid(rows, columns, tuple(least.tolist()))
    hottest = max((one.load for one in hot), default=0.0)
    average = float(loads.mean())
    return JoinPlan(
        partitions,
        grids,
        float(loads.max()) / average if average else 1.0,
        # All that has no key lies in one partition, too: null keys have one hash.
        max(max(hottest, spread) / share, 1.0) if share else 1.0,
    )


def _shapes(partitions: int, split_left: bool, split_right: bool) -> tuple[F64, F64]:
    """All shapes of a grid with at most so many cells."""
    parts = range(1, (partitions if split_left else 1) + 1)
    most = [partitions // rows if split_right else 1 for rows in parts]
    rows = np.repeat(np.array(parts), most)
    columns = np.concatenate([np.arange(1, n + 1) for n in most])
    return rows.astype(np.float64), columns.astype(np.float64)


def _shape_of(one: JoinKey, share: float, shapes: tuple[F64, F64]) -> tuple[int, int, float]:
    """The shape of a key's grid, and the load of each of its cells."""
    rows, columns = shapes
    there = (rows <= max(one.left, 1)) & (columns <= max(one.right, 1))
    rows, columns = rows[there], columns[there]
    pairs = one.pairs / (rows * columns)
    cells = np.ceil(one.left / rows) + np.ceil(one.right / columns) + pairs
    copied = one.left * columns + one.right * rows
    small = cells <= _CELL * share
    # Where no shape is small enough, the one with the smallest cells.
    wanted = np.where(small, copied, np.inf) if small.any() else cells
    (ties,) = np.nonzero(wanted == wanted.min())
    best = ties[np.lexsort((rows[ties] * columns[ties], copied[ties]))[0]]
    return int(rows[best]), int(columns[best]), float(cells[best])
