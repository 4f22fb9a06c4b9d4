"""The directory that a coordinator and its nodes share: who is to run what, and what became of it.

    assignment.json     who is to run what; written by the coordinator, read by nodes
    nodes/NAME.json     a node's sign of life: process, queries, load; written by the node
    requests/ID.json    what somebody wants of the coordinator (move, drain, …)
    moves.jsonl         every move, with its reason
    starts.jsonl        every start of a node
    progress/NAME.jsonl every batch of a query
    logs/               what the processes say

Every file is replaced as a whole or appended to by one process, so whoever is killed leaves nothing
half done; and the coordinator keeps nothing in memory that it cannot read here again.
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
    """Who is to run what.

    Parameters:
        epoch: grows with every change.
        queries: query → node; "" for nowhere.
        incarnations: node → how often it has been started; a process of an older one must end.
        draining: nodes that are to be empty.
        placed: whether the first placement is done.
        down: whether all are to end.
    """

    epoch: int = 0
    queries: dict[str, str] = field(default_factory=dict)
    incarnations: dict[str, int] = field(default_factory=dict)
    draining: tuple[str, ...] = ()
    placed: bool = False
    down: bool = False


class SharedFolder:
    """Reads and writes the files."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def make(self) -> None:
        """The directories."""
        for name in ("nodes", "requests", "progress", "logs"):
            (self.path / name).mkdir(parents=True, exist_ok=True)

    def assignment(self) -> Assignment | None:
        """The latest; None before the first."""
        told = _read(self.path / "assignment.json")
        if told is None:
            return None
        return Assignment(**{**told, "draining": tuple(told["draining"])})

    def assign(self, assignment: Assignment) -> None:
        """Put a new one in place."""
        _write(self.path / "assignment.json", asdict(assignment))

    def report(self, node: str, told: dict[str, Any]) -> None:
        """A node's sign of life. Not made to outlast a crash of the machine: the next one is near."""
        path = self.path / "nodes" / f"{node}.json"
        hidden = path.with_name(f".{node}.{os.getpid()}.tmp")
        hidden.write_text(json.dumps(told), encoding="utf-8")
        os.replace(hidden, path)

    def reports(self) -> dict[str, dict[str, Any]]:
        """What every node has said last."""
        found = {
            path.stem: _read(path) for path in sorted((self.path / "nodes").glob("[!.]*.json"))
        }
        return {name: told for name, told in found.items() if told is not None}

    def ask(self, **request: Any) -> Path:
        """Leave a request for the coordinator; the file goes when it is done."""
        path = self.path / "requests" / f"{time.time_ns()}-{uuid4().hex[:8]}.json"
        _write(path, request)
        return path

    def requests(self) -> Iterator[tuple[Path, dict[str, Any]]]:
        """What is asked for, oldest first."""
        for path in sorted((self.path / "requests").glob("*.json")):
            told = _read(path)
            if told is not None:
                yield path, told

    def answer(self, request: Path, refusal: str | None) -> None:
        """A request is done, or cannot be."""
        if refusal is not None:
            _write(request.with_suffix(".refused"), {"reason": refusal})
        request.unlink(missing_ok=True)

    def refusal(self, answer: Path) -> str:
        """Why a request was refused; the answer is gone then."""
        told = _read(answer) or {"reason": "it was refused"}
        answer.unlink(missing_ok=True)
        return str(told["reason"])

    def say_down(self) -> None:
        """What the coordinator does when it is asked to, for when there is none."""
        now = self.assignment()
        if now is not None:
            self.assign(replace(now, epoch=now.epoch + 1, down=True))

    def forget_down(self) -> None:
        """The fleet may start again: with nodes that are started anew."""
        now = self.assignment()
        if now is not None:
            self.assign(replace(now, epoch=now.epoch + 1, down=False))
        for pattern in ("requests/*", "nodes/*", "starts.jsonl"):
            for path in self.path.glob(pattern):
                path.unlink(missing_ok=True)

    def append(self, name: str, line: dict[str, Any]) -> None:
        """One more line of a journal."""
        with open(self.path / name, "a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")

    def lines(self, name: str) -> list[dict[str, Any]]:
        """A journal, without a last line that was cut off."""
        try:
            text = (self.path / name).read_text(encoding="utf-8")
        except FileNotFoundError:
            return []
        found = []
        for line in text.splitlines():
            with suppress(ValueError):
                found.append(json.loads(line))
        return found


def _write(path: Path, told: dict[str, Any]) -> None:
    write_whole(path, [json.dumps(told, indent=1).encode()])


def _read(path: Path) -> dict[str, Any] | None:
    try:
        told: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    return told
