"""Batches over time as columns that a chart draws: as many points as it has room for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from evenflow.dashboard.batch_summary import BatchSummary

MOST_POINTS = 2000
MOST_EVENTS = 400

F64 = npt.NDArray[np.float64]


def select(
    summaries: Sequence[BatchSummary], begin: float | None = None, end: float | None = None
) -> list[BatchSummary]:
    """The batches that began between two moments, in seconds since 1970; None for no bound."""
    low = -np.inf if begin is None else begin
    high = np.inf if end is None else end
    return [one for one in summaries if low <= one.began <= high]


def columns_of(summaries: Sequence[BatchSummary], points: int) -> dict[str, Any]:
    """Batches as columns, with at most so many points.

    Guarantee: the worst is never smoothed away: beside every mean stands the greatest value of the
    batches that one point stands for, and sums stay sums.

    Parameters:
        summaries: in order.
        points: how many the chart has room for.

    Example:
        >>> from evenflow.dashboard.batch_summary import BatchSummary
        >>> batches = [BatchSummary.of({"batch": i, "began": float(i), "max_over_average": 1.0 + i,
        ...     "rows": 10}) for i in range(4)]
        >>> columns = columns_of(batches, points=2)
        >>> columns["first"], columns["balance"], columns["balance_max"], columns["rows"]
        ([0, 2], [1.5, 3.5], [2.0, 4.0], [20.0, 20.0])
    """
    points = max(1, min(points, MOST_POINTS))
    n = len(summaries)
    size = max(1, -(-n // points))
    starts = np.arange(0, n, size)
    if not n:
        return {"batches": 0, "per_point": 1, "time": [], "first": [], "last": [], "steps": {}}
    counts = np.diff(np.append(starts, n))
    last = np.append(starts[1:], n) - 1

    def column(name: str) -> F64:
        return np.array([float(getattr(one, name)) for one in summaries])

    def total(values: F64) -> list[float]:
        return _plain(np.add.reduceat(values, starts))

    def mean(values: F64) -> list[float]:
        return _plain(np.add.reduceat(values, starts) / counts)

    def greatest(values: F64) -> list[float]:
        return _plain(np.maximum.reduceat(values, starts))

    batches = np.array([one.batch for one in summaries])
    rows, seconds, balance = column("rows"), column("seconds"), column("balance")
    names = list(dict.fromkeys(step for one in summaries for step in one.steps))
    steps = {step: np.array([one.steps.get(step, 0.0) for one in summaries]) for step in names}
    hottest = np.array([one.hottest[0] for one in summaries])
    time = np.array([one.began for one in summaries])
    load = np.array([one.load or 0.0 for one in summaries])
    return {
        "batches": n,
        "per_point": size,
        "time": [round(value, 3) for value in time[starts].tolist()],
        "first": batches[starts].tolist(),
        "last": batches[last].tolist(),
        "rows": total(rows),
        "rate": _plain(
            np.add.reduceat(rows, starts) / np.maximum(np.add.reduceat(seconds, starts), 1e-9)
        ),
        "balance": mean(balance),
        "balance_max": greatest(balance),
        "seconds": mean(seconds),
        "seconds_max": greatest(seconds),
        "steps": {step: mean(values) for step, values in steps.items()},
        "hottest": mean(hottest),
        "hottest_max": greatest(hottest),
        "replication": mean(column("replication")),
        "state_bytes": _plain(column("state_bytes")[last]),
        "table_size": _plain(column("table_size")[last]),
        "partitions": _plain(column("partitions")[last]),
        "load_max": greatest(load) if any(one.load is not None for one in summaries) else None,
        "moved_keys": total(column("moved_keys")),
        "moved_bytes": total(column("moved_bytes")),
    }


def events_of(summaries: Sequence[BatchSummary]) -> dict[str, Any]:
    """What changed between batches, and why: the newest `MOST_EVENTS` of it, oldest first.

    Example:
        >>> from evenflow.dashboard.batch_summary import BatchSummary
        >>> batches = [BatchSummary.of({"batch": i, "scheme": scheme, "reason": "31 % hot"})
        ...     for i, scheme in enumerate(["key", "d-choices"])]
        >>> [(event["batch"], event["what"], event["why"]) for event in events_of(batches)["events"]]
        [(1, 'key → d-choices', '31 % hot')]
    """
    events: list[dict[str, Any]] = []
    total = 0
    before: BatchSummary | None = None
    partitions = 0  # of the last batch that says so
    for one in summaries:
        for kind, what, why in _changes(before, partitions, one):
            total += 1
            events.append(
                {"batch": one.batch, "time": one.began, "kind": kind, "what": what, "why": why}
            )
        if len(events) > 2 * MOST_EVENTS:
            del events[:-MOST_EVENTS]
        before, partitions = one, one.partitions or partitions
    return {"events": events[-MOST_EVENTS:], "total": total}


def _changes(
    before: BatchSummary | None, partitions: int, now: BatchSummary
) -> list[tuple[str, str, str]]:
    """(kind, what, why) of everything that this batch does otherwise than the one before it."""
    found = []
    if before is not None and now.scheme != before.scheme:
        found.append(("scheme", f"{before.scheme} → {now.scheme}", now.reason))
    if partitions and now.partitions not in (0, partitions):
        what = f"{partitions} → {now.partitions} partitions"
        found.append(("partitions", what, now.reason))
    if now.moved_keys:
        keys = "1 key" if now.moved_keys == 1 else f"{now.moved_keys:,} keys"
        size = f", {_bytes(now.moved_bytes)} of state" if now.moved_bytes else ""
        why = now.reason if before is None or now.epoch != before.epoch else ""
        found.append(("move", f"{keys} moved{size}", why))
    if now.dead_letters:
        found.append(
            ("dead", f"{now.dead_letters:,} rows set aside", "the operator failed for them")
        )
    if now.decision:
        found.append(("plan", "the routing table changes with the next batch", now.decision))
    return found


def _bytes(count: float) -> str:
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:,.1f} TB"


def _plain(values: F64) -> list[float]:
    """With as many digits as a chart can show."""
    return [float(f"{value:.10g}") for value in values.tolist()]
