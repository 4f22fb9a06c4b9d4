"""`evenflow dashboard`: the live page of queries, consumers and a fleet."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from evenflow.cli.options import StorageOptions, storage_options_in
from evenflow.cli.terminal import note, print_json, say, stdout
from evenflow.model.errors import InputError
from evenflow.model.validation import check_positive

if TYPE_CHECKING:
    from evenflow.dashboard.sources import FleetStatus, Sources

TOKEN = "EVENFLOW_DASHBOARD_TOKEN"
PORT = 8470
_SHORTEST = 16  # characters of a token that somebody chose
_LOOPBACK = "127.0.0.1"


def dashboard(
    checkpoints: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[NAME=]CHECKPOINT...",
            help="Checkpoints of queries: paths or URIs, with a name before it if you like.",
        ),
    ] = None,
    group: Annotated[
        list[str] | None,
        typer.Option(
            "--group",
            metavar="TOPIC:GROUP",
            help="A consumer group to watch; needs --bootstrap. May be repeated.",
        ),
    ] = None,
    bootstrap: Annotated[
        str | None,
        typer.Option(
            help="A Kafka broker, host:port: for --group, and for how far queries are behind."
        ),
    ] = None,
    fleet: Annotated[
        Path | None, typer.Option(metavar="FILE", help="A fleet's file, to watch it too.")
    ] = None,
    host: Annotated[str, typer.Option(help="The address to listen on.")] = _LOOPBACK,
    port: Annotated[int, typer.Option(help="The port to listen on; 0 for any free one.")] = PORT,
    allow_host: Annotated[
        list[str] | None,
        typer.Option(
            "--allow-host", metavar="NAME", help="A name to answer under. May be repeated."
        ),
    ] = None,
    idle: Annotated[
        float | None,
        typer.Option(metavar="SECONDS", help="End once nobody has looked at it for so long."),
    ] = None,
    storage_option: StorageOptions = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the address as JSON, once the page is up.")
    ] = False,
) -> None:
    """Show what queries are doing, in a browser, until Ctrl-C.

    It reads what they have committed, wherever their checkpoints are, and changes nothing; they need
    not run. The page needs the token that is printed with its address; set EVENFLOW_DASHBOARD_TOKEN to
    choose it, as for a Prometheus that reads /metrics.
    """
    if not checkpoints and not group and fleet is None:
        raise InputError(
            "there is nothing to show; name the checkpoints of queries, such as "
            "`evenflow dashboard path/to/checkpoint`, or give --group or --fleet"
        )
    if idle is not None:
        check_positive("--idle", idle)
    sources = sources_of(
        checkpoints or [], group or [], bootstrap, fleet, storage_options_in(storage_option)
    )
    serve(sources, host, port, tuple(allow_host or ()), as_json, idle)


def serve(
    sources: Sources,
    host: str = _LOOPBACK,
    port: int = 0,
    allow_hosts: tuple[str, ...] = (),
    as_json: bool = False,
    idle: float | None = None,
) -> None:
    """Serve the page until Ctrl-C, and print its address with the token.

    Parameters:
        sources: what it watches.
        host, port: where it listens.
        allow_hosts: names that it answers under, besides localhost and plain addresses.
        as_json: whether the address is printed as JSON.
        idle: ends once nobody has looked at it for so many seconds; None for never.
    """
    from evenflow.dashboard.access import new_token
    from evenflow.dashboard.serving import PageServer

    token = os.environ.get(TOKEN) or new_token()
    if len(token) < _SHORTEST:
        raise InputError(
            f"{TOKEN} has {len(token)} characters; a token needs at least {_SHORTEST}, or leave it "
            "unset and one is made"
        )
    server = PageServer(sources, token, host, port, allow_hosts, idle)
    if as_json:
        print_json({"url": server.url, "host": host, "port": server.port, "token": token})
    else:
        console = stdout()
        say(console, f"The page is at {server.url}", "bold")
        say(console, "It ends with Ctrl-C.")
    sys.stdout.flush()
    if host not in (_LOOPBACK, "localhost", "::1"):
        note(
            f"the page is open to whoever reaches {host} and has the token, and it is not encrypted: "
            "put a proxy with TLS before it, or use an SSH tunnel"
        )
    server.run()


def sources_of(
    checkpoints: list[str],
    groups: list[str],
    bootstrap: str | None = None,
    fleet: Path | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> Sources:
    """What a page watches, from the arguments of the command."""
    from evenflow.dashboard.consumers import ConsumerLag
    from evenflow.dashboard.history import QueryHistory
    from evenflow.dashboard.sources import Sources
    from evenflow.storage import storage_at

    if groups and bootstrap is None:
        raise InputError("--group needs --bootstrap, the address of a broker")
    consumers = []
    for given in groups:
        topic, colon, name = given.rpartition(":")
        if not (topic and colon and name):
            raise InputError(f"--group takes TOPIC:GROUP, such as clicks:sessions, got {given!r}")
        consumers.append(ConsumerLag(str(bootstrap), topic, name))
    queries = []
    for given in checkpoints:
        named, location = split_name(given)
        queries.append(
            QueryHistory(location, storage_at(location, storage_options), named, bootstrap)
        )
    return Sources(queries, consumers, None if fleet is None else _fleet(fleet))


def split_name(given: str) -> tuple[str | None, str]:
    """The name and the location in `NAME=CHECKPOINT`; a path may have an equals sign as well.

    Example:
        >>> split_name("hits=s3://bucket/ckpt"), split_name("/data/day=3")
        (('hits', 's3://bucket/ckpt'), (None, '/data/day=3'))
    """
    name, equals, location = given.partition("=")
    if equals and name and location and not set(name) & set("/\\:."):
        return name, location
    return None, given


def _fleet(file: Path) -> FleetStatus:
    from evenflow.dashboard.sources import FleetStatus
    from evenflow.fleet.config import read_config

    return FleetStatus(read_config(file))
