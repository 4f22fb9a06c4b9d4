"""Key isolator: heavy keys placed one by one, all others by a hash that leaves room for them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from evenflow.grouping.dealing import redeal
from evenflow.grouping.table import State, TableRouting
from evenflow.kernels.hash_table import new_table
from evenflow.model import Feedback, KeyCounts, RoutingTable
from evenflow.model.validation import check_not_negative, check_positive

_F64 = np.ndarray


@dataclass(frozen=True)
class KeyIsolator(TableRouting):
    """Places each heavy key by itself, and all others by hash on what room that leaves.

    The counts of the last epoch decide, as all sources together have made them; they arrive through
    `observe`, between micro-batches. A heavy key stays where it is if the worker has room, else goes
    where its hash sends it, else to the worker with the least. The buckets of the hash are then dealt
    out again, changing few, so that all workers are as full.

    Guarantee: one worker per key, until new counts arrive.

    Parameters:
        limit: the maximum number of heavy keys.
        heavy_per_worker: λ: how many heavy keys there are per worker.
        slack: ε: how far above the fullest unavoidable load heavy keys may fill a worker, as a share of
            the stream.

    Resizing is consistent, as under table routing.

    Example:
        >>> import numpy as np
        >>> scheme, out = KeyIsolator(), np.empty(1000, np.int32)
        >>> state = scheme.start(4)
        >>> scheme.observe(state, Feedback(hot=KeyCounts({42: 250}, total=1000)))
        >>> scheme.route(state, np.arange(1000, dtype=np.uint64), out)
        >>> int((out == out[42]).sum())
        1

    Paper: KIP, "System-aware dynamic partitioning for batch and streaming workloads"
    (arXiv 2105.15023): dynamic repartitioning with the Key Isolator Partitioner. Where the text was
    not at hand, the authors' code: docs/decisions/0067.
    """

    name: ClassVar[str] = "key-isolator"
    symbol: ClassVar[str] = "KIP"
    weighted: ClassVar[bool] = False
    plans_itself: ClassVar[bool] = True

    heavy_per_worker: float = 2.0
    slack: float = 0.001

    def __post_init__(self) -> None:
        super().__post_init__()
        check_positive("heavy_per_worker", self.heavy_per_worker)
        check_not_negative("slack", self.slack)

    def observe(self, state: State, feedback: Feedback) -> None:
        """Repartition by new counts, or replace the table by one from a plan."""
        super().observe(state, feedback)
        if feedback.hot is not None and feedback.hot.counts:
            table, room = self._isolated(state, feedback.hot)
            redeal(
                state.buckets, dict(zip(state.live.tolist(), room.tolist(), strict=True)), least=0
            )
            super().observe(state, Feedback(plan=table))

    def _isolated(self, state: State, hot: KeyCounts) -> tuple[RoutingTable, _F64]:
        """KIPUpdate: the heavy keys' workers, and each worker's share of all others."""
        ids, n = state.live.tolist(), len(state.live)
        most = min(round(self.heavy_per_worker * n), self.limit)
        heavy = sorted(hot.counts, key=lambda key: (-hot.counts[key], key))[:most]
        shares = {key: hot.counts[key] / hot.total for key in heavy}
        now, home = self._workers(state, heavy), self._homes(state, heavy)
        allowed = max([1 / n, *shares.values()]) + self.slack
        sizes, table, movers = dict.fromkeys(ids, 0.0), {}, []

        for key in heavy:
            worker = now[key]
            if sizes[worker] + shares[key] <= allowed or not sizes[worker]:
                table[key] = worker
                sizes[worker] += shares[key]
            else:
                movers.append(key)
        for key in movers:
            worker = home[key]
            fits = sizes[worker] + shares[key] < allowed or not sizes[worker]
            if not fits or worker == now[key]:
                worker = min(ids, key=sizes.__getitem__)
            table[key] = worker
            sizes[worker] += shares[key]
        rest = 1.0 - sum(shares.values())
        return RoutingTable(table), room_for(np.array([sizes[w] for w in ids]), rest)

    def _workers(self, state: State, keys: list[int]) -> dict[int, int]:
        out = np.empty(len(keys), np.int32)
        self.route(state, np.array(keys, np.uint64), out)
        return dict(zip(keys, out.tolist(), strict=True))

    def _homes(self, state: State, keys: list[int]) -> dict[int, int]:
        """Where the hash alone sends the keys."""
        keys_of_none, workers_of_none = new_table(1)
        empty = state._replace(table_keys=keys_of_none, table_workers=workers_of_none)
        return self._workers(empty, keys)


def room_for(sizes: _F64, rest: float) -> _F64:
    """Each worker's share of the keys that are not heavy, so that all are as full as can be.

    Example:
        >>> import numpy as np
        >>> room_for(np.array([0.5, 0.1, 0.2]), 0.2).round(3).tolist()
        [0.0, 0.75, 0.25]
    """
    ordered = np.sort(sizes)
    levels = (np.cumsum(ordered) + rest) / np.arange(1, len(sizes) + 1)
    level = levels[levels >= ordered][-1]  # the highest that the fullest of the filled stays below
    room = np.maximum(level - sizes, 0.0)
    total = room.sum()
    return room / total if total > 0 else np.full(len(sizes), 1 / len(sizes))
