"""Processes of a fleet on this machine: started, found again, ended."""

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
    """Start `python -m module` as a process of its own, which goes on after this one; its number."""
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
    """What tells this process from all others, also from a later one with the same number."""
    return {"pid": os.getpid(), "began": _began(os.getpid()), "host": socket.gethostname()}


def alive(told: dict[str, Any]) -> bool | None:
    """Whether the process of that `identity` is there; None if it is on another machine."""
    if told.get("host") != socket.gethostname():
        return None
    began = _began(int(told["pid"]))
    return began is not None and began == told["began"]


def kill(told: dict[str, Any], patience: float = 10.0) -> bool:
    """SIGKILL the process, with Java and all that it has started; whether it is gone."""
    if not alive(told):
        return alive(told) is False
    with suppress(ProcessLookupError):
        os.killpg(int(told["pid"]), signal.SIGKILL)
    deadline = time.monotonic() + patience
    while alive(told) and time.monotonic() < deadline:
        with suppress(ChildProcessError):
            os.waitpid(int(told["pid"]), os.WNOHANG)  # if it is a child of ours, it is a zombie now
        time.sleep(0.02)
    return not alive(told)


def _began(pid: int) -> str | None:
    """When a process began, in the kernel's ticks; None if there is none, or only its remains."""
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
    """The same where there is no /proc."""
    told = subprocess.run(
        ["ps", "-o", "stat=,lstart=", "-p", str(pid)], capture_output=True, text=True
    ).stdout.split(maxsplit=1)
    return None if len(told) < 2 or told[0].startswith("Z") else told[1].strip()
