"""`evenflow fleet up|status|move|drain|down`: streaming queries on several Spark applications."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from evenflow.cli.options import Json, command_group
from evenflow.cli.terminal import cell, new_table, note, print_json, progress, say, stdout
from evenflow.model.errors import InputError

if TYPE_CHECKING:
    from evenflow.fleet.config import Fleet
    from evenflow.fleet.folder import SharedFolder

_FAILED = 1
_TRIES = 3  # failures of a query after which `up` stops waiting for it

app = command_group("Streaming queries placed over several Spark applications.")

Config = Annotated[
    Path, typer.Option("--config", "-c", metavar="FILE", help="The fleet, as TOML (docs/fleet.md).")
]
Wait = Annotated[float, typer.Option("--wait", help="Seconds to wait at most.")]
_DEFAULT = Path("fleet.toml")
Status = dict[str, Any]


@app.command("up", short_help="Start what is not running, and wait until all queries run.")
def up(
    config: Config = _DEFAULT,
    wait: Wait = 180.0,
    foreground: Annotated[
        bool, typer.Option("--foreground", help="Be the coordinator, until the fleet is down.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Start the coordinator, which starts the nodes, which start their queries.

    They keep running in the background and log to logs/ in the fleet's folder. What runs already is
    left alone, so running `up` again repairs a fleet that lost its coordinator.
    """
    from evenflow.fleet import processes
    from evenflow.fleet.coordinator import Coordinator, coordinator_lives

    plan, folder = _open(config)
    folder.make()
    old = folder.readable_assignment()  # a damaged one is mended by the coordinator
    if old is not None and old.down:
        if coordinator_lives(folder):
            raise InputError("the fleet is shutting down; wait for `evenflow fleet down`")
        folder.reset()
    if foreground:
        Coordinator(plan, os.path.abspath(config)).run()
        return
    if not coordinator_lives(folder):
        processes.start(
            "evenflow.fleet.coordinator",
            ["--config", os.path.abspath(config)],
            plan.folder / "logs" / "coordinator.log",
        )

    def running(seen: Status) -> int:
        return sum(query["state"] == "running" for query in seen["queries"])

    def over(seen: Status) -> bool:
        hopeless = any(query["failures"] >= _TRIES for query in seen["queries"])
        return hopeless or running(seen) == len(plan.queries)

    seen = _wait_until("up", plan, over, wait, running)
    _show(seen, as_json)
    if running(seen) < len(plan.queries):
        _fail(f"not all queries are running; the nodes keep trying, see {plan.folder / 'logs'}")


@app.command("status", short_help="Nodes, queries, loads, correlation, moves.")
def show(config: Config = _DEFAULT, as_json: Json = False) -> None:
    """Show the fleet's status. Exit code 1 if a node, a query or the coordinator is not running."""
    from evenflow.fleet.status import status

    plan, _ = _open(config)
    seen = status(plan)
    _show(seen, as_json)
    well = (
        seen["coordinator"]
        and all(node["alive"] for node in seen["nodes"])
        and all(query["state"] == "running" for query in seen["queries"])
    )
    if not well:
        raise typer.Exit(_FAILED)


@app.command("move", short_help="Move a query to another node.")
def move(
    query: Annotated[str, typer.Argument(metavar="QUERY")],
    node: Annotated[str, typer.Argument(metavar="NODE")],
    config: Config = _DEFAULT,
    wait: Wait = 120.0,
    as_json: Json = False,
) -> None:
    """Stop a query after its current batch and start it from its checkpoint on another node."""
    plan, folder = _open(config)
    plan.query(query), plan.node(node)

    def done(seen: Status) -> bool:
        return any(
            one["name"] == query and one["node"] == node and one["state"] == "running"
            for one in seen["queries"]
        )

    _request(plan, folder, done, wait, as_json, what="move", query=query, node=node)


@app.command("drain", short_help="Move all queries off a node.")
def drain(
    node: Annotated[str, typer.Argument(metavar="NODE")],
    undo: Annotated[bool, typer.Option("--undo", help="Use it again.")] = False,
    config: Config = _DEFAULT,
    wait: Wait = 180.0,
    as_json: Json = False,
) -> None:
    """Move all queries off a node, and place none there until `--undo`."""
    plan, folder = _open(config)
    plan.node(node)

    def done(seen: Status) -> bool:
        where = {one["name"]: one for one in seen["queries"]}
        if undo:
            return not any(one["name"] == node and one["draining"] for one in seen["nodes"])
        return all(
            where[query.name]["node"] != node and where[query.name]["state"] == "running"
            for query in plan.queries
            if query.movable
        )

    what = "undrain" if undo else "drain"
    _request(plan, folder, done, wait, as_json, what=what, node=node)


