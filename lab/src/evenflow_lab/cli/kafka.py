"""`evenflow kafka up|fetch`: a broker on this machine, and what it is made of."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Annotated

import typer

from evenflow.cli.interrupts import until_interrupted
from evenflow.cli.terminal import note, print_json, progress, safe

_STOPPED_BY_ITSELF = 1
_LOOK_EVERY = 1.0  # seconds

app = typer.Typer(help="A Kafka broker on this machine.", rich_markup_mode=None)

Json = Annotated[bool, typer.Option("--json", help="JSON on standard output.")]


@app.callback(invoke_without_command=True)
def kafka(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())
        raise typer.Exit(2)


@app.command("up", short_help="Start a broker, and stop it with Ctrl-C.")
def up(
    port: Annotated[int, typer.Option(min=0, max=65535, help="0 for a free one.")] = 0,
    folder: Annotated[
        Path | None,
        typer.Option(help="Keep its data here, and use what is there; else nothing is kept."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Start one node of Apache Kafka on loopback, print its address, and run until Ctrl-C.

    The first time, Kafka is fetched from a Maven repository (about 45 MB). Without --folder, nothing
    is left behind. Exit code 1 if the broker ended by itself.
    """
    from evenflow_lab.checking.broker import Broker

    with progress("fetching Kafka", quiet=True) as report:
        broker = Broker.start(folder, port, report)
    with until_interrupted(), broker:
        if as_json:
            print(json.dumps({"bootstrap": broker.bootstrap, "log": str(broker.log)}), flush=True)
        else:
            print(broker.bootstrap, flush=True)
        note(f"Kafka listens on {broker.bootstrap}; its log is {broker.log}; Ctrl-C stops it")
        while broker.running:
            time.sleep(_LOOK_EVERY)
        note(f"the broker ended by itself: {broker.last_words}")
        raise typer.Exit(_STOPPED_BY_ITSELF)


@app.command("fetch", short_help="Fetch what a broker and Spark's connector are made of.")
def fetch(as_json: Json = False) -> None:
    """Fetch Kafka and Spark's Kafka connector, if this machine does not have them yet."""
    from evenflow.kafka.artifacts import JARS, connector_jars

    with progress("fetching Kafka", quiet=not sys.stderr.isatty()) as report:
        found = {"broker": JARS.archives("broker", report), "connector": connector_jars(report)}
    if as_json:
        print_json({name: [str(path) for path in paths] for name, paths in found.items()})
    else:
        for name, paths in found.items():
            print(f"{name}: {len(paths)} archives in {safe(str(paths[0].parent))}")
