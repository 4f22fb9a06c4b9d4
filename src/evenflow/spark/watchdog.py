"""A process that starts servers, and ends them and their folder with the process that wanted them.

`Watchdog` is the side of that process. The other side is this file run as a program, with nothing but
Python's own library: `python -I watchdog.py FOLDER`. It reads one request per line, as JSON, carries it
out and answers with a line. When its standard input ends, because its parent closed it or is gone,
however that came about, it ends the servers with all their children and removes the folder. If the
watchdog itself is killed, Linux kills the servers.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

_PATIENCE = 20.0  # seconds that servers may take to stop by themselves
_DEATH_SIGNAL, _SUBREAPER = 1, 36  # PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER
_IGNORED = (signal.SIGINT, signal.SIGHUP, signal.SIGTERM)


class Watchdog:
    """Starts servers that end with this process, however it ends.

    Guarantee: after `close`, and also when this process is killed, none of the servers is left and, on
    Linux, none of the processes that they started; the folder is gone.

    Parameters:
        folder: removed at the end; None for none.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self._lock = threading.Lock()
        self._process = subprocess.Popen(
            [sys.executable, "-I", __file__, "" if folder is None else str(folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def start(
        self, name: str, command: Sequence[str], log: Path, env: Mapping[str, str] | None = None
    ) -> int:
        """Start a server, or start it again; its process id.

        Parameters:
            log: what it prints is appended to this file.
            env: its environment; None for that of this process.
        """
        environment = dict(os.environ if env is None else env)
        answer = self._ask(do="start", name=name, command=[*command], log=str(log), env=environment)
        if not answer.isdecimal():
            raise OSError(f"{command[0]} did not start: {answer}")
        return int(answer)

    def poll(self, name: str) -> str:
        """`running`, or `ended` with the exit code."""
        return self._ask(do="poll", name=name)

    def end(self, name: str, sign: signal.Signals = signal.SIGTERM) -> str:
        """End a server with a signal, and wait until it has ended."""
        return self._ask(do="end", name=name, sign=int(sign))

    def close(self, keep: bool = False) -> None:
        """End everything and remove the folder, unless it is to be kept; may be called again."""
        process = self._process
        with self._lock:
            if process.stdin is None or process.stdin.closed:
                return
            if keep:
                with contextlib.suppress(BrokenPipeError):
                    process.stdin.write('{"do": "keep"}\n')
                    process.stdin.flush()
            with contextlib.suppress(BrokenPipeError):
                process.stdin.close()
            process.wait()
            if process.stdout is not None:
                process.stdout.close()

    def _ask(self, **request: Any) -> str:
        with self._lock:
            stdin, stdout = self._process.stdin, self._process.stdout
            assert stdin is not None
            assert stdout is not None
            if stdin.closed:
                return "ended"
            try:
                stdin.write(json.dumps(request) + "\n")
                stdin.flush()
                return stdout.readline().strip() or "ended"
            except BrokenPipeError:
                return "ended"


def descendants(pid: int) -> list[int]:
    """The processes that a process has started, and those that they have; needs Linux's /proc."""
    parents: dict[int, int] = {}
    for entry in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError, IndexError, ValueError):
            # The second field is the command in parentheses and may hold anything, also blanks.
            state, parent = entry.read_text(errors="replace").rpartition(")")[2].split()[:2]
            if state != "Z":
                parents[int(entry.parent.name)] = int(parent)
    found = [pid]
    for one in found:
        found += [child for child, parent in parents.items() if parent == one]
    return found[1:]


def last_words(said: str) -> str:
    """The last error in what a server printed, or else its last line.

    Example:
        >>> last_words("starting\\n12:00 ERROR no room\\nbye")
        '12:00 ERROR no room'
    """
    errors = [line for line in said.splitlines() if re.search(r"ERROR|FATAL|Exception", line)]
    return " ".join((errors or said.splitlines() or ["it said nothing"])[-1].split())[:300]


# --- the program -------------------------------------------------------------------------------------


class _Servers:
    def __init__(self) -> None:
        self.running: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, name: str, command: list[str], log: str, env: dict[str, str]) -> str:
        with open(log, "ab") as file:
            server = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                env=env,
                preexec_fn=_prepare_server,
            )
        self.running[name] = server
        return str(server.pid)

    def poll(self, name: str) -> str:
        code = self.running[name].poll() if name in self.running else None
        return "running" if name in self.running and code is None else f"ended {code}"

    def end(self, name: str, sign: int) -> str:
        if name in self.running:
            self._end([self.running[name]], sign)
        return self.poll(name)

    def end_all(self) -> None:
        self._end(list(self.running.values()), signal.SIGTERM)
        for pid in descendants(os.getpid()):  # orphans, maybe paused ones
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def _end(self, servers: list[subprocess.Popen[bytes]], sign: int) -> None:
        for server in servers:
            server.send_signal(sign)
            server.send_signal(signal.SIGCONT)  # a paused one would not notice
        until = time.monotonic() + _PATIENCE
        for server in servers:
            try:
                server.wait(max(0.0, until - time.monotonic()))
            except subprocess.TimeoutExpired:
                server.kill()
                server.wait()


def _prepare_server() -> None:
    for sign in _IGNORED:  # what is ignored here would be ignored by the server, too
        signal.signal(sign, signal.SIG_DFL)
    _prctl(_DEATH_SIGNAL, signal.SIGKILL)


def _prctl(option: int, value: int) -> None:
    # Elsewhere than on Linux there is no such call: the end of standard input has to do.
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(option, value)


def main(folder: str) -> None:
    # Ctrl-C in a terminal and the like are the parent's business: it closes our standard input.
    for sign in _IGNORED:
        signal.signal(sign, signal.SIG_IGN)
    _prctl(_SUBREAPER, 1)  # children of a server that was killed become ours
    servers = _Servers()
    keep = False
    actions: dict[str, Callable[..., str]] = {
        "start": servers.start,
        "poll": servers.poll,
        "end": servers.end,
    }
    try:
        for line in sys.stdin:
            request = json.loads(line)
            do = request.pop("do")
            if do == "keep":
                keep = True
                continue
            try:
                print(actions[do](**request), flush=True)
            except OSError as error:
                print(f"ended: {error}", flush=True)
    finally:
        servers.end_all()
        if folder and not keep:
            shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
