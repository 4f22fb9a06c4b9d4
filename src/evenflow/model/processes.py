"""Which process is this, and is it still there?"""

from __future__ import annotations

import os
import socket
import subprocess
from functools import cache
from pathlib import Path
from typing import Any


def identity(pid: int | None = None) -> dict[str, Any]:
    """What distinguishes a process of this machine from all others, also from later ones of its pid.

    Parameters:
        pid: of the process; this one if not given.
    """
    pid = os.getpid() if pid is None else pid
    return {"pid": pid, "began": _state(pid)[1], "host": socket.gethostname(), "machine": machine()}


def alive(process: dict[str, Any]) -> bool | None:
    """Whether the process with this `identity` exists; None if it is on another machine."""
    if process.get("machine") != machine() or not _is_pid(process.get("pid")):
        return None
    began = _state(int(process["pid"]))[1]
    return began is not None and began == process.get("began")


def _is_pid(found: Any) -> bool:
    return type(found) is int and 0 < found < 2**31


def stopped(process: dict[str, Any]) -> bool:
    """Whether a process that is alive on this machine was stopped, as SIGSTOP does."""
    return _state(int(process["pid"]))[0] in ("T", "t")


@cache
def machine() -> str:
    """A name for the machine and, in a container, for its processes: pids mean the same there alone."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{socket.gethostname()} {boot} {os.readlink('/proc/self/ns/pid')}"
    except OSError:  # not Linux: the host's name must do
        return socket.gethostname()


def _state(pid: int) -> tuple[str, str | None]:
    """A process's state and when it started, in kernel ticks; None if there is none, or a zombie."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except FileNotFoundError:
        if Path("/proc/self/stat").exists():
            return "", None
        return _state_by_ps(pid)
    except ProcessLookupError:
        return "", None
    return fields[0], None if fields[0] in "ZX" else fields[19]


def _state_by_ps(pid: int) -> tuple[str, str | None]:
    """The same on systems without /proc."""
    found = subprocess.run(
        ["ps", "-o", "stat=,lstart=", "-p", str(pid)], capture_output=True, text=True
    ).stdout.split(maxsplit=1)
    if len(found) < 2 or found[0].startswith("Z"):
        return "", None
    return found[0][0], found[1].strip()
