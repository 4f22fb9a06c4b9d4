"""The page's server process: a socket, uvicorn, and how it ends."""

from __future__ import annotations

import socket
import threading
import time
from contextlib import suppress

from evenflow.dashboard.sources import Sources
from evenflow.model.errors import InputError

_MOST_PORTS = 65_535
_QUEUE = 128  # connections before the server begins
_WAIT = 10.0  # seconds for a server in a thread to begin


class PageServer:
    """Serves the page of some sources.

    The port is taken when it is made, so that the address can be printed before it runs.

    Parameters:
        sources: what it shows.
        token: that every request must have.
        host, port: where it listens; port 0 for any free one.
        allow_hosts: names that it answers under, besides localhost and plain addresses.
        idle: ends once nobody has been there for so many seconds; None for never.
    """

    def __init__(
        self,
        sources: Sources,
        token: str,
        host: str = "127.0.0.1",
        port: int = 0,
        allow_hosts: tuple[str, ...] = (),
        idle: float | None = None,
    ) -> None:
        try:
            import uvicorn

            from evenflow.dashboard.server import guarded
        except ModuleNotFoundError as error:
            raise InputError(
                f"the page needs {error.name}; install it with pip install 'evenflow[dashboard]'"
            ) from None
        self.sources, self.token, self.host = sources, token, host
        self._socket = _bound(host, port)
        self.port: int = self._socket.getsockname()[1]  #: where it listens
        self._idle = idle
        self._app = guarded(sources, token, self.port, (host, *allow_hosts))
        config = uvicorn.Config(
            self._app,  # type: ignore[arg-type]
            log_level="warning",
            access_log=False,  # addresses may have the token
            server_header=False,
            timeout_graceful_shutdown=1,
        )
        self._server = uvicorn.Server(config)

    @property
    def url(self) -> str:
        """The address with the token."""
        name = self.host
        if name in ("0.0.0.0", "::", ""):
            name = socket.gethostname()
            with suppress(OSError):
                name = socket.gethostbyname(name)  # an address: names must be allowed
        if ":" in name:
            name = f"[{name}]"
        return f"http://{name}:{self.port}/?token={self.token}"

    def run(self) -> None:
        """Serve until Ctrl-C or `stop`."""
        self.sources.start()
        if self._idle is not None:
            threading.Thread(target=self._end_when_idle, args=(self._idle,), daemon=True).start()
        try:
            self._server.run(sockets=[self._socket])
        finally:
            self.sources.stop()
            self._socket.close()

    def _end_when_idle(self, seconds: float) -> None:
        # An open page is sent a sign of life every few seconds.
        while time.monotonic() - self._app.answered < seconds:
            time.sleep(min(1.0, seconds / 10))
        self.stop()

    def stop(self) -> None:
        """End it."""
        self.sources.stop()
        self._server.should_exit = True

    def __enter__(self) -> PageServer:
        """Serve in a thread."""
        self._thread = threading.Thread(target=self.run, name="evenflow page", daemon=True)
        self._thread.start()
        until = time.monotonic() + _WAIT
        while not self._server.started and time.monotonic() < until:
            time.sleep(0.01)
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        self._thread.join(_WAIT)


def _bound(host: str, port: int) -> socket.socket:
    """A socket that takes connections already: whoever opens the printed address at once waits."""
    if not 0 <= port <= _MOST_PORTS:
        raise InputError(f"a port is a number from 0 to {_MOST_PORTS}, got {port}")
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        found = socket.socket(family, kind, protocol)
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        found.bind(address)
        found.listen(_QUEUE)
    except (OSError, OverflowError) as error:
        raise InputError(
            f"the page cannot listen on {host}, port {port}: {error}; choose another --port, or 0 for "
            "any free one"
        ) from None
    return found