@app.command("down", short_help="Stop all queries after their batches, then the nodes.")
def down(config: Config = _DEFAULT, wait: Wait = 180.0, as_json: Json = False) -> None:
    """Stop everything; checkpoints stay, and `up` resumes from them."""
    from evenflow.fleet.coordinator import coordinator_lives

    plan, folder = _open(config)
    if folder.assignment() is None:
        raise InputError(f"there is no fleet in {plan.folder}")
    folder.ask(what="down")

    def left(seen: Status) -> int:
        return sum(node["alive"] for node in seen["nodes"])

    def over(seen: Status) -> bool:
        return not left(seen) and not seen["coordinator"]

    if not coordinator_lives(folder):
        folder.set_down(True)  # nodes read the assignment themselves
    seen = _wait_until("down", plan, over, wait, left)
    if as_json:
        print_json(seen)
    if not over(seen):
        _fail(f"still running after {wait:g} s; see {plan.folder / 'logs'}")


def _open(config: Path) -> tuple[Fleet, SharedFolder]:
    from evenflow.fleet.config import read_config
    from evenflow.fleet.folder import SharedFolder

    plan = read_config(config)
    return plan, SharedFolder(plan.folder)


def _request(
    plan: Fleet,
    folder: SharedFolder,
    done: Callable[[Status], bool],
    wait: float,
    as_json: bool,
    **request: str,
) -> None:
    """Send a request to the coordinator and wait until it is done."""
    from evenflow.fleet.coordinator import coordinator_lives

    if not coordinator_lives(folder):
        raise InputError("no coordinator is running; start it with `evenflow fleet up`")
    path = folder.ask(**request)
    refused = path.with_suffix(".refused")

    def over(seen: Status) -> bool:
        return refused.exists() or (not path.exists() and done(seen))

    seen = _wait_until(request["what"], plan, over, wait, lambda _: 0)
    if refused.exists():
        raise InputError(folder.refusal(refused))
    _show(seen, as_json)
    if not over(seen):
        _fail(f"not done after {wait:g} s; see {plan.folder / 'logs'}")


def _wait_until(
    title: str,
    plan: Fleet,
    over: Callable[[Status], bool],
    wait: float,
    count: Callable[[Status], int],
) -> Status:
    from evenflow.fleet.status import status

    deadline = time.monotonic() + wait
    with progress(f"fleet {title}") as report:
        while True:
            seen = status(plan)
            states = ", ".join(sorted({query["state"] for query in seen["queries"]}))
            report(f"queries: {states}" if seen["queries"] else "no queries", count(seen), None)
            if over(seen) or time.monotonic() > deadline:
                return seen
            time.sleep(0.3)


def _fail(message: str) -> None:
    note(message)
    raise typer.Exit(_FAILED)


def _show(seen: dict[str, Any], as_json: bool) -> None:
    if as_json:
        print_json(seen)
        return
    console = stdout()
    table = new_table()
    for i, heading in enumerate(("node", "state", "queries", "load", "± deviation", "process")):
        table.add_column(heading, justify="right" if i > 1 else "left", no_wrap=True)
    for node in seen["nodes"]:
        state = "draining" if node["draining"] else "alive" if node["alive"] else "not running"
        table.add_row(
            cell(node["name"], "bold"),
            state,
            str(node["queries"]),
            f"{node['load']:.2f}",
            f"{node['load_deviation']:.2f}",
            "–" if node["pid"] is None else str(node["pid"]),
        )
    console.print(table)
    table = new_table()
    for i, heading in enumerate(("query", "node", "state", "load", "batches", "error")):
        table.add_column(heading, justify="right" if i in (3, 4) else "left", no_wrap=i < 5)
    for query in seen["queries"]:
        table.add_row(
            cell(query["name"], "bold"),
            cell(query["node"] or "–"),
            query["state"],
            f"{query['load']:.2f}",
            str(query["batches"]),
            cell(query["error"][:120]),
        )
    console.print(table)
    say(console, f"average load correlation of the nodes: {seen['correlation']:.2f}")
    for made in seen["moves"][-5:]:
        at = time.strftime("%H:%M:%S", time.localtime(made["time"]))
        way = f"{made['query']}: {made['from'] or 'nowhere'} → {made['to']}"
        say(console, f"{at}  {way} ({made['reason']})")
    if not seen["coordinator"]:
        say(console, "no coordinator is running; start it with `evenflow fleet up`")
