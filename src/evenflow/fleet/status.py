"""How a fleet is doing, in plain values."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from evenflow.fleet import processes
from evenflow.fleet.config import Fleet
from evenflow.fleet.coordinator import coordinator_lives
from evenflow.fleet.folder import SharedFolder
from evenflow.fleet.load import load_series, told_bins
from evenflow.placement.protocol import average_correlation


def status(fleet: Fleet) -> dict[str, Any]:
    """Nodes, queries, loads, correlation and the last moves; all that `evenflow fleet status` shows.

    A load is busy time over time gone by, in the last `samples` samples; that of a node is the sum of
    its queries' over its capacity. Correlation: the average over all pairs of nodes of how their loads
    went together; the higher, the more evenly bursts are spread.
    """
    folder = SharedFolder(fleet.folder)
    assignment, reports = folder.assignment(), folder.reports()
    names = [query.name for query in fleet.queries]
    last = int(time.time() // fleet.sample) - 2
    series = load_series(told_bins(reports), names, last, fleet.samples)
    where = {} if assignment is None else assignment.queries
    by_node = np.array(
        [
            sum(
                (series[names.index(q)] for q in names if where.get(q) == node.name),
                np.zeros(fleet.samples),
            )
            / node.capacity
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
                "pid": reports.get(node.name, {}).get("pid"),
                "incarnation": reports.get(node.name, {}).get("incarnation"),
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


def _alive(fleet: Fleet, told: dict[str, Any] | None) -> bool:
    if told is None or processes.alive(told) is False:
        return False
    return bool(time.time() - told["time"] < fleet.dead_after)


def _state(fleet: Fleet, node: dict[str, Any] | None, query: str) -> dict[str, Any]:
    """What its node says of a query; "lost" if the node has said it last and is gone."""
    told = None if node is None else node["queries"].get(query)
    if told is None:
        return {"state": "waiting", "batches": 0, "failures": 0, "error": ""}
    said = {name: told.get(name, 0) for name in ("state", "batches", "failures", "error")}
    return said if _alive(fleet, node) else {**said, "state": "lost"}
