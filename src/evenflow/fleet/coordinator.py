"""The coordinator: collects loads, decides where queries run, and has them moved.

    python -m evenflow.fleet.coordinator --config fleet.toml

It keeps nothing that it could not read from the shared folder again: killed at any moment, and started
again, it goes on where it was, and the nodes have run on meanwhile.
"""

from __future__ import annotations

import argparse
import fcntl
import os
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
from evenflow.fleet.load import load_series, told_bins
from evenflow.model import InputError
from evenflow.placement import make_placer
from evenflow.placement.protocol import Nodes, Observed, Proposal

BEAT = 0.25  # seconds between two rounds
PATIENCE = 90.0  # seconds that a node is given to start, before its first sign of life


class Move(NamedTuple):
    query: str
    to: str


class Coordinator:
    """One round after the other: each reads what there is, and changes the assignment at most once.

    Parameters:
        fleet: what there is.
        config: the file that it was read from, for nodes that are started.
    """

    def __init__(self, fleet: Fleet, config: str) -> None:
        self.fleet, self.config = fleet, config
        self.folder = SharedFolder(fleet.folder)
        self.folder.make()
        self._reports: dict[str, dict[str, Any]] = {}
        self._decided_at = 0  # the bin of the last decision
        self._unsettled = self._bin(time.time())  # the last bin in which not every query ran

    def run(self) -> None:
        """Until the fleet is down."""
        with _only_one(self.folder):
            while not self.round():
                time.sleep(BEAT)

    def round(self) -> bool:
        """One round; whether the fleet is down."""
        self._reports = self.folder.reports()
        before = self.folder.assignment() or self._first()
        now = self._answered(before)
        if now.down:
            self._put(before, now)
            return not any(processes.alive(told) for told in self._reports.values())
        now = self._buried(now)
        now = self._settled(now)
        now = self._placed(now)
        self._put(before, now)
        return False

    # --- one step of a round each ----------------------------------------------------------------

    def _first(self) -> Assignment:
        """Queries where they are said to start, the others in turn."""
        names = [node.name for node in self.fleet.nodes]
        queries = {
            query.name: query.node or names[i % len(names)]
            for i, query in enumerate(self.fleet.queries)
        }
        first = Assignment(0, queries, dict.fromkeys(names, 0), placed=self.fleet.initial == "none")
        self.folder.assign(first)
        return first

    def _answered(self, now: Assignment) -> Assignment:
        """What people have asked for."""
        for path, request in self.folder.requests():
            refusal = None
            try:
                now = self._granted(now, request)
            except InputError as error:
                refusal = str(error)
            self.folder.answer(path, refusal)
        return now

    def _granted(self, now: Assignment, request: dict[str, Any]) -> Assignment:
        what = request.get("what")
        if what == "down":
            return replace(now, down=True)
        node = self.fleet.node(str(request.get("node"))).name
        if what == "move":
            query = self.fleet.query(str(request.get("query")))
            if not query.movable:
                raise InputError(f"query {query.name!r} is not movable")
            if node in now.draining:
                raise InputError(f"node {node!r} is being drained; take that back first")
            return self._moved(now, [Move(query.name, node)], "asked for")
        if what == "drain":
            return replace(now, draining=tuple(sorted({*now.draining, node})))
        if what == "undrain":
            return replace(now, draining=tuple(one for one in now.draining if one != node))
        raise InputError(f"there is no request {what!r}")

    def _buried(self, now: Assignment) -> Assignment:
        """Nodes that are dead or not there yet: killed for good, and started (again)."""
        for spec in self.fleet.nodes:
            name, incarnation = spec.name, now.incarnations.get(spec.name, 0)
            told = self._reports.get(name)
            if told is None or told["incarnation"] != incarnation:
                if not incarnation or time.time() - self._started(name) > PATIENCE:
                    now = self._with_new(now, name)
                continue
            silent = time.time() - told["time"]
            if processes.alive(told) is not False and silent < self.fleet.dead_after:
                continue
            if self.fleet.fence == "kill":
                processes.kill(told)
            now = self._without(now, name, f"node {name} gave no sign of life for {silent:.1f} s")
            if self.fleet.restart:
                now = self._with_new(now, name)
        return now

    def _without(self, now: Assignment, name: str, reason: str) -> Assignment:
        """Its queries somewhere else, if there is a node."""
        others = [n for n in self._usable(now) if n != name]
        if not others:
            return now
        loads = self._average_loads(now)
        moves = []
        for query in self._on(now, name):
            if self.fleet.query(query).movable:
                lightest = min(
                    others, key=lambda node: loads[node] / self.fleet.node(node).capacity
                )
                moves.append(Move(query, lightest))
                loads[lightest] += max(self._load(query), 1e-6)
        return self._moved(now, moves, reason)

    def _with_new(self, now: Assignment, name: str) -> Assignment:
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
            line["time"] for line in self.folder.lines("starts.jsonl") if line["node"] == name
        ]
        return float(starts[-1]) if starts else 0.0

    def _settled(self, now: Assignment) -> Assignment:
        """Queries off nodes that are being drained."""
        moves: list[Move] = []
        loads = self._average_loads(now)
        others = self._usable(now)
        for node in now.draining:
            for query in self._on(now, node):
                if others and self.fleet.query(query).movable:
                    lightest = min(
                        others, key=lambda one: loads[one] / self.fleet.node(one).capacity
                    )
                    moves.append(Move(query, lightest))
                    loads[lightest] += max(self._load(query), 1e-6)
        return self._moved(now, moves, "its node is being drained") if moves else now

    def _placed(self, now: Assignment) -> Assignment:
        """What the algorithm proposes, every so often, while nothing else is under way.

        It looks only at samples in which every query ran where it is now: those of a start or a move
        say how long it took, and not what a query needs.
        """
        name = self.fleet.algorithm if now.placed else self.fleet.initial
        if name == "none":
            return now
        if not self._quiet(now):
            self._unsettled = self._bin(time.time())
            return now
        last = self._last_known(now)
        if last - self._unsettled < self.fleet.samples:
            return now
        if last - self._decided_at < self.fleet.every:
            return now
        self._decided_at = last
        usable = self._usable(now)
        queries = [query for query in now.queries if now.queries[query] in usable]
        if len(usable) < 2 or not queries:
            return now
        proposal = self._proposed(name, now, usable, queries, last)
        if not proposal.observed.series.any():
            return now  # nothing has come yet
        chosen = worthwhile(
            proposal, self.fleet.most_moves if now.placed else None, self.fleet.least_gain
        )
        moves = [Move(queries[i], usable[chosen.node[i]]) for i in np.flatnonzero(chosen.moved())]
        return self._moved(replace(now, placed=True), moves, f"{name}: {chosen.reason()}")

    def _proposed(
        self, name: str, now: Assignment, usable: list[str], queries: list[str], last: int
    ) -> Proposal:
        series = load_series(told_bins(self._reports), queries, last, self.fleet.samples)
        observed = Observed.of(
            series,
            node=[usable.index(now.queries[query]) for query in queries],
            movable=[self.fleet.query(query).movable for query in queries],
            period=last,
        )
        capacities = tuple(self.fleet.node(node).capacity for node in usable)
        return make_placer(name).propose(observed, Nodes(len(usable), capacities))

    # --- what there is ---------------------------------------------------------------------------

    def _quiet(self, now: Assignment) -> bool:
        """Whether every query runs where it should."""
        return all(
            self._lives(node, now)
            and self._reports[node]["queries"].get(query, {}).get("state") == "running"
            for query, node in now.queries.items()
        )

    def _last_known(self, now: Assignment) -> int:
        """The last bin of which all loads are known: batches tell when they are over."""
        known = [self._reports[node]["queries"][q]["known"] for q, node in now.queries.items()]
        return self._bin(min(known, default=time.time())) - 1

    def _bin(self, moment: float) -> int:
        return int(moment // self.fleet.sample)

    def _usable(self, now: Assignment) -> list[str]:
        """Nodes that live and are not being drained."""
        return [
            spec.name
            for spec in self.fleet.nodes
            if spec.name not in now.draining and self._lives(spec.name, now)
        ]

    def _lives(self, name: str, now: Assignment) -> bool:
        told = self._reports.get(name)
        return (
            told is not None
            and told["incarnation"] == now.incarnations.get(name)
            and processes.alive(told) is not False
            and time.time() - told["time"] < self.fleet.dead_after
        )

    def _on(self, now: Assignment, node: str) -> list[str]:
        return [query for query, where in now.queries.items() if where == node]

    def _load(self, query: str) -> float:
        return float(self._series([query]).mean())

    def _series(self, queries: Sequence[str]) -> npt.NDArray[np.float64]:
        last = self._bin(time.time()) - 2
        return load_series(told_bins(self._reports), list(queries), last, self.fleet.samples)

    def _average_loads(self, now: Assignment) -> dict[str, float]:
        loads = {node.name: 0.0 for node in self.fleet.nodes}
        for query, node in now.queries.items():
            loads[node] += self._load(query)
        return loads

    # --- what changes ----------------------------------------------------------------------------

    def _moved(self, now: Assignment, moves: list[Move], reason: str) -> Assignment:
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

    def _put(self, before: Assignment, now: Assignment) -> None:
        if now != before:
            self.folder.assign(replace(now, epoch=max(before.epoch, now.epoch) + 1))


_LOCK = "coordinator.lock"


@contextmanager
def _only_one(folder: SharedFolder, patience: float = 3.0) -> Iterator[None]:
    """Keeps a second coordinator out."""
    descriptor = os.open(folder.path / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    deadline = time.monotonic() + patience  # somebody may only be looking whether there is one
    try:
        while not _locked(descriptor, fcntl.LOCK_EX):
            if time.monotonic() > deadline:
                raise InputError(f"another coordinator is at work in {folder.path}")
            time.sleep(0.05)
        yield
    finally:
        os.close(descriptor)


def coordinator_lives(folder: SharedFolder) -> bool:
    """Whether one is at work there."""
    try:
        descriptor = os.open(folder.path / _LOCK, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        return not _locked(descriptor, fcntl.LOCK_SH)
    finally:
        os.close(descriptor)


def _locked(descriptor: int, kind: int) -> bool:
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def main() -> None:
    """Go on until the fleet is taken down."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--config", required=True)
    told = parser.parse_args()
    Coordinator(read_config(told.config), os.path.abspath(told.config)).run()


if __name__ == "__main__":
    main()
