"""`evenflow plan`: a new routing table from statistics of each key."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from evenflow.cli.options import Json, Weights, count_of, numbers_in, timed
from evenflow.cli.terminal import cell, print_json, say, stdout, table_of
from evenflow.model.errors import InputError

if TYPE_CHECKING:
    from evenflow.cli.statistics_file import StatisticsFile
    from evenflow.planning.protocol import F64, Proposal

_MOST_SHOWN = 20  #: rows of a table


def plan(
    stats: Annotated[
        Path | None,
        typer.Option(
            "--stats",
            help="Parquet, CSV or JSON lines with key, cost, state_bytes, worker and optionally "
            "hash_worker; one row per key.",
        ),
    ] = None,
    workers: Annotated[int | None, typer.Option(help="Number of workers.")] = None,
    theta: Annotated[
        float, typer.Option(help="Tolerated load above a worker's share: 0.08 is 8 %.")
    ] = 0.08,
    table_limit: Annotated[
        int, typer.Option(help="Maximum number of keys in the routing table.")
    ] = 3000,
    planner: Annotated[
        str,
        typer.Option(help="A planner, with parameters after a colon: compact-mixed:degree=32."),
    ] = "mixed",
    weights: Weights = None,
    seed: Annotated[int, typer.Option(help="Seed of the hash, if there is no hash_worker.")] = 0,
    leaving: Annotated[
        bool,
        typer.Option(
            "--leaving",
            help="Keys may be on workers numbered from --workers up, which are leaving.",
        ),
    ] = False,
    list_planners: Annotated[
        bool, typer.Option("--list", help="List the planners and exit.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Plan where keys go next: balanced, little state moved, a small routing table.

    Without a column hash_worker, keys are hashed as by the scheme 'table'. If no plan satisfies all
    constraints, the best plan found is returned with "feasible": false and the reason; the exit code
    is still 0.
    """
    if list_planners:
        from evenflow.cli.schemes import show_algorithms
        from evenflow.planning import planners

        show_algorithms(planners(), as_json)
        return
    from evenflow.cli.statistics_file import read_statistics
    from evenflow.model import Workers
    from evenflow.planning import make_planner
    from evenflow.planning.protocol import Constraints, Statistics

    if stats is None:
        raise InputError("--stats is missing: the file with the statistics of each key")
    capacities = numbers_in("--weights", weights)
    workers = count_of("--workers", workers, capacities, "the number of workers")
    chosen = make_planner(planner)
    constraints = Constraints(workers, theta, table_limit, capacities)
    file = read_statistics(stats, Workers.numbered(workers, capacities), seed, leaving)
    small = Statistics.of([2, 1, 1], [0, 0, 1], [0, 1, 1])
    proposal, seconds = timed(
        lambda: chosen.plan(small, Constraints(2)),
        lambda: chosen.plan(file.statistics, constraints),
    )
    if as_json:
        print_json(_answer(planner, file, proposal, seconds, seed))
    else:
        _show(planner, file, proposal, seconds)


def _loads_before(proposal: Proposal) -> F64:
    """The current load of every worker; those that leave come last."""
    import numpy as np

    seen, n = proposal.statistics, proposal.constraints.workers
    return np.bincount(seen.worker, seen.costs, n).astype(np.float64)


def _overload_before(proposal: Proposal) -> float:
    """How far the worst of the remaining workers is above its share of all work."""
    loads, constraints = _loads_before(proposal), proposal.constraints
    return constraints.overload(loads[: constraints.workers], float(loads.sum()))


