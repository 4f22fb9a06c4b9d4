"""`evenflow place`: which node each operator should run on, from their load series."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from evenflow.cli.options import Json, count_of, numbers_in, timed
from evenflow.cli.terminal import cell, print_json, say, stdout, table_of
from evenflow.model.errors import InputError

if TYPE_CHECKING:
    from evenflow.cli.loads_file import LoadsFile
    from evenflow.placement.domains import Domains
    from evenflow.placement.protocol import Placer, Proposal
    from evenflow.placement.super_operators import SuperOperators

_MOST_SHOWN, _MOST_OPERATORS = 20, 200  #: nodes and operators in the tables for people


def place(
    loads: Annotated[
        Path | None,
        typer.Option(
            "--loads",
            help="Parquet, CSV or JSON lines with operator, time, load and optionally node and "
            "movable; one row per operator and time.",
        ),
    ] = None,
    nodes: Annotated[int | None, typer.Option(help="Number of nodes.")] = None,
    algorithm: Annotated[
        str,
        typer.Option(help="An algorithm, with parameters after a colon: cor-se-imp:exchange=0.3."),
    ] = "cor-glb",
    capacities: Annotated[
        str | None, typer.Option(help="Processor time per unit of time of each node: 1,1,4.")
    ] = None,
    samples: Annotated[
        int | None, typer.Option(help="Use only this many of the latest times.")
    ] = None,
    domain: Annotated[
        int | None, typer.Option(help="Place within groups of this many nodes.")
    ] = None,
    cluster: Annotated[
        float | None,
        typer.Option(help="Group operators of a node with less load than this."),
    ] = None,
    list_algorithms: Annotated[
        bool, typer.Option("--list", help="List the algorithms and exit.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Propose which node each operator runs on: balanced, and steady under bursts.

    A load is the processor time an operator needs per unit of time; a node of capacity 1 is full at 1.
    Global algorithms (…-glb) place all operators from scratch; the others move operators from the nodes
    in the column node.
    """
    if list_algorithms:
        from evenflow.cli.schemes import show_algorithms
        from evenflow.placement import placers

        show_algorithms(placers(), as_json, from_scratch=False)
        return
    from evenflow.cli.loads_file import read_loads
    from evenflow.model.validation import check_whole
    from evenflow.placement import make_placer
    from evenflow.placement.protocol import Nodes, Observed

    if loads is None:
        raise InputError("--loads is missing: the file with the operators' load series")
    speeds = numbers_in("--capacities", capacities)
    nodes = count_of("--nodes", nodes, speeds, "how many nodes operators can be placed on")
    if samples is not None:
        check_whole("--samples", samples, 1)
    chosen = make_placer(algorithm)
    machines = Nodes(nodes, speeds)
    file = read_loads(loads, samples)
    if not file.has_nodes and not chosen.from_scratch:
        raise InputError(
            f"{algorithm} moves operators between nodes, but {str(loads)!r} has no column node; add "
            "one, or use a global algorithm (cor-glb)"
        )
    placer = _wrapped(chosen, domain, cluster)
    small = Observed.of([[2.0, 1.0], [1.0, 2.0], [3.0, 0.0]], node=[0, 0, 0])
    proposal, seconds = timed(
        lambda: placer.propose(small, Nodes(2)), lambda: placer.propose(file.observed, machines)
    )
    if as_json:
        print_json(_answer(algorithm, file, proposal, seconds))
    else:
        _show(algorithm, file, proposal, seconds)


def _wrapped(
    placer: Placer, domain: int | None, cluster: float | None
) -> Placer | Domains | SuperOperators:
    from evenflow.placement.domains import Domains
    from evenflow.placement.super_operators import SuperOperators

    wrapped: Any = placer
    if domain is not None:
        wrapped = Domains(wrapped, domain)
    if cluster is not None:
        wrapped = SuperOperators(wrapped, cluster)
    return wrapped  # type: ignore[no-any-return]


def _before(file: LoadsFile, proposal: Proposal) -> Proposal | None:
    """The current plan, if the operators have nodes."""
    from evenflow.placement.protocol import Proposal

    if not file.has_nodes:
        return None
    return Proposal(proposal.observed, proposal.nodes, proposal.observed.node)


