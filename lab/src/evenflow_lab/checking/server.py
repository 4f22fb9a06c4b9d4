"""Servers on loopback for tests and demos, each a process of its own that ends with its parent."""

from __future__ import annotations

import re
import shutil
import signal
import socket
import tempfile
import time
from abc import ABC, abstractmethod
from pathlib import Path
from types import TracebackType
from typing import Any, ClassVar, Self

from evenflow.model import InputError
from evenflow.spark.watchdog import Watchdog, last_words

_PORT_TAKEN = re.compile(r"Address already in use|BindException|in use by another", re.IGNORECASE)
_LONGEST_START = 90.0  # seconds
_TRIES = 4


class Server(ABC):
    """A server on loopback, as a process of its own under a watchdog.

    Guarantee: when a subclass's `start` returns, it takes requests. After `stop`, and also when the
    process that started it is killed, no process is left, and no file unless `folder` was given.

    Parameters:
        folder: where data, settings and the log lie.
        port: on which it listens; 0 until `prepare` has chosen one.
        own_folder: the folder is removed at the end.
    """

    product: ClassVar[str]  # for messages
    log_name: ClassVar[str] = "server.log"

    def __init__(self, folder: Path, port: int, own_folder: bool) -> None:
        self.folder, self.port, self._own_folder = folder, port, own_folder
        self._watchdog: Watchdog | None = None
        self._command: list[str] = []

    @classmethod
    def _start(cls, folder: str | Path | None, port: int, **given: Any) -> Self:
        """Start one, on another port if somebody was faster at the free one.

        Parameters:
            folder: None for a temporary folder, which is removed at the end.
            port: 0 for a free one.
            given: what else the class takes.
        """
        own_folder = folder is None
        prefix = f"evenflow-{cls.__name__.lower()}-"
        place = Path(tempfile.mkdtemp(prefix=prefix) if folder is None else folder)
        try:
            place.mkdir(parents=True, exist_ok=True)
            for attempt in range(_TRIES):
                server = cls(place.resolve(), port, own_folder, **given)
                try:
                    server._command = server.prepare()
                    server._watchdog = Watchdog(server.folder if own_folder else None)
                    server._launch()
                    return server
                except _PortTaken as error:
                    server._end_watchdog(keep=True)
                    if port or attempt == _TRIES - 1:
                        raise InputError(str(error)) from None
                    server.settings.unlink(missing_ok=True)
                except BaseException:
                    server._end_watchdog(keep=True)
                    raise
        except BaseException:
            if own_folder:
                shutil.rmtree(place, ignore_errors=True)
            raise
        raise AssertionError("unreachable")

    @abstractmethod
    def prepare(self) -> list[str]:
        """Choose the port if it is 0, write settings into the folder, and return the command."""

    def ready(self, said: str) -> bool:
        """Whether it takes requests; here, once it accepts connections.

        Parameters:
            said: its log since it was launched.
        """
        return accepts_connections(self.port)

    @property
    def settings(self) -> Path:
        """The file that `prepare` writes; a folder that is used on has its port from there."""
        return self.folder / "server.properties"

    @property
    def log(self) -> Path:
        """The file with its output."""
        return self.folder / self.log_name

    @property
    def last_words(self) -> str:
        """The last error in its log, or the last line."""
        return last_words(_text(self.log))

    @property
    def running(self) -> bool:
        """Whether its process is alive."""
        return self._watchdog is not None and self._watchdog.poll(self.product) == "running"

    def kill(self) -> None:
        """End it at once, as `kill -9` does; its folder stays for `restart`."""
        self._watching().end(self.product, signal.SIGKILL)

    def pause(self) -> None:
        """Shut it down in good order; its folder stays for `restart`."""
        self._watching().end(self.product)

    def restart(self) -> None:
        """Start it again on the same port and folder, after `kill` or `pause`."""
        if self.running:
            self.pause()
        self._launch()

    def stop(self) -> None:
        """End it and leave nothing behind; may be called again."""
        self._end_watchdog(keep=False)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def _launch(self) -> None:
        """Start the process and wait until it takes requests."""
        said_before = self.log.stat().st_size if self.log.is_file() else 0
        watchdog = self._watching()
        watchdog.start(self.product, self._command, self.log)
        end = time.monotonic() + _LONGEST_START
        while True:
            # The process is asked about last: a stranger may answer on a port that it did not get.
            is_ready = self.ready(_text(self.log, said_before))
            state = watchdog.poll(self.product)
            if is_ready and state == "running":
                return
            if state != "running" or time.monotonic() > end:
                watchdog.end(self.product, signal.SIGKILL)
                said = _text(self.log, said_before)
                if _PORT_TAKEN.search(said):
                    raise _PortTaken(
                        f"{self.product} did not start: port {self.port} of this machine is taken; "
                        "choose another, or 0 for a free one"
                    )
                raise InputError(
                    f"{self.product} did not start ({state}): {last_words(said)}; more in {self.log}, "
                    "if that folder was given"
                )
            time.sleep(0.05)

    def _watching(self) -> Watchdog:
        if self._watchdog is None:
            name = type(self).__name__
            raise InputError(f"{self.product} was stopped; start another one with {name}.start()")
        return self._watchdog

    def _end_watchdog(self, keep: bool) -> None:
        watchdog, self._watchdog = self._watchdog, None
        if watchdog is not None:
            watchdog.close(keep)  # kept where the folder is needed for another try


class _PortTaken(Exception):
    """Somebody was faster at the free port."""


def free_port() -> int:
    """A port of loopback that nobody listens on now.

    Example:
        >>> 1024 <= free_port() < 65536
        True
    """
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def accepts_connections(port: int) -> bool:
    """Whether somebody listens on this port of loopback.

    Parameters:
        port: the port.
    """
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=1):
            return True
    except OSError:
        return False


def _text(path: Path, start: int = 0) -> str:
    if not path.is_file():
        return ""
    with open(path, "rb") as file:
        file.seek(start)
        return file.read().decode(errors="replace")
