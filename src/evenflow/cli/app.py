"""The entry point `evenflow`: the commands, and how errors are reported."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.metadata import entry_points
from typing import Annotated

import typer

from evenflow import __version__
from evenflow.cli import (
    cluster,
    compare,
    consume,
    dashboard,
    demo,
    diagnose,
    doctor,
    fleet,
    gateway,
    lag,
    place,
    plan,
    run,
    schemes,
    simulate,
    state,
)
from evenflow.cli.terminal import safe
from evenflow.model.errors import InputError

_BAD_INPUT = 2
_INTERRUPTED = 130

app = typer.Typer(
    help="Keeps skewed, drifting, keyed streams balanced.",
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for name, function, short_help in (
    ("demo", demo.demo, "A skewed stream on Spark, by key grouping and balanced."),
    ("run", run.run, "Keyed aggregates of your own files on Spark, balanced."),
    ("diagnose", diagnose.diagnose, "Is it skew, and what would help? The answer first."),
    ("compare", compare.compare, "All schemes on one simulated stream: a table and a picture."),
    (
        "simulate",
        simulate.simulate,
        "A stream of your own through the schemes, or under a planner.",
    ),
    ("plan", plan.plan, "A new routing table from statistics of each key."),
    ("place", place.place, "Which node each operator should run on, from its past load."),
    ("schemes", schemes.schemes, "The grouping schemes and their parameters."),
    ("doctor", doctor.doctor, "Check that this machine can run evenflow and Spark."),
    ("gateway", gateway.gateway, "A stream to Kafka, with hot keys spread over partitions."),
    ("consume", consume.consume, "A Kafka consumer that keeps each key's order."),
    ("lag", lag.lag, "How far Kafka consumers are behind."),
    ("dashboard", dashboard.dashboard, "The live page of queries, consumers and a fleet."),
):
    app.command(name, short_help=short_help)(function)
app.add_typer(state.app, name="state")
app.add_typer(cluster.app, name="cluster")
app.add_typer(fleet.app, name="fleet")
for point in sorted(entry_points(group="evenflow.commands"), key=lambda point: point.name):
    # Commands of other packages: a typer application, or a function whose docstring is its help.
    command = point.load()
    if isinstance(command, typer.Typer):
        app.add_typer(command, name=point.name)
    else:
        app.command(point.name, short_help=(command.__doc__ or "").partition("\n")[0])(command)


def _print_version(requested: bool) -> None:
    if requested:
        typer.echo(f"evenflow {__version__}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def evenflow(
    context: typer.Context,
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version."
        ),
    ] = False,
) -> None:
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())
        raise typer.Exit(_BAD_INPUT)


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command and returns its exit code.

    0: done. 2: bad input, explained in one line on standard error. 130: interrupted. A stack trace is
    always a bug in evenflow.
    """
    for stream in (sys.stdout, sys.stderr):
        # Print a question mark for what the terminal cannot encode, instead of failing.
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")
    try:
        code = app(
            args=None if arguments is None else list(arguments),
            prog_name="evenflow",
            standalone_mode=False,
        )
    except InputError as error:
        return _refuse(str(error))
    except (KeyboardInterrupt, typer.Abort):
        return _INTERRUPTED
    except Exception as error:
        # Usage errors have this method in every version of typer; their classes differ.
        if not hasattr(error, "format_message"):
            raise
        context = getattr(error, "ctx", None)
        command = context.command_path if context is not None else "evenflow"
        return _refuse(f"{error.format_message().rstrip('. ')} (see {command} --help)")
    return code if isinstance(code, int) else 0


def _refuse(reason: str) -> int:
    print(f"error: {safe(' '.join(reason.split()))}", file=sys.stderr)
    return _BAD_INPUT
