"""A process that starts a server, and ends it and its folder with the process that wanted it.

Run as a file, with nothing but Python's own library: `python -I watchdog.py FOLDER LOG COMMAND…`.
It reads one word a line, does it and answers with a line: `start`, `stop`, `kill`, `poll`. When its
standard input ends, because its parent closed it or is gone, however that came about, it stops the
server and removes the folder. If the watchdog itself is killed, Linux kills the server.
"""

from __future__ import annotations

import contextlib
import ctypes
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable

_PATIENCE = 20.0  # seconds that a server may take to stop by itself
_DEATH_SIGNAL = 1  # PR_SET_PDEATHSIG


_IGNORED = (signal.SIGINT, signal.SIGHUP, signal.SIGTERM)


def _prepare_server() -> None:
    for sign in _IGNORED:  # what is ignored here would be ignored by the server, too
        signal.signal(sign, signal.SIG_DFL)
    # Elsewhere than on Linux there is no such call: the end of standard input has to do.
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_DEATH_SIGNAL, signal.SIGKILL)


class Server:
    """The server's process, or none."""

    def __init__(self, command: list[str], log: str) -> None:
        self.command, self.log = command, log
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> str:
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(
                self.command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                preexec_fn=_prepare_server,
            )
        return f"started {self.process.pid}"

    def poll(self) -> str:
        code = None if self.process is None else self.process.poll()
        return "running" if self.process is not None and code is None else f"ended {code}"

    def end(self, sign: int) -> str:
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(sign)
            try:
                self.process.wait(_PATIENCE)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        return self.poll()


def main(folder: str, log: str, *command: str) -> None:
    # Ctrl-C in a terminal and the like are the parent's business: it closes our standard input.
    for sign in _IGNORED:
        signal.signal(sign, signal.SIG_IGN)
    server = Server(list(command), log)
    actions: dict[str, Callable[[], str]] = {
        "start": server.start,
        "poll": server.poll,
        "stop": lambda: server.end(signal.SIGTERM),
        "kill": lambda: server.end(signal.SIGKILL),
    }
    try:
        for line in sys.stdin:
            print(actions[line.strip()](), flush=True)
    finally:
        server.end(signal.SIGTERM)
        if folder:
            shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
