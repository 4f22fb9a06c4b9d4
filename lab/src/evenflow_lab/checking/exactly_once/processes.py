"""Drivers as processes: started, watched, and killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from uuid import uuid4

_DRIVER = "evenflow_lab.checking.exactly_once.driver"


class Driver:
    """One run of a driver beside this file. Whatever it leaves running ends with the `with` block.

    Parameters:
        arguments: of its command line.
        before: called in the new process before the driver starts.
        module: the driver.
        environment: variables besides those of this process.
    """

    def __init__(
        self,
        *arguments: object,
        before: Callable[[], object] | None = None,
        module: str = _DRIVER,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self._mark = f"EVENFLOW_TEST_DRIVER={uuid4().hex}"
        name, _, value = self._mark.partition("=")
        self._said = tempfile.TemporaryFile()  # noqa: SIM115 — not a pipe: it blocks when full
        self.process = subprocess.Popen(
            [sys.executable, "-m", module, *map(str, arguments)],
            stdout=subprocess.DEVNULL,
            stderr=self._said,
            env={**os.environ, **(environment or {}), name: value},
            preexec_fn=before,
        )

    def __enter__(self) -> Driver:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill(everybody=True)
        self._said.close()

    @property
    def running(self) -> bool:
        return self.process.poll() is None

    def wait(self, seconds: float = 600) -> tuple[int, str]:
        """Its exit code, and what it said on standard error."""
        code = self.process.wait(seconds)
        self._said.seek(0)
        return code, self._said.read().decode(errors="replace")

    def kill(self, everybody: bool) -> None:
        """SIGKILL: the Python driver alone, or its JVM and its Python workers, too."""
        self.process.kill()
        for pid in self.family() if everybody else []:
            _signal(pid, signal.SIGKILL)
        self.process.wait()

    def pause(self) -> None:
        """SIGSTOP to all of them, as for a machine that is paused."""
        for pid in self.family():
            _signal(pid, signal.SIGSTOP)

    def resume(self) -> None:
        """Let them go on."""
        for pid in self.family():
            _signal(pid, signal.SIGCONT)

    def family(self) -> list[int]:
        """The driver, its JVMs and their Python workers: all that have inherited its mark. Unlike the
        number of a process, that of a dead driver is never given to anybody else."""
        mark = self._mark.encode()
        return [pid for pid in _processes() if mark in _read_proc(pid, "environ").split(b"\0")]

    def executors(self) -> list[int]:
        """The JVMs of a local cluster's executors."""
        name = b"CoarseGrainedExecutorBackend"
        return [pid for pid in self.family() if name in _read_proc(pid, "cmdline")]


def wait_for(
    what: Callable[[], bool], driver: Driver, seconds: float = 300, every: float = 0.0005
) -> bool:
    """Watch until something is so; False if the driver ends, or time runs out, before.

    Parameters:
        every: so many seconds; longer where looking is a request to a store.
    """
    end = time.monotonic() + seconds
    while driver.running and time.monotonic() < end:
        if what():
            return True
        time.sleep(every)
    return False


def names_in(directory: Path) -> set[str]:
    try:
        return set(os.listdir(directory))
    except FileNotFoundError:
        return set()


def _signal(pid: int, number: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, number)


def _processes() -> Iterable[int]:
    return (int(name) for name in os.listdir("/proc") if name.isdigit())


def _read_proc(pid: int, what: str) -> bytes:
    try:
        return Path(f"/proc/{pid}/{what}").read_bytes()
    except OSError:  # it has ended, or is somebody else's
        return b""
