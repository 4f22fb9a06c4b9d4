"""`evenflow bench`: how long schemes, planners and placement think, and the engine on Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from evenflow.cli.terminal import cell, new_table, note, print_json, progress, say, stdout
from evenflow.model import InputError

if TYPE_CHECKING:
    from evenflow_lab.benchmarks.planner_speed import Cell
    from evenflow_lab.benchmarks.spark.outcome import Outcome

app = typer.Typer(help="Measure speed, as ratios within one run.", rich_markup_mode=None)


@app.callback(invoke_without_command=True)
def bench(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())
        raise typer.Exit(2)


@app.command("kernels", short_help="Nanoseconds a message for every scheme; fingerprints.")
def kernels(
    messages: Annotated[int, typer.Option(help="Length of the stream; half of it warms up.")] = (
        2_000_000
    ),
    rounds: Annotated[
        int, typer.Option(help="Times that each scheme is timed; the best counts.")
    ] = 5,
    as_json: Annotated[bool, typer.Option("--json", help="JSON on standard output.")] = False,
) -> None:
    """Time `route` of every scheme as a ratio to key grouping, and fingerprints in MB/s."""
    from evenflow_lab.benchmarks import kernel_speed

    with progress("bench kernels", quiet=as_json) as report:
        speeds = kernel_speed.kernel_speeds(
            messages, rounds, progress=lambda done, steps: report("timing", done, steps)
        )
    for name, reason in speeds.not_started.items():
        note(f"not measured: {name}: {reason}")
    if as_json:
        print_json(speeds.to_dict())
        return
    workers = kernel_speed.WORKERS
    table = new_table()
    table.add_column("grouping", no_wrap=True)
    for n in workers:
        table.add_column(f"ns\nn={n}", justify="right", no_wrap=True)
    for n in workers:
        table.add_column(f"× key\nn={n}", justify="right", no_wrap=True)
    table.add_column("growth\n100→1000", justify="right", no_wrap=True)
    for name in sorted(speeds.nanoseconds, key=lambda name: speeds.nanoseconds[name][1]):
        table.add_row(
            cell(name, "bold"),
            *(f"{ns:.1f}" for ns in speeds.nanoseconds[name]),
            *(f"{ratio:.1f}" for ratio in speeds.ratios(name)),
            f"{speeds.growth(name):.2f}",
        )
    console = stdout()
    say(
        console,
        f"z = {kernel_speed.ZIPF}, {kernel_speed.KEYS:,} keys, {messages:,} messages, "
        f"best of {rounds} rounds",
        "bold",
    )
    console.print(table)
    say(
        console,
        f"Fingerprints of {kernel_speed.STRING_BYTES}-byte strings: "
        f"{speeds.fingerprint_mb_per_s:,.0f} MB/s on one core.",
    )
    say(console, f"How: {kernel_speed.HOW}.")


@app.command("planner", short_help="Planning time for up to 10⁷ keys, beside the pseudo-code.")
def planner(
    quick: Annotated[bool, typer.Option("--quick", help="Up to 10⁵ keys, to try it out.")] = False,
    rounds: Annotated[
        int, typer.Option(help="Times that each planner is timed; the best counts.")
    ] = 3,
    as_json: Annotated[bool, typer.Option("--json", help="JSON on standard output.")] = False,
) -> None:
    """Time every planner beside a transcription of the paper's pseudo-code, in the same run.

    Takes half an hour, most of it in the pseudo-code. Run it while nothing else runs.
    """
    from evenflow_lab.benchmarks import planner_speed

    cells: list[Cell] = []
    with progress("bench planner", quiet=as_json) as report:
        for timed in planner_speed.planner_speeds(
            planner_speed.KEYS[:2] if quick else planner_speed.KEYS,
            rounds=rounds,
            patience=1.0 if quick else planner_speed.PATIENCE,
            literal_patience=2.0 if quick else planner_speed.LITERAL_PATIENCE,
            progress=report,
        ):
            cells.append(timed)
    if as_json:
        print_json(planner_speed.as_json(cells))
        return
    console = stdout()
    table = new_table()
    for heading in ("keys", "N", "θ", "planner", "seconds", "pseudo-code", "× faster", "entries"):
        table.add_column(heading, justify="left" if heading == "planner" else "right", no_wrap=True)
    table.add_column("kept", no_wrap=True)
    for timed in cells:
        ratio = timed.ratio()
        table.add_row(
            f"{timed.keys:,}",
            str(timed.workers),
            f"{timed.theta:g}",
            cell(timed.planner, "bold"),
            timed.left_out if timed.seconds is None else f"{timed.seconds:.4f}",
            _seconds(timed.literal_seconds, timed.literal_left_out),
            "–" if ratio is None else f"{ratio:,.0f}",
            _figure(timed.table_size),
            "" if timed.feasible is None else "yes" if timed.feasible else "no",
        )
    console.print(table)
    for goal in planner_speed.goals(cells):
        _show_goal(goal.what, goal.measured, goal.bound, goal.at_least, goal.held())
    say(console, f"How: {planner_speed.HOW}.")


@app.command("placement", short_help="The global placement algorithm, beside the paper's words.")
def placement(
    quick: Annotated[bool, typer.Option("--quick", help="Up to 20 nodes, to try it out.")] = False,
    rounds: Annotated[
        int, typer.Option(help="Times that each size is timed; the best counts.")
    ] = 3,
    as_json: Annotated[bool, typer.Option("--json", help="JSON on standard output.")] = False,
) -> None:
    """Time COR-GLB beside a transcription of the paper's words, in the same run, and on large clusters.

    Takes about a minute, most of it in the transcription. Run it while nothing else runs.
    """
    from evenflow_lab.benchmarks import placement_speed

    sizes = placement_speed.NODES[:2] if quick else placement_speed.NODES
    with progress("bench placement", quiet=as_json) as report:
        cells = list(placement_speed.placement_speeds(sizes, rounds=rounds, progress=report))
    if as_json:
        print_json(placement_speed.as_json(cells))
        return
    console = stdout()
    table = new_table()
    for heading in ("nodes", "operators", "seconds", "transcription", "× faster", "correlation"):
        table.add_column(heading, justify="right", no_wrap=True)
    for timed in cells:
        ratio = timed.ratio()
        table.add_row(
            f"{timed.nodes:,}",
            f"{timed.operators:,}",
            f"{timed.seconds:.4f}",
            _seconds(timed.literal_seconds, None),
            "–" if ratio is None else f"{ratio:,.0f}",
            f"{timed.correlation:.2f}",
        )
    console.print(table)
    told = placement_speed.as_json(cells)["growth"]
    say(
        console,
        f"time grows as n^{_figure(told['exponent'])}, that of the transcription as "
        f"n^{_figure(told['literal_exponent'])}",
    )
    for goal in placement_speed.goals(cells):
        _show_goal(goal.what, goal.measured, goal.bound, goal.at_least, goal.held())
    say(console, f"How: {placement_speed.HOW}.")


def _seconds(seconds: float | None, left_out: str | None) -> str:
    if seconds is None:
        return left_out or "–"
    return f"{seconds:.2f}"


def _show_goal(what: str, measured: float, bound: float, at_least: bool, held: bool) -> None:
    asked = f"{'at least' if at_least else 'at most'} {bound:g}"
    say(
        stdout(),
        f"{'✓' if held else '✗'} {what}: {measured:.2f} (goal: {asked})",
        "green" if held else "red",
    )


@app.command("spark", short_help="The engine beside Spark alone; Figures 13 and 14; fixed costs.")
def spark(
    only: Annotated[
        list[str] | None,
        typer.Option(
            help="overhead, per_key, figure13_14, state_size, empty_batch, fluctuation, scale_out "
            "or tolerance; repeatable."
        ),
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Small sizes, to try it out.")] = False,
    full: Annotated[bool, typer.Option("--full", help="Large sizes: 10 M keys of state.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="JSON on standard output.")] = False,
) -> None:
    """Measure the engine on this machine's Spark: ratios to Spark's own ways, in one run.

    Takes half an hour on two cores. Run it while nothing else runs.
    """
    from evenflow_lab.benchmarks.spark import catalogue, outcome
    from evenflow_lab.workloads.fluctuating import snapshots
    from evenflow_lab.workloads.words import jumps

    if quick and full:
        raise InputError("give --quick or --full, not both")
    size = "quick" if quick else "full" if full else "usual"
    names = catalogue.chosen(only or [])
    machine = catalogue.machine()
    if machine["load_average_before"] > 0.5:
        note(f"the load average is {machine['load_average_before']:.1f}: times will be too long")
    answers: dict[str, Any] = {}
    with progress("bench spark", quiet=as_json) as report:

        def told(name: str, what: str) -> None:
            report(f"{name}: {what}", len(answers), len(names))

        for name, measurement, found in catalogue.measured(names, size, told, snapshots, jumps):
            answers[name] = outcome.as_json(measurement, found)
            if not as_json:
                _show(name, found)
    if as_json:
        print_json({"machine": machine, "size": size, "measurements": answers})


def _show(name: str, outcome: Outcome) -> None:
    """One measurement, for people."""
    console = stdout()
    say(console, name, "bold")
    say(console, outcome.what)
    table = new_table()
    for i, heading in enumerate(outcome.figures[0]):
        table.add_column(heading, justify="right" if i else "left", no_wrap=True)
    for row in outcome.figures:
        table.add_row(*(cell(_figure(value)) for value in row.values()))
    console.print(table)
    for goal in outcome.goals:
        _show_goal(goal.what, goal.measured, goal.bound, goal.at_least, goal.held)


def _figure(value: object) -> str:
    if value is None:
        return "–"
    return f"{value:,}" if isinstance(value, int) else str(value)
