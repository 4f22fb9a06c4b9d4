"""What the page shows of every query at a glance, and of one batch in detail."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from evenflow.dashboard.batch_summary import BatchSummary
from evenflow.dashboard.history import QueryHistory
from evenflow.dashboard.sources import Sources
from evenflow.grouping import schemes

_RECENT = 60  # batches in a card's line


def overview_of(sources: Sources) -> dict[str, Any]:
    """All queries, groups and the fleet at a glance."""
    return {
        "now": time.time(),
        "schemes": sorted(schemes()),
        "queries": [_query(number, one) for number, one in enumerate(sources.queries)],
        "consumers": [
            {
                "id": number,
                "topic": one.topic,
                "group": one.group,
                "error": one.error,
                "messages": one.readings[-1][1] if one.readings else None,
                "version": one.version,
            }
            for number, one in enumerate(sources.consumers)
        ],
        "fleet": None if sources.fleet is None else {"version": sources.fleet.version},
    }


def _query(number: int, history: QueryHistory) -> dict[str, Any]:
    recent = history.summaries()[-_RECENT:]
    state, driver = history.state
    return {
        "id": number,
        "name": history.name,
        "location": history.location,
        "state": state,
        "driver": driver,
        "error": history.error,
        "reading": history.reading,
        "version": history.version,
        "batches": history.known(),
        "lag": history.lag,
        "recent": [round(one.balance, 3) for one in recent],
        "newest": _plain(recent[-1]) if recent else None,
    }


def _plain(one: BatchSummary) -> dict[str, Any]:
    return {
        "batch": one.batch,
        "began": one.began,
        "seconds": one.seconds,
        "steps": dict(one.steps),
        "rows": one.rows,
        "keys": one.keys,
        "rate": one.rows / one.seconds if one.seconds else 0.0,
        "scheme": one.scheme,
        "reason": one.reason,
        "partitions": one.partitions,
        "balance": one.balance,
        "replication": one.replication,
        "state_bytes": one.state_bytes,
        "table_size": one.table_size,
        "moved_keys": one.moved_keys,
        "hottest": list(one.hottest),
        "late_rows": one.late_rows,
        "dead_letters": one.dead_letters,
        "load": one.load,
        "sizing": one.sizing,
    }


def batch_of(history: QueryHistory, batch: int) -> dict[str, Any] | None:
    """One batch with the loads of its partitions, busiest first, and its hot keys; None if it is not
    known.

    Parameters:
        history: of the query.
        batch: its number; −1 for the newest.
    """
    summary = history.newest() if batch < 0 else history.summary(batch)
    if summary is None:
        return None
    loads, hot = history.loads(summary.batch), history.hot_keys(summary.batch)
    partitions: dict[str, Any] | None = None
    if loads is not None:
        order = np.lexsort((np.arange(len(loads)), -loads["rows"].astype(np.int64)))
        ordered = loads[order]
        partitions = {
            "partition": order.tolist(),
            "rows": ordered["rows"].tolist(),
            "keys": ordered["keys"].tolist(),
            "seconds": [round(float(value), 4) for value in ordered["seconds"]],
            "state": ordered["state"].astype(np.int64).tolist(),
        }
    return {**_plain(summary), "partition_loads": partitions, "hot_keys": hot}
