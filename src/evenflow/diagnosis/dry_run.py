"""What each scheme and planner would make of a stream of keys: a dry run in the simulator."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from evenflow.grouping import make, schemes
from evenflow.model import InputError
from evenflow.planning import planners
from evenflow.planning.batch_costs import Load, Prices
from evenflow.planning.controller import Replanning
from evenflow.simulator import simulate
from evenflow.simulator.replanning import simulate_replanning
from evenflow.simulator.workloads import Workload
from evenflow.simulator.workloads.protocol import U64

_BATCHES, _MOST_ROWS = 4, 20_000  #: batches that planners are tried on, and rows of each
_USUAL = ("mixed", "min-table")
# "table" stands for the planners, which follow by name; the others are there to compare with.
_LEFT_OUT = ("table", "key-isolator", "fish", "dalton")


@dataclass(frozen=True)
class Trial:
    """One scheme, or the table scheme under one planner.

    Parameters:
        name: of the scheme, or "table, PLANNER".
        splits_keys: whether the work needs a merge.
        fullest: rows of the fullest partition ÷ the average.
        seconds: predicted time of the keyed work; None without a cost per row.
        replication: partitions per key, on average.
        replicas: pairs of a partition and a key.
        moved_keys, moved_bytes: state that moved between batches.
        table_size: entries of the routing table at the end.
    """

    name: str
    splits_keys: bool
    fullest: float
    seconds: float | None
    replication: float
    replicas: int
    moved_keys: int = 0
    moved_bytes: int = 0
    table_size: int = 0


def dry_run(
    workload: Workload,
    rows: int,
    partitions: int,
    seconds_per_row: float | None = None,
    *,
    merge_seconds: float = 0.0,
    fixed_seconds: float = 0.0,
    sources: int = 4,
    every_planner: bool = False,
) -> list[Trial]:
    """Try all schemes and planners on a stream, in virtual time.

    Guarantee: `key` comes first. A prediction is that of the model by which `auto` decides: the time of
    the fullest partition, its rows times `seconds_per_row`, its parts of states times `merge_seconds`,
    and `fixed_seconds`.

    Parameters:
        workload: the keys.
        rows: how many rows the prediction is for; the workload may be a sample of them.
        partitions: tasks that share the work.
        seconds_per_row: measured or given cost of the work; None for no prediction.
        merge_seconds: of merging one part of a key's state, under a scheme that splits keys.
        fixed_seconds: that a job takes without any row.
        sources: tasks that route.
        every_planner: try all planners that are installed, not only mixed and min-table.
    """
    prices = None
    if seconds_per_row is not None:
        prices = Prices(
            seconds_per_row, partitions, fixed_seconds, route=0.0, merge=merge_seconds, stage=0.0
        )
    names = ["key", *(name for name in schemes() if name != "key" and name not in _LEFT_OUT)]
    found = []
    for name in names:
        try:
            result = simulate(make(name), workload, partitions, sources)
        except InputError:  # a scheme that cannot run with so many partitions
            continue
        splits = make(name).splits_keys
        load = Load(rows, result.max_load * rows, result.replicas if splits else None)
        found.append(
            Trial(
                name,
                splits,
                result.max_load * partitions,
                None if prices is None else prices.seconds(load),
                result.replication,
                result.replicas,
            )
        )
    if partitions > 1:
        keys = found[0].replicas
        messages = max(1, min(rows, workload.length() or rows, _BATCHES * _MOST_ROWS) // _BATCHES)
        beginning = _Beginning(workload, _BATCHES * messages)
        found += [
            trial
            for name in (planners() if every_planner else _USUAL)
            if (trial := _under(name, beginning, partitions, messages, keys)) is not None
        ]
    if prices is None:
        return found
    return [
        one
        if one.seconds is not None
        else replace(one, seconds=prices.seconds(Load(rows, rows / partitions * one.fullest)))
        for one in found
    ]


@dataclass(frozen=True)
class _Beginning:
    """The first rows of a stream."""

    whole: Workload
    rows: int

    def chunks(self, size: int) -> Iterator[U64]:
        left = self.rows
        for keys in self.whole.chunks(min(size, left)):
            yield keys[:left]
            left -= len(keys)
            if left <= 0:
                return

    def length(self) -> int | None:
        return self.rows

    def describe(self) -> dict[str, Any]:
        return self.whole.describe()


def _under(
    planner: str, workload: Workload, partitions: int, messages: int, keys: int
) -> Trial | None:
    try:
        intervals = list(simulate_replanning(workload, partitions, messages, Replanning(planner)))
    except InputError:
        return None
    # The first batch has no table yet: it says nothing about the planner.
    settled = intervals[1:] or intervals
    total = sum(one.rows for one in settled)
    return Trial(
        f"table, {planner}",
        False,
        sum(one.max_over_average * one.rows for one in settled) / max(total, 1),
        None,
        1.0,
        keys,
        sum(one.moved_keys for one in intervals),
        sum(one.moved_bytes for one in intervals),
        intervals[-1].table_size,
    )
