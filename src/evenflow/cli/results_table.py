"""One line a scheme: the table of `simulate` and `compare`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from evenflow.cli.terminal import cell, new_table

if TYPE_CHECKING:
    from rich.table import Table

    from evenflow.simulator import Result

HOW_TO_READ = (
    "imbalance: the busiest worker's share of the stream minus the average, at the end and as the "
    "mean over time (0 is perfect). worst window: the busiest worker ÷ fair load over 20,000 "
    "messages, cut one after another or sliding (1 is perfect). replication: workers that hold a "
    "key, on average (1 is least memory). ns: time to route one message."
)


def results_table(rows: Sequence[tuple[str, Result]]) -> Table:
    """A table of (label, result) pairs, in the order given."""
    table = new_table()
    table.add_column("grouping", no_wrap=True)
    for heading in (
        "imbalance",
        "mean",
        "worst\nwindow",
        "worst\nsliding",
        "replication",
        "ns",
    ):
        table.add_column(heading, justify="right", no_wrap=True)
    for label, result in rows:
        table.add_row(
            cell(label, "bold"),
            f"{result.imbalance:.1e}",
            f"{result.imbalance_mean:.1e}",
            _times(result.worst_window),
            _times(result.worst_sliding_window),
            f"{result.replication:.2f}",
            f"{result.ns_per_message:.1f}",
        )
    return table


def _times(value: float | None) -> str:
    """A ratio; a dash where the stream was too short to have one."""
    return "–" if value is None else f"{value:.3f}" if value < 10 else f"{value:.1f}"
