"""`evenflow lag`: the lag of a consumer group."""

from __future__ import annotations

import json
import sys
import time
from typing import TYPE_CHECKING, Annotated, Any

import typer

from evenflow.cli.consume import in_seconds
from evenflow.cli.terminal import cell, new_table, print_json, stdout

if TYPE_CHECKING:
    from rich.table import Table

    from evenflow.kafka.lag import PartitionLag


def lag(
    topic: Annotated[str, typer.Option(help="The topic that the group reads.")],
    bootstrap: Annotated[str, typer.Option(help="The broker's address, host:port.")],
    group: Annotated[str, typer.Option(help="Any Kafka consumer group.")] = "evenflow",
    watch: Annotated[bool, typer.Option("--watch", help="Repeat until Ctrl-C.")] = False,
    every: Annotated[str, typer.Option(help="With --watch: the interval.")] = "2s",
    as_json: Annotated[
        bool,
        typer.Option("--json", help="JSON on standard output; one line per read with --watch."),
    ] = False,
) -> None:
    """Show the lag of a consumer group per partition, in messages and in seconds.

    Seconds are the age of the oldest uncommitted message. Markers count as messages.
    """
    from evenflow.kafka.lag import LagReader

    pause = in_seconds("--every", every)
    reader = LagReader(bootstrap, topic, group)
    try:
        if not watch:
            found = reader.read()
            if as_json:
                print_json(_answer(topic, group, found))
            else:
                stdout().print(_table(found))
        elif as_json:
            while True:
                print(json.dumps(_answer(topic, group, reader.read())), flush=True)
                time.sleep(pause)
        else:
            _watch(reader, pause)
    finally:
        reader.close()


def _watch(reader: Any, pause: float) -> None:
    if not sys.stdout.isatty():
        while True:
            stdout().print(_table(reader.read()))
            sys.stdout.flush()
            time.sleep(pause)
    from rich.live import Live

    with Live(_table(reader.read()), console=stdout(), auto_refresh=False) as live:
        while True:
            time.sleep(pause)
            live.update(_table(reader.read()), refresh=True)


def _answer(topic: str, group: str, found: list[PartitionLag]) -> dict[str, Any]:
    return {
        "topic": topic,
        "group": group,
        "time": time.time(),
        "messages": sum(line.messages for line in found),
        "seconds": max((line.seconds or 0.0 for line in found), default=0.0),
        "partitions": [line._asdict() for line in found],
    }


def _table(found: list[PartitionLag]) -> Table:
    table = new_table()
    for name in ("partition", "next", "end", "messages", "seconds"):
        table.add_column(name, justify="right")
    for line in found:
        table.add_row(
            cell(line.partition),
            cell("none yet" if line.offset is None else f"{line.offset:,}"),
            cell(f"{line.end:,}"),
            cell(f"{line.messages:,}"),
            cell("unknown" if line.seconds is None else f"{line.seconds:,.1f}"),
        )
    table.add_row(
        cell("all"),
        "",
        cell(f"{sum(line.end for line in found):,}"),
        cell(f"{sum(line.messages for line in found):,}"),
        cell(f"{max((line.seconds or 0.0 for line in found), default=0.0):,.1f}"),
    )
    return table
