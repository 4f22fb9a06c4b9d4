"""The status of a fleet as plain values."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from evenflow.fleet import processes
from evenflow.fleet.config import Fleet
from evenflow.fleet.coordinator import coordinator_lives
from evenflow.fleet.folder import SharedFolder
from evenflow.fleet.load import load_series, reported_bins
from evenflow.placement.protocol import average_correlation


def status(fleet: Fleet) -> dict[str, Any]:
    """Nodes, queries, loads, correlation and moves: everything that `evenflow fleet status` shows.

    A load is busy time over elapsed time in the last `samples` samples; that of a node is the sum of
    its queries' loads over its capacity. Correlation is the average load correlation over all pairs of
    nodes: the higher, the more evenly bursts are spread.
    """
    folder = SharedFolder(fleet.folder)
    assignment, reports = folder.readable_assignment(), folder.reports()
    names = [query.name for query in fleet.queries]
    last = int(time.time() // fleet.sample) - 2
    series = load_series(reported_bins(reports), names, last, fleet.samples)
    where = {} if assignment is None else assignment.queries
    by_node = np.array(
        [
            series[[where.get(query) == node.name for query in names]].sum(axis=0) / node.capacity
            for node in fleet.nodes
        ]
    )
    return {
        "coordinator": coordinator_lives(folder),
        "epoch": None if assignment is None else assignment.epoch,
        "down": assignment is None or assignment.down,
        "nodes": [
            {
                "name": node.name,
                "alive": _alive(fleet, reports.get(node.name)),
                **{name: reports.get(node.name, {}).get(name) for name in ("pid", "incarnation")},
                "draining": assignment is not None and node.name in assignment.draining,
                "queries": sum(where.get(query) == node.name for query in names),
                "load": float(by_node[i].mean()),
                "load_deviation": float(by_node[i].std()),
            }
            for i, node in enumerate(fleet.nodes)
        ],
        "queries": [
            {
                "name": name,
                "node": where.get(name),
                **_state(fleet, reports.get(where.get(name, "")), name),
                "load": float(series[i].mean()),
            }
            for i, name in enumerate(names)
        ],
        "correlation": average_correlation(by_node),
        "moves": folder.lines("moves.jsonl"),
    }


def _alive(fleet: Fleet, report: dict[str, Any] | None) -> bool:
    return report is not None and processes.responding(report, fleet.dead_after)


def _state(fleet: Fleet, report: dict[str, Any] | None, query: str) -> dict[str, Any]:
    """What its node reports for a query; the state is "lost" if that node is dead."""
    found = None if report is None else report["queries"].get(query)
    if found is None:
        return {"state": "waiting", "batches": 0, "failures": 0, "error": ""}
    state = {name: found.get(name, 0) for name in ("state", "batches", "failures", "error")}
    return state if _alive(fleet, report) else {**state, "state": "lost"}
