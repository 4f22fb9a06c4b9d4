"""`evenflow cluster up`: a standalone Spark cluster on this machine."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from evenflow.cli.interrupts import until_interrupted
from evenflow.cli.options import Json, command_group
from evenflow.cli.terminal import note, progress

if TYPE_CHECKING:
    from evenflow.spark.standalone_cluster import StandaloneCluster

_ENDED_BY_ITSELF = 1
_LOOK_EVERY = 1.0  # seconds

app = command_group("A Spark cluster on this machine, to test on.")


@app.command("up", short_help="Start a master and workers, and stop them with Ctrl-C.")
def up(
    workers: Annotated[int, typer.Option(min=1, help="How many.")] = 3,
    cores: Annotated[int, typer.Option(min=1, help="Tasks at a time on each worker.")] = 2,
    memory: Annotated[str, typer.Option(help="For the executors of each worker: 512m, 2g.")] = "1g",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Of the master; 0: a free one.")] = 0,
    folder: Annotated[
        Path | None, typer.Option(help="Keep logs and work here; else nothing is kept.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Start a standalone Spark master and workers on loopback, print the master's URL, and run.

    Each worker has directories of its own and shares nothing with the others, as on several machines.
    Ctrl-C or SIGTERM ends all processes, and so does the end of this one, however it ends. Exit code 1
    if the master ended by itself.
    """
    from evenflow.spark.standalone_cluster import StandaloneCluster

    with until_interrupted():
        with progress("starting Spark") as report:
            cluster = StandaloneCluster.start(
                workers, cores=cores, memory=memory, port=port, folder=folder, report=report
            )
        with cluster:
            print(json.dumps(_described(cluster)) if as_json else cluster.url, flush=True)
            note(f"{workers} workers with {cores} cores each; logs in {cluster.folder}")
            note(f"in Python:  evenflow.spark.session.local_session({cluster.url!r})")
            note(f"or:         spark-submit --master {cluster.url} job.py")
            note(f"check it:   evenflow doctor --master {cluster.url}")
            note("Ctrl-C stops it")
            _watch(cluster)


def _watch(cluster: StandaloneCluster) -> None:
    """Until the master ends; tells of workers that end before."""
    alive = {worker.name: worker for worker in cluster.workers}
    while cluster.master.running:
        for name in [name for name, worker in alive.items() if not worker.running]:
            note(f"{name} (process {alive.pop(name).pid}) has ended")
        time.sleep(_LOOK_EVERY)
    note("the master ended by itself")
    raise typer.Exit(_ENDED_BY_ITSELF)


def _described(cluster: StandaloneCluster) -> dict[str, object]:
    nodes = [cluster.master, *cluster.workers]
    return {
        "master": cluster.url,
        "folder": str(cluster.folder),
        "nodes": [
            {"name": node.name, "pid": node.pid, "folder": str(node.folder), "log": str(node.log)}
            for node in nodes
        ],
    }
