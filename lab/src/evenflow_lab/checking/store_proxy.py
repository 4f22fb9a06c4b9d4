"""A proxy in front of a store on loopback: it injects faults and latency, and counts requests."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

from evenflow.model import InputError
from evenflow_lab.checking.server import Server, free_port
from evenflow_lab.checking.store_proxy_process import KINDS


@dataclass(frozen=True)
class Faults:
    """What the proxy does to requests. The draws follow from `seed` and the order of the requests.

    Parameters:
        faults: the share of requests for each kind: `error` (500), `unavailable` (503), `throttle`
            (503 with S3's `SlowDown`), `timeout` (nothing happens, and after `hold` seconds the
            connection is closed), `lost_reply` (the store does what was asked, and the connection is
            closed without an answer), `slow_read` (the answer trickles for `slow` seconds or longer).
        latency: seconds by which each request is delayed.
        hold: see `timeout`.
        slow: see `slow_read`.
        seed: of the draws.
        only: the kinds of requests that may be harmed (as in `counts`); all if empty.

    Example:
        >>> Faults(faults={"throttle": 0.05}, latency=0.02).latency
        0.02
        >>> Faults.evenly(0.06).faults["lost_reply"]
        0.01
    """

    faults: dict[str, float] = field(default_factory=dict)
    latency: float = 0.0
    hold: float = 5.0
    slow: float = 2.0
    seed: int = 0
    only: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        unknown = sorted(set(self.faults) - set(KINDS))
        if unknown:
            raise InputError(f"there is no fault {unknown[0]!r}; choose from {', '.join(KINDS)}")
        if min(self.faults.values(), default=0) < 0 or sum(self.faults.values()) > 1 + 1e-9:
            raise InputError(f"shares of requests must be positive and at most 1: {self.faults}")

    @classmethod
    def evenly(cls, share: float, **others: Any) -> Faults:
        """All kinds of faults, with equal parts of a share of the requests.

        Parameters:
            share: of all requests, such as 0.05.
            others: the other settings.
        """
        return cls(faults={kind: share / len(KINDS) for kind in KINDS}, **others)


class StoreProxy(Server):
    """A proxy on loopback in front of an S3 or WebHDFS server, as a process of its own.

    Guarantee: as for `Server`. It changes nothing that a signature covers: the `Host` that a client
    signed reaches the store. Without faults every answer is the store's.

    Parameters:
        folder: where its log lies.
        port: on which it listens.
        own_folder: the folder is removed at the end.
        target: the store's address, such as `http://127.0.0.1:9000`.
        faults: what it does to requests at first.

    Example:
        >>> with S3Server.start() as server:  # doctest: +SKIP
        ...     with StoreProxy.start(server.endpoint.url, Faults.evenly(0.05)) as proxy:
        ...         place = server.endpoint.through(proxy.url)
    """

    product: ClassVar[str] = "the store's proxy"

    def __init__(
        self, folder: Path, port: int, own_folder: bool, target: str, faults: Faults
    ) -> None:
        super().__init__(folder, port, own_folder)
        self._target, self._faults = target, faults

    @classmethod
    def start(
        cls,
        target: str,
        faults: Faults | None = None,
        folder: str | Path | None = None,
        port: int = 0,
    ) -> StoreProxy:
        """Start it.

        Parameters:
            target: the store's address on loopback.
            faults: what it does to requests; None for no harm.
            folder: for its log; None for a temporary folder, which is removed at the end.
            port: to listen on; 0 for a free one.
        """
        place = urlsplit(target)
        if place.scheme != "http" or place.hostname not in ("127.0.0.1", "localhost"):
            raise InputError(f"the proxy takes a store on http://127.0.0.1:…, not {target!r}")
        return cls._start(folder, port, target=target, faults=faults or Faults())

    @property
    def url(self) -> str:
        """Its address, for clients to use instead of the store's."""
        return f"http://127.0.0.1:{self.port}"

    def prepare(self) -> list[str]:
        self.port = self.port or free_port()
        process = str(Path(__file__).with_name("store_proxy_process.py"))
        target = str(urlsplit(self._target).port or 80)
        settings = json.dumps(asdict(self._faults))
        return [sys.executable, "-I", process, str(self.port), target, settings]

    def inject(self, faults: Faults) -> None:
        """From now on do this to requests, and begin the draws again with the seed.

        Parameters:
            faults: all settings.
        """
        self._control("PUT", "settings", json.dumps(asdict(faults)).encode())

    def counts(self) -> dict[str, Any]:
        """The requests since the start or `reset`: `requests`, `methods`, `kinds`, `faults`, bytes.

        A kind is GET, PUT, HEAD, LIST, DELETE, DELETE_SEVERAL, COPY or MULTIPART, or the operation of
        WebHDFS.
        """
        return self._control("GET", "counts")

    def reset(self) -> None:
        """Count from nothing again."""
        self._control("DELETE", "counts")

    def _control(self, method: str, what: str, content: bytes | None = None) -> dict[str, Any]:
        request = Request(f"{self.url}/__proxy/{what}", content, method=method)
        with urlopen(request, timeout=30) as reply:
            answer: dict[str, Any] = json.load(reply)
            return answer
