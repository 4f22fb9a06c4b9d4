"""`/metrics` in the process of a query, for Prometheus, as long as the query runs."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from evenflow.metrics.prometheus import CONTENT_TYPE, BatchCounters, exposition
from evenflow.model import InputError

_PAUSE = 0.5  # seconds between two looks whether a query still runs
_endpoints: dict[tuple[str, int], MetricsEndpoint] = {}  # of this process
_guard = threading.Lock()

OnBatch = Callable[[Mapping[str, Any]], object]


class MetricsEndpoint:
    """Serves the metrics of some queries of this process; they share a port if they name the same one.

    Guarantee: no key of the data is served, and nothing but `/metrics` is answered. The port is free
    again once the last of its queries has ended.

    Parameters:
        address, port: where it listens.
    """

    def __init__(self, address: str, port: int) -> None:
        self._queries: list[BatchCounters] = []
        endpoint = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                if self.path.partition("?")[0] != "/metrics":
                    self.send_error(404)
                    return
                content = exposition(list(endpoint._queries))
                self.send_response(200)
                self.send_header("Content-Type", CONTENT_TYPE)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, format: str, *args: Any) -> None:
                """Scrapes are no news."""

        try:
            self._server = ThreadingHTTPServer((address, port), Handler)
        except (OSError, OverflowError) as error:
            raise InputError(
                f"the metrics cannot be served on {address}, port {port}: {error}; choose another "
                'option "metricsPort", or leave it out'
            ) from None
        self._server.daemon_threads = True
        self.address, self.port = address, port
        threading.Thread(
            target=self._server.serve_forever, name="evenflow metrics", daemon=True
        ).start()

    @classmethod
    def add(cls, query: BatchCounters, address: str, port: int) -> MetricsEndpoint:
        """Serve a query's metrics, on a port that other queries of this process may have already."""
        with _guard:
            endpoint = _endpoints.get((address, port))
            if endpoint is None:
                endpoint = _endpoints[address, port] = cls(address, port)
            endpoint._queries.append(query)
            return endpoint

    def remove(self, query: BatchCounters) -> None:
        """Serve them no longer."""
        with _guard:
            self._queries = [one for one in self._queries if one is not query]
            if not self._queries and _endpoints.get((self.address, self.port)) is self:
                del _endpoints[self.address, self.port]
                self._server.shutdown()
                self._server.server_close()


class ServedMetrics:
    """The metrics of one query on an endpoint.

    Parameters:
        name: of the query.
        address, port: where Prometheus finds them.
    """

    def __init__(self, name: str, address: str, port: int) -> None:
        self._counters = BatchCounters(name)
        self._endpoint = MetricsEndpoint.add(self._counters, address, port)

    def beside(self, on_batch: OnBatch | None) -> OnBatch:
        """A function of a batch's metrics that counts them, and calls another one if there is one."""

        def both(metrics: Mapping[str, Any]) -> None:
            self._counters.take(metrics)
            if on_batch is not None:
                on_batch(metrics)

        return both

    def close(self) -> None:
        """Serve them no longer."""
        self._endpoint.remove(self._counters)

    def while_active(self, active: Callable[[], bool]) -> None:
        """Serve them until the query has ended, however it ends."""

        def wait() -> None:
            try:
                while active():
                    time.sleep(_PAUSE)
            finally:  # also if Spark itself has ended
                self.close()

        threading.Thread(target=wait, name="evenflow metrics", daemon=True).start()
