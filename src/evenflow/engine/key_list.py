"""All keys of a batch DataFrame, where they are few: partitions may then follow their order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from evenflow.engine.routing import fingerprints_of
from evenflow.model import KeyCounts, Plan, RoutingTable
from evenflow.model.owners import Owners
from evenflow.operators.grouping_rows import group_rows, key_order

MOST = 1024
_TOLERATED = 1.08  # by how much the fullest partition may grow for the sake of order


@dataclass(frozen=True, eq=False)
class KeyList:
    """The distinct keys of some rows.

    Parameters:
        keys: one row per key; None before the first.
    """

    keys: pa.Table | None = None

    def with_keys(self, rows: pa.Table) -> KeyList | None:
        """These keys and those of more rows; None if they are too many."""
        both = rows if self.keys is None else pa.concat_tables([self.keys, rows])
        _, first = group_rows(both.columns)
        return None if len(first) > MOST else KeyList(both.take(pa.array(first)))

    def to_bytes(self) -> bytes:
        """As Arrow's stream; empty if there are none."""
        if self.keys is None:
            return b""
        content = pa.BufferOutputStream()
        with pa.ipc.new_stream(content, self.keys.schema) as writer:
            writer.write_table(self.keys)
        return bytes(content.getvalue())

    @classmethod
    def together(cls, lists: Sequence[bytes | None]) -> pa.Table | None:
        """The keys of all lists, in Spark's order; None if there are none, or too many."""
        found: KeyList | None = cls()
        for content in lists:
            if content is None or found is None:
                return None
            if content:
                found = found.with_keys(pa.ipc.open_stream(content).read_all())
        if found is None or found.keys is None:
            return None
        return found.keys.take(pa.array(key_order(found.keys.columns)))


def in_key_order(plan: Plan, planned: Plan, hot: KeyCounts, keys: pa.Table, limit: int) -> Plan:
    """A plan whose partitions follow the order of keys, if it is as even as the planned one.

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
    if fullest > _TOLERATED * np.bincount(owners, costs).max():
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
