"""Processes of a fleet on this machine: start, check, kill."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any


def start(module: str, arguments: list[str], log: Path) -> int:
    """Start `python -m module` as a process that outlives this one; return its pid."""
    with open(log, "ab") as file:
        process = subprocess.Popen(
            [sys.executable, "-m", module, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=file,
            start_new_session=True,
        )
    return process.pid


def identity() -> dict[str, Any]:
    """What distinguishes this process from all others, including a later one with the same pid."""
    return {"pid": os.getpid(), "began": _began(os.getpid()), "host": socket.gethostname()}


def alive(process: dict[str, Any]) -> bool | None:
    """Whether the process with this `identity` exists; None if it is on another machine."""
    if process.get("host") != socket.gethostname():
        return None
    began = _began(int(process["pid"]))
    return began is not None and began == process["began"]


def responding(report: dict[str, Any], dead_after: float) -> bool:
    """Whether the process of a node's report is alive, as far as known, and the report is recent."""
    recent: bool = time.time() - report["time"] < dead_after
    return recent and alive(report) is not False


def kill(process: dict[str, Any], timeout: float = 10.0) -> bool:
    """SIGKILL the process with its children, Java included; return whether it is gone."""
    if not alive(process):
        return alive(process) is False
    with suppress(ProcessLookupError):
        os.killpg(int(process["pid"]), signal.SIGKILL)
    deadline = time.monotonic() + timeout
    while alive(process) and time.monotonic() < deadline:
        with suppress(ChildProcessError):
            os.waitpid(int(process["pid"]), os.WNOHANG)  # a child of ours is a zombie until then
        time.sleep(0.02)
    return not alive(process)


def _began(pid: int) -> str | None:
    """When a process started, in kernel ticks; None if there is none, or only a zombie."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except FileNotFoundError:
        if Path("/proc/self/stat").exists():
            return None
        return _began_by_ps(pid)
    except ProcessLookupError:
        return None
    return None if fields[0] in "ZX" else fields[19]


def _began_by_ps(pid: int) -> str | None:
    """The same on systems without /proc."""
    found = subprocess.run(
        ["ps", "-o", "stat=,lstart=", "-p", str(pid)], capture_output=True, text=True
    ).stdout.split(maxsplit=1)
    return None if len(found) < 2 or found[0].startswith("Z") else found[1].strip()
