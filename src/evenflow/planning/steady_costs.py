"""What keys cost, from seconds by the clock: without what the machine adds to calls and tasks."""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt

import numpy as np

from evenflow.planning.protocol import F64
from evenflow.planning.seen import Seen

_ENOUGH = 8  # keys of a task, to tell whether all of it was slow
_TIMES = 4.0  # by how much one batch may differ from what was known


def steady_costs(tasks: Sequence[Seen], past: Seen) -> Seen:
    """The statistics of a batch, one row per key, with the costs that the keys are taken to have.

    A pause of the machine during one call, and a task that ran beside busy neighbours, say nothing
    about keys. So a task all of whose keys took longer than usual is set right as a whole; and what a
    row of a key cost differs from what it cost before by the root of what was measured, by a factor of
    two at most. A key that does cost more gets there within a few batches.

    Guarantee: the sum of all costs stays what was measured. If all tasks are k times as slow as they
    were, all costs are k times as large.

    Parameters:
        tasks: what each task measured, one row per key; costs in seconds.
        past: what is known of the batches before.

    Example:
        >>> keys, ones = np.arange(10, dtype=np.uint64), np.ones(10)
        >>> usual, slow = Seen.of(keys, ones, ones, ones), Seen.of(keys + 10, ones, 3 * ones, ones)
        >>> steady_costs([usual, slow], Seen.nothing()).costs.round(6).tolist() == [2.0] * 20
        True
    """
    whole = Seen.sum(tasks)
    total = float(whole.costs.sum())
    if total <= 0 or not whole.rows.sum():
        return whole
    usual, known = _usual(tasks, whole, past)
    paces = _paces(tasks, usual)
    steady = []
    for task, before, is_known, pace in zip(tasks, usual, known, paces, strict=True):
        measured = _each(task) / (before * pace)
        measured = np.where(is_known, np.sqrt(measured), measured)
        most = np.where(is_known, sqrt(_TIMES), _TIMES)
        measured = np.clip(measured, 1 / most, most)
        costs = task.rows * before * np.where(task.rows > 0, measured, 1.0)
        steady.append(Seen(task.keys, task.rows, costs, task.state))
    found = Seen.sum(steady)
    return Seen(
        found.keys, found.rows, found.costs * (total / float(found.costs.sum())), found.state
    )


def _usual(tasks: Sequence[Seen], whole: Seen, past: Seen) -> tuple[list[F64], list[np.ndarray]]:
    """What a row of each task's keys is expected to cost, and whether that is known of the key."""
    average = float(whole.costs.sum() / whole.rows.sum())
    had = past.rows > 0
    keys = past.keys[had]
    costs = past.costs[had] / past.rows[had]
    # All of them at today's pace: what matters is how keys compare.
    common, here, there = np.intersect1d(whole.keys, keys, assume_unique=True, return_indices=True)
    expected = float((costs[there] * whole.rows[here]).sum()) if len(common) else 0.0
    if expected > 0:
        costs = costs * (float(whole.costs[here].sum()) / expected)
    usual, known = [], []
    for task in tasks:
        at = np.minimum(np.searchsorted(keys, task.keys), max(len(keys) - 1, 0))
        is_known = keys[at] == task.keys if len(keys) else np.zeros(len(task), bool)
        before = np.full(len(task), average)
        before[is_known] = costs[at[is_known]]
        is_known &= before > 0
        usual.append(np.where(before > 0, before, average))
        known.append(is_known)
    return usual, known


def _paces(tasks: Sequence[Seen], usual: Sequence[F64]) -> F64:
    """How slow each task was as a whole, by the key in its middle."""
    paces = np.ones(len(tasks))
    for i, (task, before) in enumerate(zip(tasks, usual, strict=True)):
        worked = task.rows > 0
        if worked.sum() >= _ENOUGH:
            paces[i] = float(np.median((_each(task) / before)[worked]))
    paces[paces <= 0] = 1.0
    return paces / float(np.median(paces))


def _each(task: Seen) -> F64:
    """Seconds per row of each key."""
    each: F64 = task.costs / np.maximum(task.rows, 1e-12)
    return each
