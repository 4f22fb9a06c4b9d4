"""A small S3 server on loopback that keeps its objects in memory: moto's."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path
from typing import ClassVar
from urllib.request import Request, urlopen

from evenflow.model import InputError
from evenflow_lab.checking.s3_endpoint import S3Endpoint
from evenflow_lab.checking.server import Server, free_port


class S3Server(Server):
    """moto's S3 server on loopback, as a process of its own, with one bucket.

    Guarantee: as for `Server`. It has conditional writes (`If-None-Match: *`, `If-Match`). It checks no
    signatures, and its objects are gone with its process: `DiskS3` is for kills and load.

    Parameters:
        folder: where its log lies.
        port: on which it listens.
        own_folder: the folder is removed at the end.
        bucket: the name of the bucket.

    Example:
        >>> with S3Server.start() as server:  # doctest: +SKIP
        ...     store = from_url(server.endpoint.uri("x"), **server.endpoint.obstore_arguments)
    """

    product: ClassVar[str] = "moto's S3 server"

    def __init__(self, folder: Path, port: int, own_folder: bool, bucket: str) -> None:
        super().__init__(folder, port, own_folder)
        self._bucket = bucket

    @classmethod
    def start(
        cls, folder: str | Path | None = None, port: int = 0, bucket: str = "evenflow"
    ) -> S3Server:
        """Start it and create the bucket.

        Parameters:
            folder: for its log; None for a temporary folder, which is removed at the end.
            port: to listen on; 0 for a free one.
            bucket: the bucket's name.
        """
        if find_spec("moto") is None or find_spec("flask") is None:
            raise InputError("moto is missing; install it with: pip install 'moto[s3]' flask-cors")
        server = cls._start(folder, port, bucket=bucket)
        try:
            server._create_bucket()
        except BaseException:
            server.stop()
            raise
        return server

    @property
    def endpoint(self) -> S3Endpoint:
        """How clients reach the bucket."""
        return S3Endpoint(f"http://127.0.0.1:{self.port}", self._bucket)

    def prepare(self) -> list[str]:
        self.port = self.port or free_port()
        return [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(self.port)]

    def restart(self) -> None:
        """Start it again on the same port; the bucket is empty."""
        super().restart()
        self._create_bucket()

    def _create_bucket(self) -> None:
        place = f"{self.endpoint.url}/{self._bucket}"
        with urlopen(Request(place, method="PUT"), timeout=30):
            pass
