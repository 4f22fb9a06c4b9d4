"""All keys of a batch DataFrame, where they are few: partitions may then follow their order."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from evenflow.engine.routing import fingerprints_of
from evenflow.model import KeyCounts, Plan, RoutingTable
from evenflow.model.owners import Owners
from evenflow.operators.grouping_rows import key_order

MOST = 1024  #: keys are few
_TOLERATED = 1.08  # by how much the fullest partition may grow for the sake of order
_SPARED = 16  # or by how many rows: little data comes sorted from Spark, and programs rely on it


def in_order(keys: pa.Table) -> pa.Table:
    """The keys as Spark sorts them."""
    return keys.take(pa.array(key_order(keys.columns)))


def in_key_order(plan: Plan, planned: Plan, hot: KeyCounts, keys: pa.Table, limit: int) -> Plan:
    """A plan whose partitions follow the order of keys, if it is as even as the planned one, or nearly:
    the fullest partition may have a few rows or percent more.

    Parameters:
        plan: without a routing table.
        planned: with the planner's.
        hot: the rows of each key.
        keys: all keys, in order.
        limit: the largest routing table.
    """
    table = keys.combine_chunks()
    prints = fingerprints_of(table.to_batches()[0], tuple(table.column_names))
    costs = np.array([hot.counts.get(one, 1) for one in prints.tolist()], np.float64)
    ends = even_stretches(costs, plan.partitions)
    place = np.searchsorted(ends, np.arange(len(costs)), side="right")
    fullest = np.bincount(place, costs).max()
    owners = Owners.of(planned)(prints)
    least = np.bincount(owners, costs).max()
    if fullest > max(_TOLERATED * least, least + _SPARED):
        return planned
    homes = Owners.of(plan)(prints)
    entries = {
        int(one): int(there)
        for one, there, home in zip(prints, place, homes, strict=True)
        if there != home
    }
    if len(entries) > limit:
        return planned
    reason = f"all {len(costs)} keys are placed in their order"
    reason = f"{plan.reason}; {reason}" if plan.reason else reason
    return plan.followed_by(table=RoutingTable(entries), reason=reason)


def even_stretches(costs: npt.NDArray[np.float64], n: int) -> npt.NDArray[np.int64]:
    """Where to cut a sequence into at most n stretches so that the costliest costs least: their ends.

    Example:
        >>> even_stretches(np.array([1.0, 1.0, 1.0, 3.0]), 2).tolist()
        [3, 4]
    """
    sums = np.cumsum(costs)
    low, high = float(costs.max()), float(sums[-1])
    best = _filled(sums, high)
    for _ in range(50):
        if high - low <= 1e-9 * high:
            break
        most = (low + high) / 2
        ends = _filled(sums, most)
        if len(ends) <= n:
            best, high = ends, most
        else:
            low = most
    ends = _filled(sums, low)
    return ends if len(ends) <= n else best


def _filled(sums: npt.NDArray[np.float64], most: float) -> npt.NDArray[np.int64]:
    """The ends of stretches that are filled one after the other, up to `most`."""
    ends: list[int] = []
    before = 0.0
    while not ends or ends[-1] < len(sums):
        ends.append(int(np.searchsorted(sums, before + most * (1 + 1e-12), side="right")))
        before = float(sums[ends[-1] - 1])
    return np.array(ends, np.int64)
