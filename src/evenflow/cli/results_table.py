"""The tables of `simulate` and `compare`: one line per scheme, and one per time slot."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from evenflow.cli.terminal import cell, table_of

if TYPE_CHECKING:
    from rich.table import Table

    from evenflow.simulator import QueueResult, Result

HOW_TO_READ = (
    "imbalance: the busiest worker's share of the stream minus the average, at the end and as the "
    "mean over time (0 is perfect). worst window: the busiest worker ÷ fair load over 20,000 "
    "messages, tumbling or sliding (1 is perfect). replication: workers that hold a "
    "key, on average (1 is least memory). ns: time to route one message."
)
HOW_TO_READ_QUEUES = (
    "latency: from arrival to finish, in units of the average time between two messages. queue: "
    "messages that have arrived and are not done, of the worst worker at the worst time, and on "
    "average. utilisation: messages ÷ capacity of a worker over the whole stream. throughput: messages "
    "÷ time until the last is done (1 keeps up with the stream). moves: virtual workers moved."
)
_MOST_ROWS = 24


def _times(value: float | None) -> str:
    """A ratio; a dash if the stream was too short for one."""
    return "–" if value is None else f"{value:.3f}" if value < 10 else f"{value:.1f}"


def _short(value: float | None) -> str:
    """Three significant figures; a dash if nothing arrived."""
    if value is None:
        return "–"
    return f"{value:,.0f}" if value >= 1_000 else f"{value:.3g}"


_tiny, _ratio, _whole = "{:.1e}".format, "{:.3f}".format, "{:,.0f}".format

#: heading → (field, format)
_Columns = Mapping[str, tuple[str, Callable[[Any], str]]]

_ROUTING: _Columns = {
    "imbalance": ("imbalance", _tiny),
    "mean": ("imbalance_mean", _tiny),
    "worst\nwindow": ("worst_window", _times),
    "worst\nsliding": ("worst_sliding_window", _times),
    "replication": ("replication", "{:.2f}".format),
    "ns": ("ns_per_message", "{:.1f}".format),
}
_QUEUES: _Columns = {
    "latency\nmean": ("latency_mean", _short),
    "p50": ("latency_p50", _short),
    "p95": ("latency_p95", _short),
    "p99": ("latency_p99", _short),
    "max": ("latency_max", _short),
    "queue\nmax": ("queue_max", _whole),
    "queue\nmean": ("queue_mean", _short),
    "utilisation\nmax": ("utilisation_max", _ratio),
    "min": ("utilisation_min", _ratio),
    "through-\nput": ("throughput", _ratio),
    "moves": ("moves", _whole),
}
_SLOTS: _Columns = {
    "queue\nmax": ("queue_max", _whole),
    "queue\nmin": ("queue_min", _whole),
    "latency\nmax": ("latency_max", _short),
    "latency\nmin": ("latency_min", _short),
    "utilisation\nmax": ("utilisation_max", _ratio),
    "min": ("utilisation_min", _ratio),
    "imbalance": ("imbalance", _ratio),
    "through-\nput": ("throughput", _ratio),
    "moves": ("moves", _whole),
}


def results_table(rows: Sequence[tuple[str, Result]]) -> Table:
    """Balance and replication of (label, result) pairs, in the given order."""
    return _table("grouping", _ROUTING, rows)


def queue_table(rows: Sequence[tuple[str, QueueResult]]) -> Table:
    """Latencies and queues of (label, result) pairs, in the given order."""
    return _table("grouping", _QUEUES, rows)


def timeline_table(result: QueueResult) -> Table:
    """At most 24 time slots of a simulation, at equal distances; the last is one of them."""
    slots = result.timeline
    step = -(-len(slots) // _MOST_ROWS)
    shown = slots[(len(slots) - 1) % step :: step]
    return _table("time", _SLOTS, ((f"{slot.time:,.0f}", slot) for slot in shown))


def _table(first: str, columns: _Columns, rows: Iterable[tuple[str, Any]]) -> Table:
    table = table_of(first, *columns)
    for label, measured in rows:
        written = (write(getattr(measured, field)) for field, write in columns.values())
        table.add_row(cell(label, "bold"), *written)
    return table