def _answer(algorithm: str, file: LoadsFile, proposal: Proposal, seconds: float) -> dict[str, Any]:
    import numpy as np

    from evenflow.placement.protocol import least_variance
    from evenflow.simulator.result import plain_values

    observed, before = proposal.observed, _before(file, proposal)
    moved = np.flatnonzero(proposal.moved())
    loads = observed.loads()
    answer = {
        "algorithm": algorithm,
        "nodes": proposal.nodes.count,
        "capacities": proposal.nodes.capacities,
        "operators": len(observed),
        "samples": observed.series.shape[1],
        "loads_before": None if before is None else before.loads(),
        "loads": proposal.loads(),
        "variances_before": None if before is None else before.variances(),
        "variances": proposal.variances(),
        "variance": proposal.variances().mean(),
        "least_variance": None
        if proposal.nodes.capacities
        else least_variance(observed.series, proposal.nodes.count),
        "correlation_before": None if before is None else before.correlation(),
        "correlation": proposal.correlation(),
        "moved": len(moved),
        "load_moved": proposal.load_moved(),
        "reason": proposal.reason(),
        "seconds": seconds,
        "details": proposal.details,
        "assignment": dict(zip(file.names, proposal.node.tolist(), strict=True)),
        "moves": [
            {
                "operator": file.names[row],
                "from": int(observed.node[row]) if observed.node[row] >= 0 else None,
                "to": int(proposal.node[row]),
                "load": loads[row],
            }
            for row in moved.tolist()
        ],
    }
    return plain_values(answer)  # type: ignore[no-any-return]


def _show(algorithm: str, file: LoadsFile, proposal: Proposal, seconds: float) -> None:
    console, before = stdout(), _before(file, proposal)
    say(
        console,
        f"{algorithm}: {len(proposal.observed):,} operators on {proposal.nodes.count} nodes, "
        f"{proposal.observed.series.shape[1]} samples; placed in {1000 * seconds:.1f} ms",
        "bold",
    )
    console.print(_nodes_table(proposal, before))
    console.print(_operators_table(file, proposal))
    was = "" if before is None else f" (now {before.variances().mean():.4g})"
    had = "" if before is None else f" (now {before.correlation():.2f})"
    say(
        console,
        f"average load variance: {proposal.variances().mean():.4g}{was}; average load correlation of "
        f"nodes: {proposal.correlation():.2f}{had}; load moved: {proposal.load_moved():.3g}",
    )


def _nodes_table(proposal: Proposal, before: Proposal | None) -> Any:
    """The nodes, the fullest first."""
    import numpy as np

    loads, deviations = proposal.loads(), np.sqrt(proposal.variances())
    counts = np.bincount(proposal.node, minlength=proposal.nodes.count)
    table = table_of("node", "load now", "± now", "load then", "± then", "operators", "")
    order = np.argsort(-loads, kind="stable")
    for n in order[:_MOST_SHOWN].tolist():
        table.add_row(
            str(n),
            "–" if before is None else f"{before.loads()[n]:.3f}",
            "–" if before is None else f"{before.variances()[n] ** 0.5:.3f}",
            f"{loads[n]:.3f}",
            f"{deviations[n]:.3f}",
            str(counts[n]),
            "above its capacity at times" if loads[n] + deviations[n] > 1 else "",
        )
    if len(order) > _MOST_SHOWN:
        table.add_row("…", "", "", "", "", "", f"{len(order) - _MOST_SHOWN} more")
    return table


def _operators_table(file: LoadsFile, proposal: Proposal) -> Any:
    """Where each operator goes: those that move first, then by node."""
    import numpy as np

    seen, moved = proposal.observed, proposal.moved() & file.has_nodes
    loads = seen.loads()
    order = np.lexsort((-loads, proposal.node, ~moved))
    table = table_of("operator", "load", "node now", "node then", "")
    for row in order[:_MOST_OPERATORS].tolist():
        table.add_row(
            cell(file.names[row]),
            f"{loads[row]:.3g}",
            "–" if seen.node[row] < 0 else str(seen.node[row]),
            str(proposal.node[row]),
            "moves" if moved[row] else "" if seen.movable[row] else "cannot move",
        )
    if len(order) > _MOST_OPERATORS:
        table.add_row(cell(f"… {len(order) - _MOST_OPERATORS:,} more: --json lists them all"))
    return table
