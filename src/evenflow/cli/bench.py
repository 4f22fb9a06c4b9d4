"""`evenflow bench kernels`: how long a scheme thinks about one message."""

from __future__ import annotations

from typing import Annotated

import typer

from evenflow.cli.terminal import cell, new_table, note, print_json, progress, say, stdout

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
    from evenflow.simulator import kernel_speed

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