def _answer(
    planner: str, file: StatisticsFile, proposal: Proposal, seconds: float, seed: int
) -> dict[str, Any]:
    import numpy as np

    from evenflow.simulator.result import plain_values

    seen, constraints = proposal.statistics, proposal.constraints
    listed, moved = np.flatnonzero(proposal.listed()), np.flatnonzero(proposal.moved())
    answer = {
        "planner": planner,
        "workers": constraints.workers,
        "weights": constraints.weights,
        "theta": constraints.theta,
        "table_limit": constraints.table_limit,
        "hash": {"scheme": "table", "seed": seed} if file.hashed else "hash_worker",
        "keys": len(seen),
        "feasible": proposal.feasible(),
        "reason": proposal.reason(),
        "failures": proposal.failures(),
        "loads_before": _loads_before(proposal),
        "loads": proposal.loads(),
        "overload_before": _overload_before(proposal),
        "overload": proposal.overload(),
        "table_size": proposal.table_size(),
        "moved": len(moved),
        "migration_bytes": proposal.migration_bytes(),
        "seconds": seconds,
        "details": proposal.details,
        "table": dict(zip(file.texts(listed), proposal.worker[listed].tolist(), strict=True)),
        "moves": [
            {"key": key, "from": before, "to": after, "state_bytes": state}
            for key, before, after, state in zip(
                file.texts(moved),
                seen.worker[moved].tolist(),
                proposal.worker[moved].tolist(),
                seen.state[moved].tolist(),
                strict=True,
            )
        ],
    }
    return plain_values(answer)  # type: ignore[no-any-return]


def _show(planner: str, file: StatisticsFile, proposal: Proposal, seconds: float) -> None:
    console, constraints = stdout(), proposal.constraints
    say(
        console,
        f"{planner}: {len(file.statistics):,} keys on {constraints.workers} workers, θmax "
        f"{constraints.theta:.1%}, at most {constraints.table_limit:,} keys in the table; planned in "
        f"{1000 * seconds:.1f} ms",
        "bold",
    )
    console.print(_workers_table(proposal))
    _show_moves(file, proposal)
    before, after = _overload_before(proposal), proposal.overload()
    say(
        console,
        f"worst worker: {before:.1%} above its share before, {after:.1%} after; routing table: "
        f"{proposal.table_size():,} keys; moves: {int(proposal.moved().sum()):,} keys with "
        f"{proposal.migration_bytes():,.0f} bytes",
    )
    feasible = proposal.feasible()
    say(console, ("feasible: " if feasible else "not feasible: ") + proposal.reason())
    if file.hashed:
        say(console, "No column hash_worker: keys are hashed as by the scheme 'table'.")


def _workers_table(proposal: Proposal) -> Any:
    """The workers, fullest first."""
    import numpy as np

    constraints = proposal.constraints
    loads, before = proposal.loads(), _loads_before(proposal)
    after = np.zeros(len(before))
    after[: constraints.workers] = loads
    limits = np.zeros(len(before))
    limits[: constraints.workers] = constraints.limits(float(loads.sum()))
    table = table_of("worker", "load before", "load after", "limit", "")
    order = np.argsort(-before, kind="stable")
    for w in order[:_MOST_SHOWN].tolist():
        leaves = w >= constraints.workers
        over = after[w] > limits[w] * (1 + 1e-9)
        table.add_row(
            str(w),
            f"{before[w]:,.6g}",
            f"{after[w]:,.6g}",
            "–" if leaves else f"{limits[w]:,.6g}",
            "leaves" if leaves else "above its limit" if over else "",
        )
    if len(order) > _MOST_SHOWN:
        table.add_row("…", "", "", "", f"{len(order) - _MOST_SHOWN} more")
    return table


def _show_moves(file: StatisticsFile, proposal: Proposal) -> None:
    """The most expensive keys that move."""
    import numpy as np

    moved, seen = np.flatnonzero(proposal.moved()), proposal.statistics
    if not len(moved):
        return
    shown = moved[np.argsort(-seen.costs[moved], kind="stable")][:_MOST_SHOWN]
    table = table_of("key that moves", "cost", "state bytes", "from", "to")
    for row, key in zip(shown.tolist(), file.texts(shown), strict=True):
        table.add_row(
            cell(key if len(key) <= 120 else key[:119] + "…"),
            f"{seen.costs[row]:,.6g}",
            f"{seen.state[row]:,.0f}",
            str(seen.worker[row]),
            str(proposal.worker[row]),
        )
    if len(moved) > len(shown):
        table.add_row(cell(f"… {len(moved) - len(shown):,} more"))
    stdout().print(table)
