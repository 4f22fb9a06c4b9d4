"""Twelve queries on three Spark applications, placed by load correlation, by its rivals, or not.

The inputs of four queries each burst together, in three phases. In the *connected* plan the queries
of a phase share a node, as the operators of one stream would; it is left as it is. Then the same
load is placed by the correlation of loads (*placed*), by largest load first and at random. While the
placed fleet runs, a node and the coordinator are killed with SIGKILL. In the end the output of every
query is compared with what was sent.

Latency: seconds from the beginning of a batch to its end, by Spark's clock, of all queries. Nodes
have one core each (`local[1]`); a query sleeps for every row in its only task, so queries of a node
wait for each other as they would for a real core.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np

from evenflow.fleet.config import read_config
from evenflow.fleet.status import status
from evenflow_lab.benchmarks.outcome import Progress, Result, Table, say_nothing
from evenflow_lab.checking.fleet_feed import Feed, config

PHASES = 3
#: plan → the first placement, and all later ones
PLANS = {
    "connected": ("none", "none"),
    "placed": ("cor-glb", "cor-se-imp"),
    "largest load first": ("llf-glb", "llf-bal"),
    "random": ("rand-glb", "rand-bal"),
}


@dataclass(frozen=True)
class Settings:
    """The options of `run`."""

    queries: int
    period: float
    periods: int
    low: int
    high: int
    service: float
    trigger: str


def run_plan(folder: Path, options: Settings, name: str, kills: bool) -> dict[str, Any]:
    """One of `PLANS`, from `up` to `down`; its figures."""
    initial, algorithm = PLANS[name]
    queries = {
        f"{'pqr'[phase]}{i}": ("counted" if i % 2 else "totals")
        for phase in range(PHASES)
        for i in range(options.queries // PHASES)
    }
    phases = {name: "pqr".index(name[0]) / PHASES for name in queries}
    path = config(
        folder,
        PHASES,
        queries,
        {name: "abc"["pqr".index(name[0])] for name in queries},
        service=options.service,
        trigger=options.trigger,
        sample=1.0,
        samples=round(options.period),
        every=10,
        initial=initial,
        algorithm=algorithm,
        dead_after=10.0,
    )
    feed = Feed(folder, phases, options.period, options.low, options.high)
    for query in queries:
        feed.add(query, 5)

    def fleet(*words: str) -> None:
        command = [sys.executable, "-m", "evenflow.cli", "fleet", *words, "-c", str(path)]
        done = subprocess.run(command, stdout=subprocess.DEVNULL)
        if done.returncode:
            logs = sorted((folder / "run" / "logs").glob("*.log"))
            raise SystemExit(f"fleet {words} failed: {[log.read_text()[-2000:] for log in logs]}")

    began = time.time()
    fleet("up", "--wait", "300")
    figures: dict[str, Any] = {"plan": name}
    figures["seconds until all run"] = round(time.time() - began, 1)
    try:
        feed.start()
        plan = read_config(path)
        if initial != "none":
            # A rival may find that nothing is worth a move.
            wait_for(
                lambda: len(status(plan)["moves"]) > 0,
                10 * options.period,
                give_up=name == "placed",
            )
            wait_for(lambda: quiet(status(plan)), 120)
        time.sleep(options.period)
        since = time.time()
        time.sleep(options.periods * options.period)
        until = time.time()
        seen = status(plan)
        figures |= latencies(plan.folder, since, until)
        figures["node loads"] = [round(node["load"], 2) for node in seen["nodes"]]
        figures["load deviation"] = [round(node["load_deviation"], 2) for node in seen["nodes"]]
        figures["correlation"] = round(seen["correlation"], 2)
        figures["moves"] = len(seen["moves"])
        figures["reasons"] = sorted({move["reason"] for move in seen["moves"]})
        if kills:
            figures["kills"] = killed(plan, path, fleet)
    finally:
        feed.stop()
        if sys.exc_info()[0] is None:
            wait_for(lambda: not feed.wrong(queries), 180, give_up=False)
        fleet("down")
    figures["rows"] = sum(feed.rows.values())
    figures["wrong outputs"] = feed.wrong(queries)
    return figures


def killed(plan: Any, path: Path, fleet: Callable[..., None]) -> list[str]:
    """A node, then the coordinator, then both."""
    recoveries: list[str] = []
    for victims in (("node",), ("coordinator",), ("node", "coordinator")):
        nodes = [node for node in status(plan)["nodes"] if node["alive"]]
        if "node" in victims:
            os.killpg(nodes[len(recoveries) % len(nodes)]["pid"], signal.SIGKILL)
        if "coordinator" in victims:
            command = f"evenflow.fleet.coordinator --config {path}"
            subprocess.run(["pkill", "-KILL", "-f", command], check=True)
        began = time.time()
        time.sleep(3)
        fleet("up", "--wait", "300")
        recoveries.append(
            f"{' and '.join(victims)}: all ran again after {time.time() - began:.0f} s"
        )
    return recoveries


def latencies(folder: Path, since: float, until: float) -> dict[str, Any]:
    """Of the batches with rows that ended in that time."""
    batches = [
        line
        for file in (folder / "progress").glob("*.jsonl")
        for line in map(json.loads, file.read_text().splitlines())
        if since <= line["began"] + line["seconds"] <= until
    ]
    seconds = np.array([line["seconds"] for line in batches])
    p50, p95, p99 = np.percentile(seconds, [50, 95, 99])
    return {
        "batches": len(batches),
        "rows in them": sum(line["rows"] for line in batches),
        "batch p50": round(float(p50), 2),
        "p95": round(float(p95), 2),
        "p99": round(float(p99), 2),
        "longest": round(float(seconds.max()), 2),
    }


def quiet(seen: dict[str, Any]) -> bool:
    return all(query["state"] == "running" for query in seen["queries"])


def wait_for(what: Callable[[], bool], seconds: float, give_up: bool = True) -> None:
    deadline = time.monotonic() + seconds
    while not what():
        if time.monotonic() > deadline:
            if give_up:
                raise SystemExit("what was waited for did not happen")
            return
        time.sleep(0.5)


def run(
    queries: Annotated[int, "Queries; a third of them in each phase."] = 12,
    period: Annotated[float, "Seconds between two bursts."] = 60.0,
    periods: Annotated[int, "Periods that are measured."] = 2,
    low: Annotated[int, "Rows per second and query."] = 5,
    high: Annotated[int, "Rows per second and query in a burst."] = 60,
    service: Annotated[float, "Seconds per row."] = 0.005,
    trigger: Annotated[str, "Time between two batches of a query."] = "8 seconds",
    no_kills: Annotated[bool, "Kill nothing."] = False,
    progress: Progress = say_nothing,
) -> Result:
    options = Settings(queries, period, periods, low, high, service, trigger)
    found: list[dict[str, Any]] = []
    for name in PLANS:
        with tempfile.TemporaryDirectory(prefix="evenflow-fleet-") as folder:
            progress(f"{name} plan", len(found), len(PLANS))
            kills = name == "placed" and not no_kills
            found.append(run_plan(Path(folder), options, name, kills))
    return Result(
        {"parameters": {**asdict(options), "no_kills": no_kills}, "figures": found},
        tuple(
            Table(
                [{"": name, "value": value} for name, value in figures.items()],
                f"{figures['plan']} plan",
            )
            for figures in found
        ),
        passed=not any(figures["wrong outputs"] for figures in found),
    )
