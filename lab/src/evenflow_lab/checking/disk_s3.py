"""An S3 server on loopback that writes to disk and survives its own death: versitygw, built with Go."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import ClassVar

from evenflow.model import InputError
from evenflow.spark.jars import OFFLINE, cache_folder, only_one
from evenflow_lab.checking.s3_endpoint import S3Endpoint
from evenflow_lab.checking.server import Server, free_port

#: The package that is built, by the version that was tested.
PACKAGE = "github.com/versity/versitygw/cmd/versitygw"
VERSION = "v1.8.0"

_LONGEST_BUILD = 1800.0  # seconds


def server_binary() -> Path:
    """The server's binary, built into the user's cache if it is not there yet; some minutes.

    Guarantee: concurrent or interrupted builds do no harm. Go verifies what it downloads with its
    checksum database.

    Example:
        >>> server_binary().name  # doctest: +SKIP
        'versitygw'
    """
    cache = cache_folder("versitygw")
    binary = cache / VERSION / "versitygw"
    if binary.is_file():
        return binary
    if os.environ.get(OFFLINE):
        raise InputError(
            f"versitygw was not built on this machine yet, and {OFFLINE} is set; unset it"
        )
    go = shutil.which("go")
    if go is None:
        raise InputError(
            "versitygw, the S3 server that writes to disk, is built with Go, and there is no go on the "
            "PATH; install Go from your system's packages or from https://go.dev/dl"
        )
    cache.mkdir(parents=True, exist_ok=True)
    with only_one(cache / "build.lock"):
        if not binary.is_file():
            _build(go, binary)
    return binary


def _build(go: str, binary: Path) -> None:
    made = Path(tempfile.mkdtemp(dir=binary.parent.parent, prefix="unfinished-"))
    try:
        built = subprocess.run(
            [go, "install", "-trimpath", "-ldflags=-s -w", f"{PACKAGE}@{VERSION}"],
            env={**os.environ, "GOBIN": str(made), "CGO_ENABLED": "0"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_LONGEST_BUILD,
        )
        if built.returncode:
            output = built.stderr.strip().splitlines() or ["no output"]
            raise InputError(
                f"{PACKAGE}@{VERSION} could not be built with {go}: {output[-1][:300]}; it needs a "
                "recent Go and access to a Go module proxy"
            )
        os.rename(made, binary.parent)
    except subprocess.TimeoutExpired:
        raise InputError(
            f"the build of {PACKAGE}@{VERSION} took longer than {_LONGEST_BUILD:.0f} s; try again: Go "
            "keeps what it has compiled"
        ) from None
    finally:
        shutil.rmtree(made, ignore_errors=True)


class DiskS3(Server):
    """versitygw on loopback, as a process of its own, with one bucket in a folder.

    Guarantee: as for `Server`. It has conditional writes (`If-None-Match: *`, `If-Match`) and checks
    signatures. What was acknowledged is there again after `kill` and `restart`, and an object is there
    whole or not at all.

    An object is a file of that name: there cannot be both `a` and `a/b`.

    Parameters:
        folder: where data and log lie, on a file system with extended attributes.
        port: on which it listens.
        own_folder: the folder is removed at the end.
        binary: the server's.
        bucket: the name of the bucket.

    Example:
        >>> with DiskS3.start() as server:  # doctest: +SKIP
        ...     server.kill()
        ...     server.restart()
    """

    product: ClassVar[str] = "versitygw"

    def __init__(
        self, folder: Path, port: int, own_folder: bool, binary: Path, bucket: str
    ) -> None:
        super().__init__(folder, port, own_folder)
        self._binary, self._bucket = binary, bucket

    @classmethod
    def start(
        cls, folder: str | Path | None = None, port: int = 0, bucket: str = "evenflow"
    ) -> DiskS3:
        """Build the server if need be, start it and create the bucket.

        Parameters:
            folder: for its data; one that a server left is used on. None for a temporary folder,
                which is removed at the end.
            port: to listen on; 0 for a free one (the same as before in a folder that is used on).
            bucket: the bucket's name.
        """
        return cls._start(folder, port, binary=server_binary(), bucket=bucket)

    @property
    def endpoint(self) -> S3Endpoint:
        """How clients reach the bucket."""
        return S3Endpoint(f"http://127.0.0.1:{self.port}", self._bucket)

    def prepare(self) -> list[str]:
        written = self.settings.read_text() if self.settings.is_file() else ""
        kept = re.fullmatch(r"port=(\d+)\n", written)
        self.port = self.port or (int(kept[1]) if kept else free_port())
        self.settings.write_text(f"port={self.port}\n")
        data = self.folder / "data"
        (data / self._bucket).mkdir(parents=True, exist_ok=True)  # a folder in its data is a bucket
        place = self.endpoint
        return [
            str(self._binary),
            *("--port", f"127.0.0.1:{self.port}", "--keep-alive", "--quiet"),
            *("--access", place.access_key, "--secret", place.secret_key),
            *("--region", place.region),
            *("posix", str(data)),
        ]
