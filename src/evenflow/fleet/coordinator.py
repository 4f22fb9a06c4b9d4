"""The coordinator: collects loads, decides where queries run, and moves them.

    python -m evenflow.fleet.coordinator --config fleet.toml

All its state is in the shared folder. Killed at any moment and restarted, it continues where it was;
the nodes keep running meanwhile.
"""

from __future__ import annotations

import argparse
import fcntl
import os
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from evenflow.fleet import processes
from evenflow.fleet.config import Fleet, read_config
from evenflow.fleet.decision import worthwhile
from evenflow.fleet.folder import Assignment, SharedFolder
from evenflow.fleet.load import load_series, reported_bins
from evenflow.model import InputError
from evenflow.placement import make_placer
from evenflow.placement.protocol import Nodes, Observed, Proposal

HEARTBEAT = 0.25  # seconds between two rounds
STARTUP_TIMEOUT = 90.0  # seconds from a node's start to its first report


class Move(NamedTuple):
    query: str
    to: str


class Coordinator:
    """Runs in rounds: each reads the folder and changes the assignment at most once.

    Parameters:
        fleet: the configuration.
        config: the file it was read from, passed to nodes.
    """

    def __init__(self, fleet: Fleet, config: str) -> None:
        self.fleet, self.config = fleet, config
        self.folder = SharedFolder(fleet.folder)
        self.folder.make()
        self._reports: dict[str, dict[str, Any]] = {}
        self._last: Assignment | None = None  # that could be read
        self._decided_at = 0  # the bin of the last decision
        self._unsettled = self._bin(time.time())  # the last bin in which not every query ran

    def run(self) -> None:
        """Run rounds until the fleet is down."""
        with _only_one(self.folder):
            while not self.round():
                time.sleep(HEARTBEAT)

    def round(self) -> bool:
        """Run one round; return whether the fleet is down."""
        self._reports = self.folder.reports()
        before = self._read_assignment() or self._initial_assignment()
        now = self._answer_requests(before)
        if not now.down:
            now = self._place(self._drain(self._replace_dead(now)))
        if now != before:
            self.folder.assign(replace(now, epoch=max(before.epoch, now.epoch) + 1))
        self._last = self.folder.readable_assignment()
        return now.down and not any(processes.alive(one) for one in self._reports.values())

    # --- the steps of a round ---------------------------------------------------------------------

    def _read_assignment(self) -> Assignment | None:
        """The assignment in the folder, mended if it is damaged."""
        try:
            return self.folder.assignment()
        except InputError as error:
            print(error, file=sys.stderr, flush=True)
        self.folder.set_aside()
        mended = self._last or self._rebuilt()
        self.folder.assign(replace(mended, epoch=mended.epoch + 1))
        return self.folder.assignment()

    def _rebuilt(self) -> Assignment:
        """What journals and reports say of the assignment; draining nodes are in none of them."""
        first = self._first()
        queries, incarnations = dict(first.queries), dict(first.incarnations)
        moves = self.folder.lines("moves.jsonl")
        for move in moves:
            if move.get("query") in queries and move.get("to") in incarnations:
                queries[move["query"]] = move["to"]
        starts = self.folder.lines("starts.jsonl")
        for start in starts:
            if start.get("node") in incarnations and type(start.get("incarnation")) is int:
                incarnations[start["node"]] = start["incarnation"]
        epochs = [report.get("epoch") for report in self._reports.values()]
        epoch = max((one for one in epochs if type(one) is int), default=0)
        epoch += 2 * (len(moves) + len(starts)) + 1  # above all that nodes have seen
        placed = first.placed or any(move.get("reason") != "requested" for move in moves)
        return replace(
            first, epoch=epoch, queries=queries, incarnations=incarnations, placed=placed
        )

    def _initial_assignment(self) -> Assignment:
        first = self._first()
        self.folder.assign(first)
        return first

    def _first(self) -> Assignment:
        """Queries on the nodes that the configuration names; the others round-robin."""
        names = [node.name for node in self.fleet.nodes]
        queries = {
            query.name: query.node or names[i % len(names)]
            for i, query in enumerate(self.fleet.queries)
        }
        return Assignment(0, queries, dict.fromkeys(names, 0), placed=self.fleet.initial == "none")

    def _answer_requests(self, now: Assignment) -> Assignment:
        for path, request in self.folder.requests():
            refusal = None
            try:
                now = self._apply(now, request)
            except InputError as error:
                refusal = str(error)
            self.folder.answer(path, refusal)
        return now

    def _apply(self, now: Assignment, request: dict[str, Any]) -> Assignment:
        what = request.get("what")
        if what == "down":
            return replace(now, down=True)
        node = self.fleet.node(str(request.get("node"))).name
        if what == "move":
            query = self.fleet.query(str(request.get("query")))
            if not query.movable:
                raise InputError(f"query {query.name!r} is not movable")
            if node in now.draining:
                raise InputError(
                    f"node {node!r} is being drained; run `evenflow fleet drain {node} --undo` first"
                )
            return self._move(now, [Move(query.name, node)], "requested")
        if what == "drain":
            return replace(now, draining=tuple(sorted({*now.draining, node})))
        if what == "undrain":
            return replace(now, draining=tuple(one for one in now.draining if one != node))
        raise InputError(f"unknown request {what!r}")

    def _replace_dead(self, now: Assignment) -> Assignment:
        """Start nodes that have not started yet; kill and restart dead ones."""
        for spec in self.fleet.nodes:
            name, incarnation = spec.name, now.incarnations.get(spec.name, 0)
            report = self._reports.get(name)
            if (
                report is None
                and time.time() - self.folder.reported_at(name) < self.fleet.dead_after
            ):
                continue  # it has reported, but that cannot be read
            if report is None or report["incarnation"] != incarnation:
                if not incarnation or time.time() - self._started(name) > STARTUP_TIMEOUT:
                    now = self._start_node(now, name)
                continue
            if processes.responding(report, self.fleet.dead_after):
                continue
            if self.fleet.fence == "kill":
                processes.kill(report)
            silent = time.time() - report["time"]
            reason = f"node {name} gave no sign of life for {silent:.1f} s"
            now = self._evacuate(now, [name], reason)
            if self.fleet.restart:
                now = self._start_node(now, name)
        return now

    def _drain(self, now: Assignment) -> Assignment:
        return self._evacuate(now, now.draining, "its node is being drained")

    def _evacuate(self, now: Assignment, nodes: Sequence[str], reason: str) -> Assignment:
        """Move the queries of these nodes to the least loaded others, if there are any."""
        others = [node for node in self._usable(now) if node not in nodes]
        queries = [
            query
            for node in nodes
            for query, where in now.queries.items()
            if where == node and self.fleet.query(query).movable
        ]
        if not others or not queries:
            return now
        series = self._series(list(now.queries), self._bin(time.time()) - 2)
        load = dict(zip(now.queries, series.mean(axis=1).tolist(), strict=True))
        loads = {node.name: 0.0 for node in self.fleet.nodes}
        for query, node in now.queries.items():
            loads[node] += load[query]
        moves = []
        for query in queries:
            lightest = min(others, key=lambda one: loads[one] / self.fleet.node(one).capacity)
            moves.append(Move(query, lightest))
            loads[lightest] += max(load[query], 1e-6)
        return self._move(now, moves, reason)

    def _start_node(self, now: Assignment, name: str) -> Assignment:
        incarnation = now.incarnations.get(name, 0) + 1
        now = replace(
            now, epoch=now.epoch + 1, incarnations={**now.incarnations, name: incarnation}
        )
        self.folder.assign(now)  # before it starts: an older process of that name must end
        pid = processes.start(
            "evenflow.fleet.node",
            ["--config", self.config, "--name", name, "--incarnation", str(incarnation)],
            self.folder.path / "logs" / f"{name}.log",
        )
        self.folder.append(
            "starts.jsonl",
            {"node": name, "incarnation": incarnation, "pid": pid, "time": time.time()},
        )
        return now

    def _started(self, name: str) -> float:
        starts = [
            line["time"]
            for line in self.folder.lines("starts.jsonl")
            if line.get("node") == name and isinstance(line.get("time"), int | float)
        ]
        return float(starts[-1]) if starts else 0.0

    def _place(self, now: Assignment) -> Assignment:
        """Apply the algorithm's proposal, at intervals, while nothing else is in progress.

        Only samples in which every query ran where it is now count: those of a start or a move show
        how long it took, not what a query needs. A query that fails again and again stays where it is,
        and the others are placed without it.
        """
        name = self.fleet.algorithm if now.placed else self.fleet.initial
        if name == "none":
            return now
        if not self._all_running(now):
            self._unsettled = self._bin(time.time())
            return now
        last = self._last_known(now)
        if last - self._unsettled < self.fleet.samples:
            return now
        if last - self._decided_at < self.fleet.every:
            return now
        self._decided_at = last
        usable = self._usable(now)
        queries = [query for query in self._sound(now) if now.queries[query] in usable]
        if len(usable) < 2 or not queries:
            return now
        proposal = self._propose(name, now, usable, queries, last)
        if not proposal.observed.series.any():
            return now  # no data has arrived yet
        chosen = worthwhile(
            proposal, self.fleet.most_moves if now.placed else None, self.fleet.least_gain
        )
        moves = [Move(queries[i], usable[chosen.node[i]]) for i in np.flatnonzero(chosen.moved())]
        return self._move(replace(now, placed=True), moves, f"{name}: {chosen.reason()}")

    def _propose(
        self, name: str, now: Assignment, usable: list[str], queries: list[str], last: int
    ) -> Proposal:
        observed = Observed.of(
            self._series(queries, last),
            node=[usable.index(now.queries[query]) for query in queries],
            movable=[self.fleet.query(query).movable for query in queries],
            period=last,
        )
        capacities = tuple(self.fleet.node(node).capacity for node in usable)
        return make_placer(name).propose(observed, Nodes(len(usable), capacities))

    # --- the current state ------------------------------------------------------------------------

    def _all_running(self, now: Assignment) -> bool:
        """Whether every query runs on its assigned node, but for those that fail."""
        sound = self._sound(now)
        return bool(sound) and all(
            self._lives(node, now)
            and self._reports[node]["queries"].get(query, {}).get("state") == "running"
            for query, node in sound.items()
        )

    def _sound(self, now: Assignment) -> dict[str, str]:
        """Query → node, without the queries that have failed since their last batch."""

        def failures(query: str, node: str) -> int:
            report = self._reports.get(node, {"queries": {}})["queries"].get(query, {})
            return int(report.get("failures", 0))

        return {query: node for query, node in now.queries.items() if not failures(query, node)}

    def _last_known(self, now: Assignment) -> int:
        """The last bin for which all loads are known: a batch reports when it ends."""
        sound = self._sound(now).items()
        known = [self._reports[node]["queries"][query]["known"] for query, node in sound]
        return self._bin(min(known, default=time.time())) - 1

    def _bin(self, moment: float) -> int:
        return int(moment // self.fleet.sample)

    def _usable(self, now: Assignment) -> list[str]:
        """Nodes that are alive and not being drained."""
        return [
            spec.name
            for spec in self.fleet.nodes
            if spec.name not in now.draining and self._lives(spec.name, now)
        ]

    def _lives(self, name: str, now: Assignment) -> bool:
        report = self._reports.get(name)
        return (
            report is not None
            and report["incarnation"] == now.incarnations.get(name)
            and processes.responding(report, self.fleet.dead_after)
        )

    def _series(self, queries: list[str], last: int) -> npt.NDArray[np.float64]:
        return load_series(reported_bins(self._reports), queries, last, self.fleet.samples)

    def _move(self, now: Assignment, moves: list[Move], reason: str) -> Assignment:
        """Assign queries to other nodes, and log it."""
        moves = [move for move in moves if now.queries.get(move.query) != move.to]
        for move in moves:
            line = {
                "time": time.time(),
                "query": move.query,
                "from": now.queries.get(move.query, ""),
                "to": move.to,
                "reason": reason,
            }
            self.folder.append("moves.jsonl", line)
        return replace(now, queries={**now.queries, **{move.query: move.to for move in moves}})


_LOCK = "coordinator.lock"


@contextmanager
def _only_one(folder: SharedFolder, timeout: float = 3.0) -> Iterator[None]:
    """Keep a second coordinator out."""
    descriptor = os.open(folder.path / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    deadline = time.monotonic() + timeout  # `coordinator_lives` holds the lock for a moment
    try:
        while not _try_lock(descriptor, fcntl.LOCK_EX):
            if time.monotonic() > deadline:
                raise InputError(f"another coordinator is running in {folder.path}")
            time.sleep(0.05)
        yield
    finally:
        os.close(descriptor)


def coordinator_lives(folder: SharedFolder) -> bool:
    """Whether a coordinator is running in this folder."""
    try:
        descriptor = os.open(folder.path / _LOCK, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        return not _try_lock(descriptor, fcntl.LOCK_SH)
    finally:
        os.close(descriptor)


def _try_lock(descriptor: int, kind: int) -> bool:
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def main() -> None:
    """Run until the fleet is taken down."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--config", required=True)
    arguments = parser.parse_args()
    Coordinator(read_config(arguments.config), os.path.abspath(arguments.config)).run()


if __name__ == "__main__":
    main()
