"""The tables of `simulate` where workers have queues."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from evenflow.cli.terminal import cell, new_table

if TYPE_CHECKING:
    from rich.table import Table

    from evenflow.simulator import QueueResult

HOW_TO_READ_QUEUES = (
    "latency: from arrival to finish, in units of the average time between two messages. queue: "
    "messages that have come and are not done, of the worst worker at the worst time, and on average. "
    "utilisation: messages ÷ capacity of a worker over the whole stream. throughput: messages ÷ time "
    "until the last is done (1 keeps up with the stream). moves: virtual workers moved."
)
_MOST_ROWS = 24


def queue_table(rows: Sequence[tuple[str, QueueResult]]) -> Table:
    """A table of (label, result) pairs, in the order given."""
    table = _table(
        "grouping",
        *("latency\nmean", "p50", "p95", "p99", "max", "queue\nmax", "mean"),
        *("utilisation\nmax", "min", "through-\nput", "moves"),
    )
    for label, result in rows:
        table.add_row(
            cell(label, "bold"),
            _short(result.latency_mean),
            _short(result.latency_p50),
            _short(result.latency_p95),
            _short(result.latency_p99),
            _short(result.latency_max),
            f"{result.queue_max:,}",
            _short(result.queue_mean),
            f"{result.utilisation_max:.3f}",
            f"{result.utilisation_min:.3f}",
            f"{result.throughput:.3f}",
            f"{result.moves:,}",
        )
    return table


def timeline_table(result: QueueResult) -> Table:
    """How one simulation went: at most 24 of its time slots, at equal distances, and the last."""
    table = _table(
        "time",
        *("queue\nmax", "min", "latency\nmax", "min", "utilisation\nmax", "min"),
        *("imbalance", "through-\nput", "moves"),
    )
    slots = result.timeline
    step = -(-len(slots) // _MOST_ROWS)
    for slot in slots[(len(slots) - 1) % step :: step]:
        table.add_row(
            f"{slot.time:,.0f}",
            f"{slot.queue_max:,}",
            f"{slot.queue_min:,}",
            _short(slot.latency_max),
            _short(slot.latency_min),
            f"{slot.utilisation_max:.3f}",
            f"{slot.utilisation_min:.3f}",
            f"{slot.imbalance:.3f}",
            f"{slot.throughput:.3f}",
            f"{slot.moves:,}",
        )
    return table


def _table(first: str, *others: str) -> Table:
    table = new_table()
    table.add_column(first, no_wrap=True)
    for heading in others:
        table.add_column(heading, justify="right", no_wrap=True)
    return table


def _short(value: float | None) -> str:
    """Three significant figures; a dash where nothing arrived."""
    if value is None:
        return "–"
    return f"{value:,.0f}" if value >= 1_000 else f"{value:.3g}"
