"""Figures 7 to 10 on a real broker: what `evenflow bench smalops-broker` has measured.

Reproducing the paper starts no broker: that takes half an hour on a quiet machine. The measurements are
kept beside this file; the figures and claims read them.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from evenflow.model import InputError

Row = dict[str, Any]

SAVED = {"runs": "broker.json", "sweeps": "broker_sweeps.json"}


def saved(which: str) -> dict[str, Any]:
    """One of the files."""
    path = Path(__file__).with_name(SAVED[which])
    option = " --sweeps" if which == "sweeps" else ""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(
            f"{path} cannot be read ({error}); measure it with: "
            f"evenflow bench smalops-broker{option} --save {path}"
        ) from None
    assert isinstance(content, dict)
    return content


def broker_distribution(grouping: str) -> list[Row]:
    """Figure 7: one row per percentile, in ms."""
    row = _of(saved("runs")["static"], grouping)
    return [
        {"grouping": grouping, "percentile": float(p), "delay": delay}
        for p, delay in row["percentiles_ms"].items()
    ]


def broker_by_service(grouping: str) -> list[Row]:
    """Figure 8: one row per processing time, in ms."""
    return [
        {
            **_drawable(_of(run, grouping)),
            "service_ms": round(1e3 * run["service"], 6),
            "reduction": 0.0 if grouping == "key" else run["p99_lower_percent"],
        }
        for run in saved("sweeps")["by_service"]
    ]


def broker_by_threshold(means: str) -> list[Row]:
    """Figure 9: one row per threshold, with key hashing beside it.

    Parameters:
        means: as in `analysis.thresholds`: `coverage` or `threshold`.
    """
    reading = {"coverage": "that hot keys have together", "threshold": "that a hot key has itself"}
    kept = saved("sweeps")
    return [
        {
            **_drawable(row),
            "percent": round(row["percent"], 6),
            "reading": reading[means],
            "tracked": row["hot_keys_most"],
            "hashed_p99": kept["hashed"]["p99_ms"],
        }
        for row in kept["by_threshold"]
        if row["means"] == means
    ]


def broker_over_time(grouping: str) -> list[Row]:
    """Figure 10: one row per slot of five seconds, in ms."""
    row = _of(saved("runs")["dynamic"], grouping)
    return [{**_drawable(moment), "grouping": grouping} for moment in row["timeline"]]


def _of(run: dict[str, Any], grouping: str) -> Row:
    return next(row for row in run["schemes"] if row["grouping"] == grouping)


def _drawable(row: Row) -> Row:
    """What can be drawn of a row, delays in ms."""
    plain = {name: value for name, value in row.items() if isinstance(value, (int, float, str))}
    return {**plain, **{p: row[f"{p}_ms"] for p in ("p50", "p90", "p99")}}
