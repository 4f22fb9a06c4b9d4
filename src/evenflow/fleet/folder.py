"""The directory that a coordinator and its nodes share: assignment, reports, requests, journals.

    assignment.json     which node runs which query; written by the coordinator, read by nodes
    nodes/NAME.json     a node's latest report: process, queries, load; written by the node
    requests/ID.json    a request to the coordinator (move, drain, …)
    moves.jsonl         every move, with its reason
    starts.jsonl        every start of a node
    progress/NAME.jsonl every batch of a query
    logs/               output of the processes

Every file is replaced as a whole or appended to by one process, so a killed process leaves nothing
half-written, and the coordinator can rebuild its memory from here.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any
from uuid import uuid4

from evenflow.storage.durable import write_whole


@dataclass(frozen=True)
class Assignment:
    """Which node runs which query.

    Parameters:
        epoch: grows with every change.
        queries: query → node; "" for none.
        incarnations: node → how often it has been started; a process of an older incarnation ends.
        draining: nodes that must not run queries.
        placed: whether the first placement is done.
        down: whether the fleet must stop.
    """

    epoch: int = 0
    queries: dict[str, str] = field(default_factory=dict)
    incarnations: dict[str, int] = field(default_factory=dict)
    draining: tuple[str, ...] = ()
    placed: bool = False
    down: bool = False


class SharedFolder:
    """Reads and writes these files."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def make(self) -> None:
        """Create the directories."""
        for name in ("nodes", "requests", "progress", "logs"):
            (self.path / name).mkdir(parents=True, exist_ok=True)

    def assignment(self) -> Assignment | None:
        """The latest assignment; None before the first."""
        found = _read(self.path / "assignment.json")
        if found is None:
            return None
        return Assignment(**{**found, "draining": tuple(found["draining"])})

    def assign(self, assignment: Assignment) -> None:
        """Replace the assignment."""
        _write(self.path / "assignment.json", asdict(assignment))

    def report(self, node: str, content: dict[str, Any]) -> None:
        """Replace a node's report. Not synced to disk: the next one follows soon."""
        path = self.path / "nodes" / f"{node}.json"
        hidden = path.with_name(f".{node}.{os.getpid()}.tmp")
        hidden.write_text(json.dumps(content), encoding="utf-8")
        os.replace(hidden, path)

    def reports(self) -> dict[str, dict[str, Any]]:
        """The latest report of every node."""
        found = {
            path.stem: _read(path) for path in sorted((self.path / "nodes").glob("[!.]*.json"))
        }
        return {name: report for name, report in found.items() if report is not None}

    def ask(self, **request: Any) -> Path:
        """Leave a request for the coordinator, who removes the file when it has answered."""
        path = self.path / "requests" / f"{time.time_ns()}-{uuid4().hex[:8]}.json"
        _write(path, request)
        return path

    def requests(self) -> Iterator[tuple[Path, dict[str, Any]]]:
        """Open requests, oldest first."""
        for path in sorted((self.path / "requests").glob("*.json")):
            request = _read(path)
            if request is not None:
                yield path, request

    def answer(self, request: Path, refusal: str | None) -> None:
        """Close a request, granted or refused."""
        if refusal is not None:
            _write(request.with_suffix(".refused"), {"reason": refusal})
        request.unlink(missing_ok=True)

    def refusal(self, answer: Path) -> str:
        """Read and remove the reason why a request was refused."""
        found = _read(answer) or {"reason": "it was refused"}
        answer.unlink(missing_ok=True)
        return str(found["reason"])

    def set_down(self, down: bool) -> None:
        """Have the nodes stop or start, while no coordinator is running."""
        now = self.assignment()
        if now is not None:
            self.assign(replace(now, epoch=now.epoch + 1, down=down))

    def reset(self) -> None:
        """Let the fleet start again, with new processes."""
        self.set_down(False)
        for pattern in ("requests/*", "nodes/*", "starts.jsonl"):
            for path in self.path.glob(pattern):
                path.unlink(missing_ok=True)

    def append(self, name: str, line: dict[str, Any]) -> None:
        """Append a line to a journal."""
        with open(self.path / name, "a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")

    def lines(self, name: str) -> list[dict[str, Any]]:
        """The lines of a journal, except a truncated last one."""
        try:
            text = (self.path / name).read_text(encoding="utf-8")
        except FileNotFoundError:
            return []
        found = []
        for line in text.splitlines():
            with suppress(ValueError):
                found.append(json.loads(line))
        return found


def _write(path: Path, content: dict[str, Any]) -> None:
    write_whole(path, [json.dumps(content, indent=1).encode()])


def _read(path: Path) -> dict[str, Any] | None:
    try:
        content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    return content
