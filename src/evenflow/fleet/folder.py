"""The directory that a coordinator and its nodes share: assignment, reports, requests, journals.

    assignment.json     which node runs which query; written by the coordinator, read by nodes
    nodes/NAME.json     a node's latest report: process, queries, load; written by the node
    requests/ID.json    a request to the coordinator (move, drain, …)
    moves.jsonl         every move, with its reason
    starts.jsonl        every start of a node
    progress/NAME.jsonl every batch of a query
    logs/               output of the processes

Every file is replaced as a whole or appended to by one process, so a killed process leaves nothing
half-written, and the coordinator can rebuild its memory from here. Others may write here, too, and
disks fail: what cannot be read never ends a process. A damaged request is refused, a damaged report
counts as none, and a damaged assignment is an `InputError`, which nodes wait out and the coordinator
mends.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any
from uuid import uuid4

from evenflow.model import InputError
from evenflow.storage.durable import write_whole

_SETTLED = 5.0  # seconds after which nobody is writing a file any more


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
        path = self.path / "assignment.json"
        try:
            found = _read(path)
            return None if found is None else _assignment_in(found)
        except _Damaged as error:
            raise InputError(
                f"{path} is damaged ({error}); a running coordinator mends it, and "
                "`evenflow fleet up` starts one"
            ) from None

    def readable_assignment(self) -> Assignment | None:
        """The latest assignment; None also if it is damaged."""
        try:
            return self.assignment()
        except InputError:
            return None

    def set_aside(self) -> None:
        """Keep a damaged assignment, for whoever wants to know what happened to it."""
        with suppress(FileNotFoundError):
            os.replace(self.path / "assignment.json", self.path / "assignment.damaged")

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
        found = {}
        for path in sorted((self.path / "nodes").glob("[!.]*.json")):
            with suppress(_Damaged):
                report = _read(path)
                if report is not None:
                    found[path.stem] = _checked_report(report)
        return found

    def reported_at(self, node: str) -> float:
        """When the file of a node's report was written, whatever it holds, in seconds since 1970."""
        try:
            return (self.path / "nodes" / f"{node}.json").stat().st_mtime
        except FileNotFoundError:
            return 0.0

    def ask(self, **request: Any) -> Path:
        """Leave a request for the coordinator, who removes the file when it has answered."""
        path = self.path / "requests" / f"{time.time_ns()}-{uuid4().hex[:8]}.json"
        _write(path, request)
        return path

    def requests(self) -> Iterator[tuple[Path, dict[str, Any]]]:
        """Open requests, oldest first."""
        for path in sorted((self.path / "requests").glob("*.json")):
            try:
                request = _read(path)
            except _Damaged as error:
                with suppress(FileNotFoundError):
                    if time.time() - path.stat().st_mtime > _SETTLED:
                        self.answer(path, f"this is not a request: {error}")
                continue
            if request is not None:
                yield path, request

    def answer(self, request: Path, refusal: str | None) -> None:
        """Close a request, granted or refused."""
        if refusal is not None:
            _write(request.with_suffix(".refused"), {"reason": refusal})
        request.unlink(missing_ok=True)

    def refusal(self, answer: Path) -> str:
        """Read and remove the reason why a request was refused."""
        found = None
        with suppress(_Damaged):
            found = _read(answer)
        answer.unlink(missing_ok=True)
        return str((found or {}).get("reason", "it was refused"))

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
        """The lines of a journal, except a truncated last one, and what else is not an object."""
        try:
            content = (self.path / name).read_bytes()
        except FileNotFoundError:
            return []
        found = []
        for line in content.splitlines():
            with suppress(_Damaged):
                found.append(_object_in(line))
        return found


class _Damaged(Exception):
    """Why a file is not what it should be."""


def _write(path: Path, content: dict[str, Any]) -> None:
    write_whole(path, [json.dumps(content, indent=1).encode()])


def _read(path: Path) -> dict[str, Any] | None:
    try:
        return _object_in(path.read_bytes())
    except FileNotFoundError:
        return None


def _object_in(content: bytes) -> dict[str, Any]:
    try:
        found = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise _Damaged(f"not JSON: {error}") from None
    if not isinstance(found, dict):
        raise _Damaged("not a JSON object")
    return found


def _assignment_in(found: dict[str, Any]) -> Assignment:
    known = {one.name for one in fields(Assignment)}
    if set(found) != known:
        raise _Damaged(f"its fields are not {', '.join(sorted(known))}")
    found = {**found, "draining": _checked(found, "draining", list)}
    names = [found["draining"], *(list(_checked(found, part, dict)) for part in _PARTS)]
    names.append(list(found["queries"].values()))
    if not all(isinstance(name, str) for part in names for name in part):
        raise _Damaged("a name is not a text")
    if not all(type(n) is int for n in (found["epoch"], *found["incarnations"].values())):
        raise _Damaged("a number is not whole")
    _checked(found, "placed", bool), _checked(found, "down", bool)
    return Assignment(**{**found, "draining": tuple(found["draining"])})


_PARTS = ("queries", "incarnations")


def _checked_report(report: dict[str, Any]) -> dict[str, Any]:
    _checked(report, "incarnation", int), _checked(report, "pid", int)
    _number(report, "time")
    for query in _checked(report, "queries", dict).values():
        if not isinstance(query, dict):
            raise _Damaged("a query is not an object")
        _checked(query, "state", str)
        _number(query, "known")
        for at, share in _checked(query, "busy", dict).items():
            is_bin = at.removeprefix("-").isdecimal() and at.isascii() and len(at) <= 18
            if not is_bin or type(share) not in (int, float) or not abs(share) < _LATEST:
                raise _Damaged("busy time that is none")
        if type(query.get("failures", 0)) is not int:
            raise _Damaged("failures are not a whole number")
    return report


def _checked(found: dict[str, Any], name: str, kind: type) -> Any:
    value = found.get(name)
    if type(value) is not kind:
        raise _Damaged(f"{name} is not of type {kind.__name__}")
    return value


def _number(found: dict[str, Any], name: str) -> None:
    value: Any = found.get(name)
    if type(value) not in (int, float) or not abs(value) < _LATEST:
        raise _Damaged(f"{name} is not a time")


_LATEST = 1e12  # seconds since 1970
