"""`evenflow simulate --replan`: how a planner balances a stream, batch by batch."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from evenflow.cli.simulate import described
from evenflow.cli.terminal import cell, print_json, progress, say, stdout, table_of

if TYPE_CHECKING:
    from evenflow.simulator.workloads import Workload

_THETA, _BATCH = 0.08, 20_000

HOW_TO_READ = (
    "fullest ÷ average: messages of the fullest worker in the batch (1 is perfect). table entries: "
    "keys that the table used for the batch sends elsewhere than their hash. moved keys: keys that "
    "came to another worker with this batch, with their state. decision: whether the table was "
    "replanned after the batch, and why."
)


def show_replanning(
    workload: Workload,
    workers: int,
    planner: str,
    theta: float | None,
    batch: int | None,
    seed: int,
    as_json: bool,
) -> None:
    """Simulates a stream under a replanned routing table and prints a row per batch."""
    from evenflow.model.validation import check_whole
    from evenflow.planning.controller import Replanning
    from evenflow.simulator.replanning import simulate_replanning
    from evenflow.simulator.result import plain_values

    replanning = Replanning(planner, _THETA if theta is None else theta)
    size = _BATCH if batch is None else batch
    check_whole("--batch", size, least=1)
    intervals, done = [], 0
    with progress("simulate", quiet=as_json) as report:
        report(planner, 0, workload.length())
        for interval in simulate_replanning(workload, workers, size, replanning, seed=seed):
            intervals.append(interval)
            done += interval.rows
            report(planner, done, workload.length())
    if as_json:
        print_json(
            plain_values(
                {
                    "planner": planner,
                    "theta": replanning.theta,
                    "workers": workers,
                    "batch": size,
                    "seed": seed,
                    "messages": done,
                    **workload.describe(),
                    "intervals": [dataclasses.asdict(interval) for interval in intervals],
                }
            )
        )
        return
    console = stdout()
    say(
        console,
        f"{planner}: {done:,} messages ({described(workload)}), {workers} workers, θmax "
        f"{replanning.theta:.1%}, seed {seed}",
        "bold",
    )
    table = table_of("batch", "rows", "fullest ÷\naverage", "table\nentries", "moved\nkeys")
    table.add_column("decision", overflow="fold")
    for i in intervals:
        table.add_row(
            str(i.batch),
            f"{i.rows:,}",
            f"{i.max_over_average:.2f}",
            f"{i.table_size:,}",
            f"{i.moved_keys:,}",
            cell(f"{'replanned' if i.changed else 'kept'}: {i.reason}"),
        )
    console.print(table)
    say(console, HOW_TO_READ)
