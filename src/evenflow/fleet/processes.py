"""Processes of a fleet on this machine: start, check, kill."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from evenflow.model.processes import alive, identity

__all__ = ["alive", "identity", "kill", "responding", "start"]


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
